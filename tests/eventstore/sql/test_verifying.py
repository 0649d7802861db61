"""Whatever is changed in a store, ``verify`` finds it and says where."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sources import MemorySource, event_line, header
from sqlalchemy import Text
from stores import ENGINES, store_address

from playhead import dialects
from playhead.eventstore.errors import CorruptLog, StoreUnavailable
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.findings import damage
from playhead.eventstore.log import NewEvent
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.source import BytesSource
from playhead.eventstore.sql import SqlStore, artifacts, open_store, reading, schema, session_row
from playhead.eventstore.sql.heads import Head
from playhead.eventstore.sql.problem import Problem

TABLES = ("session", "event", "segment", "artifact", "commit_log", "artifact_part", "exchange")

CALL = Exchange(
    dialect="openai",
    path="/chat/completions",
    request=b"{}",
    end="complete",
    began_ms=1,
    ended_ms=9,
    request_headers=(("accept", "*/*"),),
    status=200,
    head_ms=2,
    headers=(("content-type", "text/event-stream"),),
    body=b"data: 1\n\ndata: 2\n\n",
    pieces=((0, 3), (9, 5)),
    turn=1,
    step=1,
    number=1,
    seq=4,
)


def fill(store: SqlStore) -> None:
    """Sessions of every kind: imported in several segments, damaged, branched, native and half sealed; files."""
    big = [event_line(at, "x/note", text=f"{at} " * 200) for at in range(3000)]
    store.ingest(MemorySource(header("big"), big, path="big.jsonl"))
    store.ingest(
        MemorySource(
            header("gaps"), [event_line(0), b"{oops", event_line(5)], path="gaps.jsonl", tail=b"tail"
        )
    )
    branches = [event_line(0), event_line(1), event_line(1, "x/b"), event_line(2, "x/b")]
    store.ingest(MemorySource(header("branches"), branches, path="branches.jsonl"))
    store.archive(BytesSource("/logs", "noise.bin", "bytes", io.BytesIO(bytes(range(256)) * 5000)))
    session = store.create(header("native"), idem="made")
    session.append([NewEvent("x/note", {"n": at}) for at in range(10)], idem="first")
    session.seal()
    session.append([NewEvent("x/other", {"n": at}) for at in range(10)], idem="second")
    other = store.create(header("other"))
    other.append([NewEvent("x/note", {"text": "ü"})])
    other.append([NewEvent("x/note", {"text": "v"})])
    for kept, count in ((session, 3), (other, 2)):
        for at in range(count):
            kept.keep_exchange(replace(CALL, request=b"%d" % at, began_ms=at))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "store.sqlite"
    with open_store(str(path)) as store:
        fill(store)
        assert errors(store.verify()) == []
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@dataclass
class Damaged:
    """A copy of the store with raw access to its tables."""

    path: Path
    connection: sqlite3.Connection

    def problems(self) -> list[Problem]:
        self.connection.commit()
        with open_store(str(self.path), create=False) as store:
            return errors(store.verify())

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT * FROM {table}").fetchall()

    def columns(self, table: str) -> list[str]:
        return [column[1] for column in self.connection.execute(f"PRAGMA table_info({table})")]

    def key(self, table: str) -> list[str]:
        found = [(column[5], column[1]) for column in self.connection.execute(f"PRAGMA table_info({table})")]
        return [name for order, name in sorted(found) if order]


@pytest.fixture
def damaged(original: Path, tmp_path: Path) -> Iterator[Damaged]:
    with copy_of(original, tmp_path) as copy:
        yield copy


@contextmanager
def copy_of(original: Path, folder: Path) -> Iterator[Damaged]:
    path = folder / "copy.sqlite"
    for leftover in folder.glob("copy.sqlite*"):
        leftover.unlink()
    shutil.copy(original, path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        yield Damaged(path, connection)
    finally:
        connection.close()


def flipped(value: Any, bit: int) -> Any:
    """``value`` with one bit changed; None for a value without bits."""
    if isinstance(value, int):
        return value ^ (1 << (bit % 63))
    if isinstance(value, str):
        raw = bytearray(value.encode("utf-8", "surrogateescape"))
        if not raw:
            return None
        raw[(bit // 8) % len(raw)] ^= 1 << (bit % 8)
        return bytes(raw)
    if isinstance(value, bytes) and value:
        raw = bytearray(value)
        raw[(bit // 8) % len(raw)] ^= 1 << (bit % 8)
        return bytes(raw)
    return None


def errors(problems: list[Problem]) -> list[Problem]:
    """The problems that are no warnings."""
    return [problem for problem in problems if problem.severity == "error"]


def where(damaged: Damaged, table: str, row: tuple[Any, ...]) -> tuple[str, list[Any]]:
    key = damaged.key(table)
    names = damaged.columns(table)
    return " AND ".join(f'"{name}" = ?' for name in key), [row[names.index(name)] for name in key]


def concerned(damaged: Damaged, table: str, row: tuple[Any, ...]) -> set[str | None]:
    """The session ids that a problem with this row must name one of; None stands for the store."""
    names = damaged.columns(table)
    if table == "session":
        return {row[names.index("key")]}
    if table == "artifact_part":
        return {None}
    session_id = row[names.index("session_id")]
    found = damaged.connection.execute("SELECT key FROM session WHERE id = ?", (session_id,)).fetchone()
    named = {found[0] if found else None}
    return named | {None} if table == "exchange" else named  # only the store counts exchanges


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_any_flipped_bit_is_found_and_its_session_named(
    original: Path, tmp_path: Path, data: st.DataObject
) -> None:
    with copy_of(original, tmp_path) as damaged:
        table = data.draw(st.sampled_from(TABLES))
        row = data.draw(st.sampled_from(damaged.rows(table)))
        at = data.draw(st.integers(0, len(row) - 1))
        changed = flipped(row[at], data.draw(st.integers(0, 1 << 20)))
        if changed is None:
            return
        named = concerned(damaged, table, row)
        condition, values = where(damaged, table, row)
        column = damaged.columns(table)[at]
        kind = {str: "TEXT", bytes: "BLOB", int: "INTEGER"}[type(row[at])]
        try:
            damaged.connection.execute(
                f'UPDATE {table} SET "{column}" = CAST(? AS {kind}) WHERE {condition}', [changed, *values]
            )
        except sqlite3.IntegrityError:
            return  # the database itself refuses a row like that
        problems = damaged.problems()
        assert problems, (table, column, row[at], changed)
        if (table, column) not in (("session", "key"), ("session", "id"), ("exchange", "session_id")):
            assert {problem.session for problem in problems} & named, (table, column, problems)


@pytest.mark.parametrize("table", TABLES)
def test_any_dropped_row_is_found(original: Path, tmp_path: Path, table: str) -> None:
    with copy_of(original, tmp_path) as damaged:
        count = len(damaged.rows(table))
    assert count
    for at in range(count):
        with copy_of(original, tmp_path) as damaged:
            row = damaged.rows(table)[at]
            condition, values = where(damaged, table, row)
            named = concerned(damaged, table, row)
            damaged.connection.execute(f"DELETE FROM {table} WHERE {condition}", values)
            problems = damaged.problems()
            assert problems, row
            if table in ("segment", "event"):
                hit = [
                    problem
                    for problem in problems
                    if problem.session in named and problem.from_line is not None
                ]
                names = damaged.columns(table)
                line = row[names.index("line0" if table == "segment" else "line_no")] + 2
                assert any(problem.from_line <= line < (problem.to_line or 0) for problem in hit), problems  # type: ignore[operator]


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_any_two_swapped_rows_are_found(original: Path, tmp_path: Path, data: st.DataObject) -> None:
    with copy_of(original, tmp_path) as damaged:
        table = data.draw(st.sampled_from(TABLES))
        rows = damaged.rows(table)
        one, other = data.draw(st.lists(st.sampled_from(rows), min_size=2, max_size=2, unique=True))
        names, key = damaged.columns(table), damaged.key(table)
        rest = [name for name in names if name not in key]
        if [one[names.index(name)] for name in rest] == [other[names.index(name)] for name in rest]:
            return
        # Unique columns forbid the two-step swap, so both rows go and come back with each other's contents.
        for row in (one, other):
            condition, values = where(damaged, table, row)
            damaged.connection.execute(f"DELETE FROM {table} WHERE {condition}", values)
        for keys, contents in ((one, other), (other, one)):
            mixed = [keys[at] if name in key else contents[at] for at, name in enumerate(names)]
            marks = ", ".join("?" * len(names))
            damaged.connection.execute(f"INSERT INTO {table} VALUES ({marks})", mixed)
        assert damaged.problems(), (table, one, other)


CELLS = [
    pytest.param(table.name, column.name, isinstance(column.type, Text), id=f"{table.name}.{column.name}")
    for table in (
        schema.store,
        schema.session,
        schema.commit_log,
        schema.event_type,
        schema.event,
        schema.segment,
        schema.artifact,
        schema.artifact_part,
        schema.exchange,
    )
    for column in table.columns
]


@pytest.mark.parametrize(("table", "column", "is_text"), CELLS)
def test_a_cell_that_somebody_gave_another_type_is_found_and_nothing_raises(
    damaged: Damaged, table: str, column: str, is_text: bool
) -> None:
    other = "x'00ff'" if is_text else "CAST('word' AS TEXT)"
    condition, values = where(damaged, table, damaged.rows(table)[0])
    try:
        damaged.connection.execute(f'UPDATE "{table}" SET "{column}" = {other} WHERE {condition}', values)
    except sqlite3.IntegrityError:
        assert column == "id"  # the number of a row, which SQLite keeps a number
        return
    (problem,) = damaged.problems()
    assert (problem.kind, problem.stops_reading) == ("cell-type", True)
    assert f"of the table {table} " in problem.message
    assert f"into the column {column}, " in problem.message


def test_a_line_that_was_edited_by_hand_is_named_with_its_session_and_its_line(damaged: Damaged) -> None:
    damaged.connection.execute("UPDATE event SET line = replace(line, 'note', 'nope') WHERE session_id = 6")
    assert [(found.kind, found.session, found.from_line, found.to_line) for found in damaged.problems()] == [
        ("cell-type", "other", 2, 4)
    ]
    with open_store(str(damaged.path)) as store:
        session = store.session("other")
        for read in (session.read, session.events, session.lines, session.seal):
            with pytest.raises(CorruptLog, match="line 2 was changed in the store; run `playhead verify`"):
                list(read() or ())
        assert len(list(store.session("native").read())) == 20


@pytest.mark.parametrize("value", ["x'00ff'", "'{}'", "x'7b7d'"])
def test_a_session_whose_header_cannot_be_read_is_listed_as_damaged_and_hides_no_other(
    damaged: Damaged, value: str
) -> None:
    damaged.connection.execute(f"UPDATE session SET header = {value} WHERE key = 'native'")
    assert "native" in {problem.session for problem in damaged.problems()}
    with open_store(str(damaged.path)) as store:
        sound = {str(info.id): damage(info.findings) for info in store.sessions()}
        assert [finding.kind for finding in sound.pop("native")] == ["changed-in-store"]
        assert not any(finding.kind == "changed-in-store" for found in sound.values() for finding in found)
        session = store.session("native")
        with pytest.raises(CorruptLog, match="'native': its header was changed in the store"):
            session.header  # noqa: B018
        assert [fact.seq for fact in session.read(0, 3)] == [0, 1, 2]


def test_findings_that_cannot_be_read_are_damage_themselves(damaged: Damaged) -> None:
    damaged.connection.execute("UPDATE session SET findings = x'00ff' WHERE key = 'native'")
    damaged.connection.commit()
    with open_store(str(damaged.path)) as store:
        (finding,) = damage(store.session("native").info.findings)
        assert finding.kind == "changed-in-store"


def test_a_file_with_damaged_pages_is_found_and_told_as_that(original: Path, tmp_path: Path) -> None:
    """An index of which a page was overwritten: no row of any table is touched."""
    path = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(original)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'ix_commit_log_session_id_seq0'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(original.read_bytes())
    data[page * size - 200 : page * size] = bytes(200)
    path.write_bytes(data)
    with open_store(str(path), create=False) as store:
        problems = store.verify()
    assert {problem.kind for problem in problems} == {"database"}
    assert all(problem.stops_reading for problem in problems)


def test_a_file_that_is_not_given_back_any_more_is_told_in_few_words(damaged: Damaged) -> None:
    """In verify nobody needs to be told to run it, and the session is named in front."""
    damaged.connection.execute("UPDATE segment SET body = zeroblob(9) WHERE session_id = 1 AND line0 = 0")
    told = [problem for problem in damaged.problems() if problem.kind == "artifact"]
    assert [(problem.session, problem.path) for problem in told] == [("big", "big.jsonl")]
    assert told[0].message.startswith("lines 2 to ")
    assert "playhead verify" not in told[0].message


def test_a_file_that_was_cut_short_is_told_with_a_way_out(original: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.sqlite"
    data = original.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreUnavailable, match="malformed; take the store from a copy, or import the logs"):
        open_store(str(path), create=False).verify()


def test_a_store_without_its_one_row_is_found(damaged: Damaged) -> None:
    damaged.connection.execute("DELETE FROM store")
    (problem,) = damaged.problems()
    assert (problem.kind, problem.stops_reading) == ("database", True)


def test_a_consistent_rewrite_shows_only_against_kept_heads(damaged: Damaged) -> None:
    with open_store(str(damaged.path)) as store:
        kept = store.heads()
        assert list(store.compare_heads(kept)) == []
        store.session("other").append([NewEvent("x/note", {"text": "later"})])
        assert list(store.compare_heads(kept)) == []
    forged = damaged.path.with_name("forged.sqlite")
    with open_store(str(forged)) as store:
        fill_forged(store, kept[0].store)
        assert errors(store.verify()) == []
        problems = list(store.compare_heads([head for head in kept if head.id == "other"]))
        assert [(problem.kind, problem.session) for problem in problems] == [("rewritten", "other")]


def fill_forged(store: SqlStore, uuid: str) -> None:
    """A store that claims to be another, with another session ``other`` of the same length."""
    with store.database.write() as link:
        link.run("UPDATE store SET store_uuid = ?", (uuid,))
    other = store.create(header("other"))
    other.append([NewEvent("x/note", {"text": "u"}), NewEvent("x/note", {"text": "v"})])


def test_a_cut_tail_with_a_matching_head_shows_against_kept_heads(damaged: Damaged) -> None:
    with open_store(str(damaged.path)) as store:
        kept = [head for head in store.heads() if head.id == "other"]
        with store.database.write() as link:
            row = next(row for row in session_row.every(link) if row.session == "other")
            link.run("DELETE FROM event WHERE session_id = ? AND line_no >= 1", (row.id,))
            cut = row._replace(lines=1, events=1, next_seq=1)
            chain = reading.chain_at(link, cut, 1)
            session_row.save(link, cut._replace(chain=chain.value, head=chain.head(1)))
        problems = list(store.compare_heads(kept))
        assert [(problem.kind, problem.from_line, problem.to_line) for problem in problems] == [("cut", 3, 4)]


def test_kept_heads_of_another_store_are_said_to_be_that(damaged: Damaged) -> None:
    with open_store(str(damaged.path)) as store:
        problems = list(store.compare_heads([Head("elsewhere", "other", 1, 1, 1, "00")]))
        assert [problem.kind for problem in problems] == ["other-store"]


@pytest.mark.parametrize("engine", ENGINES)
def test_both_engines_find_damage_the_same_way(engine: str, tmp_path: Path) -> None:
    changes = (
        ("UPDATE segment SET t0 = t0 + 1 WHERE line0 = 0", "segment-check"),
        ("UPDATE event SET time_ms = time_ms + 1 WHERE line_no = 12", "event-row"),
        ("UPDATE commit_log SET time_ms = time_ms + 1 WHERE pos0 = 1", "commit-check"),
        ("UPDATE artifact SET size = size + 1", "artifact-check"),
        ("UPDATE session SET cwd = 'elsewhere'", "session-check"),
        ("DELETE FROM event WHERE line_no = 11", "lines-missing"),
    )
    for change, kind in changes:
        with store_address(engine, tmp_path) as address, open_store(address) as store:
            fill(store)
            with store.database.write() as link:
                assert link.run(change) >= 1
            assert kind in {problem.kind for problem in store.verify()}


def test_verifying_one_session_looks_at_it_alone(damaged: Damaged) -> None:
    damaged.connection.execute("UPDATE segment SET t0 = t0 + 1 WHERE session_id = 1 AND line0 = 0")
    damaged.connection.commit()
    with open_store(str(damaged.path)) as store:
        assert [problem.kind for problem in store.verify(store.session("native"))] == []
        assert store.verify(store.session("big"))[0].kind == "segment-check"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_can_be_verified_while_others_write_to_it(engine: str, tmp_path: Path) -> None:
    with (
        store_address(engine, tmp_path) as address,
        open_store(address) as store,
        open_store(address) as writer,
    ):
        fill(store)
        session = writer.session("native")

        def write(done: int, of: int) -> None:
            session.append([NewEvent("x/note", {"n": done})])
            if done == of // 2:
                session.seal()

        assert errors(store.verify(on_session=write)) == []
        assert errors(store.verify()) == []


class Onlooker:
    """Remembers which events of which session it was shown."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, int], list[Recorded]] = {}

    def watch(self, id: str, generation: int, events: Iterator[Recorded]) -> Iterator[Recorded]:
        seen = self.shown[id, generation] = []
        for event in events:
            seen.append(event)
            yield event


