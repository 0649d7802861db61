"""The example sessions: the files in the repository are what the program makes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import record
from playhead.adapters.dsh.strict import read_strict
from playhead.adapters.dsh.writer import LAYOUTS
from playhead.eventstore import json_text
from playhead.eventstore.invariants import check

MADE = dict(record.files())
LOGS = [path for path in MADE if path.startswith("--")]


def dump(file: Path) -> list[str]:
    """A database as SQL, which other versions of SQLite may store in other bytes."""
    with closing(sqlite3.connect(file)) as database:
        return [*database.iterdump(), str(database.execute("PRAGMA user_version").fetchone())]


def test_the_committed_files_are_exactly_those_that_the_program_makes(tmp_path: Path) -> None:
    record.main(tmp_path)
    committed = {path for path in record.FOLDER.rglob("*") if path.is_file()}
    assert {str(path.relative_to(record.FOLDER)) for path in committed} == MADE.keys()
    for path, content in MADE.items():
        assert (tmp_path / path).read_bytes() == content
        if path.endswith(".db"):
            assert dump(tmp_path / path) == dump(record.FOLDER / path)
        else:
            assert (record.FOLDER / path).read_bytes() == content


def test_there_is_a_session_with_an_id_of_its_own_for_every_layout() -> None:
    in_files = [layout for layout, _ in record.FILES.values()]
    assert {*in_files, "v0-unpacked"} == {*LAYOUTS}  # a native session is format 0, unpacked
    assert {compressed for _, compressed in record.FILES.values()} == {True, False}
    assert len({*record.FILES, *record.DATABASES, record.NATIVE}) == len(MADE)


@pytest.mark.parametrize("path", LOGS)
def test_dsh_would_open_the_log_where_it_lies(path: str) -> None:
    log = read_strict(record.FOLDER / path)
    assert (log.closers, log.dropped, log.torn_bytes) == ([], None, 0)


def test_the_conversation_has_what_it_promises_and_breaks_no_rule() -> None:
    events = [event for batch in record.record("s", 0).batches for event in batch]
    seen = {event.type for event in events}
    assert seen >= {"llm/retry", "llm/retry-started", "tool/call", "tool/result", "session/title"}
    raw = b"\n".join(event.raw for event in events)
    for part in (
        b'"reasoning-delta"',
        b'"text-delta"',
        b'"usage"',
        b'"interrupted":true',
        b'"next-step"',
        b'"user"',
    ):
        assert part in raw
    assert list(check(events)) == []


def test_every_example_is_small() -> None:
    assert all(len(content) < 24 << 10 for content in MADE.values())
    assert json_text.parse(MADE["native-pancakes.jsonl"].splitlines()[0])["id"] == record.NATIVE
