"""Writing databases: what is written reads back as what went in, in the tables of dsh."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from native_sessions import CREATED_MS, Native, natives, recorded
from reference import shared_path

from playhead.adapters.dsh.database_writer import StoredSession, write_database
from playhead.adapters.dsh.discover import is_database
from playhead.adapters.dsh.sqlite import SCHEMAS, Database, DatabaseSession
from playhead.adapters.dsh.sqlite_rows import Row
from playhead.eventstore import envelope
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

STORE = UUID(int=1)
HEADER = SessionHeader(SessionId("s1"), CREATED_MS, cwd="/w")
RECORDED = {15: "0.1.0rc6/sqlite/sqlite/sessions.db", 17: "0.1.1rc1/sqlite/sqlite/sessions.db"}


def read_back(folder: Path, file: bytes) -> list[tuple[SessionHeader, list[Recorded], list[Row]]]:
    """Header, facts and rows of each session in the database; nothing in it may be remarkable."""
    path = folder / "sessions.db"
    path.write_bytes(file)
    assert is_database(str(path))
    found = []
    with Database(str(path), str(folder), path.name) as database:
        assert database.findings() == []
        for session in database.sessions():
            assert isinstance(session, DatabaseSession)
            lines = b"".join(session.blocks()).splitlines()
            assert session.shape.findings == []
            facts = [fact for line in lines for fact in envelope.facts(line, session.header.id)]
            found.append((session.header, facts, list(session.rows())))
    return found


@pytest.mark.parametrize("schema", SCHEMAS)
@settings(max_examples=30)
@given(native=natives())
def test_a_database_reads_back_as_the_sessions_that_were_written(
    schema: int, native: Native, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = replace(HEADER, id=SessionId("s2"), delegation_depth=None, cwd=None)
    stored = [StoredSession(native.header, native.batches), StoredSession(other, [])]
    folder = tmp_path_factory.mktemp("database")
    [first, second] = read_back(folder, write_database(schema, stored, STORE))
    assert (first[0], second[0]) == (native.header, other)
    assert [fact.envelope() for fact in first[1]] == [event.envelope() for event in native.events]
    assert second[1] == []


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_same_sessions_give_the_same_bytes_whatever_made_them(schema: int) -> None:
    events = recorded([{"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}])
    stored = [StoredSession(HEADER, [events])]
    file = write_database(schema, stored, STORE)
    assert file == write_database(schema, stored, STORE)
    assert file[96:100] == bytes(4)


def rows_of(schema: int, folder: Path, events: list[dict[str, Any]]) -> list[Row]:
    stored = [StoredSession(HEADER, [recorded(events)])]
    return read_back(folder, write_database(schema, stored, STORE))[0][2]


def test_only_schema_17_packs_runs_and_compresses_long_data(tmp_path: Path) -> None:
    chunk = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "x"}}
    events = [{"type": "assistant/chunk", "seq": at, "time": at, "data": chunk} for at in range(4)]
    events.append({"type": "x/long", "seq": 4, "time": 4, "data": "a" * 5000})
    early, late = rows_of(15, tmp_path, events), rows_of(17, tmp_path, events)
    assert [row.type for row in early] == [b"assistant/chunk"] * 4 + [b"x/long"]
    assert [row.type for row in late] == [b"text-chunks", b"x/long"]
    assert late[0].ignorable == 0
    assert (len(early[-1].data), early[-1].data[:2]) == (5002, b'"a')
    assert late[-1].data[:4] == b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_tables_columns_and_rows_are_those_of_a_recorded_database(schema: int, tmp_path: Path) -> None:
    original = tmp_path / "recorded.db"
    original.write_bytes(shared_path(f"corpus/dsh/{RECORDED[schema]}").read_bytes())
    stored = []
    with Database(str(original), str(tmp_path), original.name) as database:
        for session in database.sessions():
            assert isinstance(session, DatabaseSession)
            by_batch: list[list[Recorded]] = []
            for line in b"".join(session.blocks()).splitlines():
                by_batch.append(envelope.facts(line, session.header.id))  # a batch keeps a row whole
            stored.append(StoredSession(session.header, by_batch))
    mine = tmp_path / "mine.db"
    mine.write_bytes(write_database(schema, stored, STORE))
    assert contents(mine) == contents(original)


def contents(file: Path) -> tuple[Any, ...]:
    """The numbers of the schema, its columns, and all rows but ids and revisions of the store."""
    with closing(sqlite3.connect(file)) as database:
        numbers = [
            database.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        ]
        tables = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        columns = [database.execute(f"PRAGMA table_xinfo({name})").fetchall() for (name,) in tables]
        strict = database.execute("SELECT name, strict FROM pragma_table_list ORDER BY name").fetchall()
        sessions = database.execute(
            "SELECT id, version, created_at, cwd, parent_session, seed_length, origin, delegation_depth,"
            " agent_preset FROM sessions"
        ).fetchall()
        events = database.execute("SELECT * FROM events ORDER BY session_id, seq").fetchall()
    return numbers, columns, strict, sessions, events


def test_another_schema_and_another_format_are_refused() -> None:
    with pytest.raises(UsageError, match="15 and 17"):
        write_database(16, [], STORE)
    with pytest.raises(UsageError, match="format 4"):
        write_database(17, [StoredSession(replace(HEADER, version=4), [])], STORE)