def test_who_watches_is_shown_all_events_of_every_session_without_errors(damaged: Damaged) -> None:
    damaged.connection.execute("UPDATE segment SET body = zeroblob(length(body)) WHERE session_id = 1")
    damaged.connection.commit()
    onlooker = Onlooker()
    with open_store(str(damaged.path), create=False, dialects=dialects().values()) as store:
        assert store.verify(watch=onlooker.watch) == store.verify()
        infos = store.sessions(all_generations=True)
        sound = {(info.id, info.generation): info for info in infos if info.id != "big"}
        assert onlooker.shown.keys() == sound.keys()
        for (id, generation), events in onlooker.shown.items():
            stored = store.session(id, generation=generation).events()
            assert [(one.seq, one.type, one.raw) for one in events] == [
                (one.seq, one.type, one.raw) for one in stored
            ]


def chunk(seq: int, **members: object) -> bytes:
    return event_line(seq, "assistant/chunk", turn=1, step=1, chunk={"index": 0, **members})


@pytest.mark.parametrize(
    "lines",
    [
        [
            chunk(0, type="block-start", blockType="text"),
            *(chunk(at, type="text-delta", text="a") for at in range(1, 9)),
        ],
        [event_line(0, turn=1), event_line(1, "mode/set", mode="x"), chunk(2, type="text-delta", text="a")],
    ],
    ids=["chunks-outside-of-a-step", "a-retired-shape"],
)
def test_watching_changes_nothing_of_what_is_found(tmp_path: Path, lines: list[bytes]) -> None:
    with open_store(str(tmp_path / "store.sqlite"), dialects=dialects().values()) as store:
        store.ingest(MemorySource(header(), lines))
        found = store.verify()
        assert len(found) == 1
        onlooker = Onlooker()
        assert store.verify(watch=onlooker.watch) == found
        text = b"".join(event.raw for event in onlooker.shown["s-1", 1])
        assert (b"text-delta" in text) == (found[0].kind == "rule")


