"""Databases of dsh as sources, and their rows as lines."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path

from playhead.adapters.dsh import sqlite_rows
from playhead.adapters.dsh.discover import APPLICATION_ID
from playhead.adapters.dsh.sqlite import Database, DatabaseSession, Refused
from playhead.adapters.dsh.sqlite_rows import MalformedRow, Row, Text, line_of, record_of
from playhead.eventstore import envelope, json_text
from playhead.eventstore.errors import CorruptLog, NotALog
from playhead.eventstore.ids import SessionId

SCHEMA_17 = """
CREATE TABLE persistence_state (singleton INTEGER PRIMARY KEY, store_id TEXT NOT NULL) STRICT;
CREATE TABLE sessions (id TEXT PRIMARY KEY, version INTEGER NOT NULL, created_at INTEGER NOT NULL, cwd TEXT,
  parent_session TEXT, seed_length INTEGER, origin TEXT, delegation_depth INTEGER, agent_preset TEXT,
  incarnation TEXT NOT NULL, revision INTEGER NOT NULL) STRICT;
CREATE TABLE events (session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
  type TEXT NOT NULL, time INTEGER NOT NULL, data ANY NOT NULL, source_event_seqs ANY, surface_op TEXT,
  ignorable INTEGER CHECK (ignorable IS NULL OR ignorable IN (0, 1)), PRIMARY KEY (session_id, seq)) STRICT;