def test_changed_bytes_of_a_plain_file_are_found_whatever_lies_behind_its_lines(tmp_path: Path) -> None:
    """The hash of a plain file is taken from the lines of its session, which may have more of them."""
    lines = [event_line(at, "x/note", text=f"{at} " * 90) for at in range(3000)]
    with open_store(str(tmp_path / "store.sqlite")) as store:
        for end, tail in ((3000, b""), (2999, b"tail"), (257, b""), (0, b"")):
            store.ingest(MemorySource(header(), lines[:end], path=f"{end}.jsonl", tail=tail))
        assert errors(store.verify()) == []
        with store.database.read() as link:
            rows = artifacts.every(link)
        for row in rows:
            forged = row._replace(sha256=bytes(32))
            for stored, found in ((forged, [("artifact", row.path)]), (row, [])):
                with store.database.write() as link:
                    link.run(
                        'UPDATE artifact SET sha256 = ?, "check" = ? WHERE id = ?',
                        (stored.sha256, stored.check(), row.id),
                    )
                assert [(problem.kind, problem.path) for problem in errors(store.verify())] == found


@pytest.mark.parametrize("table", ["session", "segment", "artifact", "commit_log"])
def test_bytes_that_turned_into_broken_text_are_damage_like_any_other(
    original: Path, tmp_path: Path, table: str
) -> None:
    column = {"session": "head", "segment": "body", "artifact": "envelope", "commit_log": "idem"}[table]
    with copy_of(original, tmp_path) as damaged:
        damaged.connection.execute(
            f"UPDATE {table} SET \"{column}\" = CAST(x'80ff41' AS TEXT) WHERE rowid = 1"
        )
        assert damaged.problems()