"""


def database(file: Path, *rows: tuple[Any, ...], schema: int = 17, application: int = APPLICATION_ID) -> Path:
    """A database with the session s1, and these rows of it: all columns behind the session."""
    connection = sqlite3.connect(file)
    connection.executescript(
        f"PRAGMA application_id = {application}; PRAGMA user_version = {schema}; {SCHEMA_17}"
    )
    connection.execute(
        "INSERT INTO sessions VALUES ('s1', 0, 5, '/w/p', NULL, NULL, NULL, NULL, NULL, 'i', 1)"
    )
    connection.executemany("INSERT INTO events VALUES ('s1', ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return file


def sessions(file: Path) -> dict[str, tuple[bytes, list[bytes], list[str]]]:
    """By session: its header line, its lines, and the kinds of what was found."""
    read = {}
    with Database(str(file), str(file.parent), file.name) as opened:
        for session in opened.sessions():
            assert isinstance(session, DatabaseSession)
            lines = b"".join(session.blocks()).split(b"\n")[:-1]
            read[session.header.id] = (
                session.header_line,
                lines,
                [one.kind for one in session.shape.findings],
            )
    return read


def stored(columns: dict[str, Any]) -> Row:
    """A row as the database gives it, from the columns of a vector."""
    values = dict(columns)
    for name in ("type", "data", "surface_op"):
        if isinstance(values[name], str):
            values[name] = Text(values[name].encode())
    if values["source_event_seqs"] is not None:
        values["source_event_seqs"] = bytes.fromhex(values["source_event_seqs"])
    return Row(**values)


def expanded(value: Any) -> Any:
    """A vector value with its long texts written out."""
    if isinstance(value, dict) and value.keys() == {"repeat", "times"}:
        return value["repeat"] * value["times"]
    return {key: expanded(one) for key, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("case", cases("sqlite_rows", "row_columns"))
def test_a_row_is_the_record_that_was_stored(case: dict[str, Any]) -> None:
    record, columns = expanded(case["record"]), dict(case["columns"])
    if isinstance(columns["data"], dict):
        text = json_text.dumps(record["data"])
        if "text_bytes" in columns["data"]:
            assert len(text) == columns["data"]["text_bytes"]
            columns["data"] = Text(text)
        else:
            columns["data"] = zstandard.ZstdCompressor(level=3).compress(text)
    row = stored(columns)
    assert record_of(row) == record
    line, problem = line_of(row)
    assert (json_text.parse(line), problem) == (record, None)


@pytest.mark.parametrize("case", cases("sqlite_rows", "scans"))
def test_a_bad_row_is_a_removable_tail_or_committed_corruption(case: dict[str, Any]) -> None:
    rows = [stored(columns) for columns in case["rows"]]
    if "error" in case:
        with pytest.raises(CorruptLog) as caught:
            sqlite_rows.scan(rows, case["base"])
        assert caught.value.kind == case["error"]
    else:
        assert sqlite_rows.scan(rows, case["base"]) == (case["seqs"], case["tornFrom"])


@pytest.mark.parametrize("case", cases("sqlite_rows", "bad_source_blobs"))
def test_sources_that_do_not_decode_are_reported_and_the_event_is_kept(case: dict[str, Any]) -> None:
    blob = bytes.fromhex(case["blob_hex"])
    row = Row(7, Text(b"assistant/message"), 1, Text(b"{}"), blob, Text(b'"append"'), None)
    with pytest.raises(MalformedRow, match="source_event_seqs"):
        record_of(row)
    line, problem = line_of(row)
    [fact] = envelope.facts(line, SessionId("s1"))
    assert (fact.seq, fact.source_seqs, fact.surface_op) == (7, None, "append")
    assert problem is not None


def test_stored_texts_stand_in_the_line_verbatim() -> None:
    data = b'{ "b":1.0,\t"a":1E3,"s":"\\u00e9\\/"}'
    row = Row(3, Text(b"x/y"), 5, Text(data), Text(b"[1, 2]"), Text(b'"append"'), 1)
    expected = (
        b'{"type":"x/y","seq":3,"time":5,"data":'
        + data
        + b',"ignorable":true,"sourceEventSeqs":[1, 2],"surfaceOp":"append"}'
    )
    assert line_of(row) == (expected, None)


def test_a_line_break_in_a_stored_text_becomes_a_blank() -> None:
    line, problem = line_of(Row(0, Text(b"x/y"), 5, Text(b'{\r\n"a":\n1}'), None, None, None))
    assert (line, problem) == (b'{"type":"x/y","seq":0,"time":5,"data":{  "a": 1}}', None)


@pytest.mark.parametrize(
    "data",
    [Text(b"{oops"), Text(b'1},{"type":"turn/end","seq":9'), Text(b"NaN"), b"no frame", Text(b""), 5, None],
)
def test_data_that_is_no_json_stands_for_no_fact_and_is_kept(data: Any) -> None:
    line, problem = line_of(Row(2, Text(b"x/y"), 1, data, None, None, None))
    assert problem is not None
    assert envelope.facts(line, SessionId("s1")) == []
    assert json_text.parse(line)["undecodableRow"]["seq"] == 2
    if isinstance(data, Text):
        assert json_text.parse(line)["undecodableRow"]["data"] == data.decode()


def test_an_unquoted_operation_is_not_taken_for_an_append() -> None:
    line, problem = line_of(Row(0, Text(b"user/message"), 1, Text(b"{}"), None, Text(b"append"), None))
    [fact] = envelope.facts(line, SessionId("s1"))
    assert fact.surface_op is None
    assert problem is not None


values = (
    st.none()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.binary(max_size=12)
    | st.binary(max_size=12).map(Text)
    | st.sampled_from([Text(b"{}"), Text(b"text-chunks"), Text(b'{"op":"replace","start":0,"end":0}')])
)


@given(st.tuples(*[values] * 7))
def test_any_row_is_a_line_and_a_good_one_reads_back(columns: tuple[Any, ...]) -> None:
    row = Row(*columns)
    line, problem = line_of(row)
    assert b"\n" not in line
    assert b"\r" not in line
    envelope.view(line)
    if problem is None:
        assert json_text.dumps(json_text.parse(line)) == json_text.dumps(record_of(row))
    else:
        with pytest.raises(MalformedRow):
            record_of(row)


def test_a_database_gives_its_sessions_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    chunks = '{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","b","c"]}'
    file = database(
        tmp_path / "a.db",
        (0, "turn/start", 1, '{"turn":1}', None, None, None),
        (1, "text-chunks", 1, chunks, None, None, 0),
        (4, "x/y", 1, "{oops", None, None, None),
        (5, "turn/end", 1, '{"turn":1}', None, None, None),
    )
    header, lines, kinds = sessions(file)["s1"]
    assert header == b'{"type":"session","version":0,"id":"s1","createdAt":5,"cwd":"/w/p"}'
    assert [envelope.view(line).n for line in lines] == [1, 3, 0, 1]
    assert kinds == ["bad-row"]


def test_a_database_that_is_written_is_read_with_its_wal_and_left_as_it_is(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db", (0, "turn/start", 1, '{"turn":1}', None, None, None))
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO events VALUES ('s1', 1, 'turn/end', 2, '{}', NULL, NULL, NULL)")
    writer.commit()
    before = state(tmp_path)
    try:
        assert len(sessions(file)["s1"][1]) == 2
        with Database(str(file), "", "a.db") as opened:
            assert list(opened.files) == ["", "-wal"]
            list(opened.sessions())
            for ending, copy in opened.files.items():
                assert Path(copy).read_bytes() == Path(f"{file}{ending}").read_bytes()
        assert state(tmp_path) == before
    finally:
        writer.close()


def state(folder: Path) -> dict[str, tuple[str, int]]:
    """Hash and time of every file below a folder."""
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(folder.iterdir())
        if not file.name.endswith("-shm")
    }


@pytest.mark.parametrize(
    ("schema", "application", "kind"),
    [
        (17, 7, "not-dsh-database"),
        (16, APPLICATION_ID, "unknown-schema"),
        (18, APPLICATION_ID, "unknown-schema"),
    ],
)
def test_an_unknown_database_is_refused(tmp_path: Path, schema: int, application: int, kind: str) -> None:
    file = database(tmp_path / "a.db", schema=schema, application=application)
    with Database(str(file), "", "a.db") as opened, pytest.raises(NotALog) as caught:
        list(opened.sessions())
    assert caught.value.kind == kind


@pytest.mark.parametrize("change", ["DROP TABLE events", "ALTER TABLE events RENAME COLUMN time TO at"])
def test_a_database_without_the_tables_is_refused(tmp_path: Path, change: str) -> None:
    file = database(tmp_path / "a.db")
    connection = sqlite3.connect(file)
    connection.execute(change)
    connection.close()
    with Database(str(file), "", "a.db") as opened, pytest.raises(NotALog, match=r"events|time"):
        list(opened.sessions())


def test_a_session_without_a_usable_header_is_refused_alone(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db")
    connection = sqlite3.connect(file)
    for session, version, created in (("", 0, 1), ("new", 9, 1), ("old", 0, -1)):
        row = (session, version, created)
        connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, NULL, NULL, NULL, NULL, NULL, NULL, 'i', 1)", row
        )
    connection.commit()
    connection.close()
    with Database(str(file), "", "a.db") as opened:
        read = list(opened.sessions())
    refused = [session.refusal.kind for session in read if isinstance(session, Refused)]
    assert refused == ["bad-header", "newer-format", "bad-header"]
    assert [session.path for session in read if isinstance(session, DatabaseSession)] == ["a.db/s1"]


def test_events_of_no_session_are_reported(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db")
    connection = sqlite3.connect(file)
    connection.execute("INSERT INTO events VALUES ('gone', 0, 'x/y', 1, '{}', NULL, NULL, NULL)")
    connection.commit()
    connection.close()
    with Database(str(file), "", "a.db") as opened:
        assert [finding.kind for finding in opened.findings()] == ["orphan-rows"]


def test_a_damaged_database_gives_what_can_be_read_or_is_refused(tmp_path: Path) -> None:
    rows = [(seq, "x/y", 1, '{"text":"' + "a" * 300 + '"}', None, None, None) for seq in range(300)]
    whole = database(tmp_path / "a.db", *rows).read_bytes()
    damaged = tmp_path / "b.db"
    read = 0
    for start in range(0, len(whole), 4096):
        damaged.write_bytes(whole[:start] + b"\xa5" * 4096 + whole[start + 4096 :])
        with Database(str(damaged), "", "b.db") as opened:
            try:
                found = [session for session in opened.sessions() if isinstance(session, DatabaseSession)]
            except NotALog:
                continue
            for session in found:
                lines = b"".join(session.blocks()).count(b"\n")
                assert lines == 300 or session.shape.findings
                read += lines
    assert read > 300


def test_a_database_that_is_gone_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(NotALog) as caught:
        Database(str(tmp_path / "a.db"), "", "a.db")
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize(("runtime", "schema"), [("0.1.0rc6", 15), ("0.1.1rc1", 17)])
def test_recorded_databases_are_the_same_with_and_without_their_wal(
    tmp_path: Path, runtime: str, schema: int
) -> None:
    source = shared_path(f"corpus/dsh/{runtime}/sqlite")
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    for folder, _, files in os.walk(copy):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o600)
    clean, live = sessions(copy / "sqlite" / "sessions.db"), sessions(copy / "sqlite-live" / "sessions.db")
    assert clean == live
    assert list(clean) == ["s-sqlite", "s-sqlite-2"]
    for _, lines, kinds in clean.values():
        views = [envelope.view(line) for line in lines]
        assert kinds == []
        assert [view.defect for view in views] == [None] * len(views)
        assert [view.seq0 for view in views] == [
            sum(view.n for view in views[:at]) for at in range(len(views))
        ]
    rows = [view for _, lines, _ in clean.values() for view in map(envelope.view, lines)]
    assert sum(view.n for view in rows) == 552
    assert any(view.n > 1 for view in rows) == (schema == 17)
