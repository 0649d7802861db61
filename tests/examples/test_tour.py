"""The tour: its sessions are what the program makes, and its page is what the commands show of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from twins import Log, read_log

import tour
from playhead.eventstore.invariants import check
from playhead.projections.folding import fold
from playhead.projections.goal import goal
from playhead.projections.inbox import inbox, tally
from playhead.projections.transcript import transcript
from playhead.projections.transcript_items import Turn

ROOT = Path(__file__).resolve().parents[2]


def session(name: str) -> Log:
    return read_log(tour.FOLDER / f"{name}.jsonl")


def endings(log: Log) -> list[str]:
    sections = fold(log, transcript).state.sections()
    return [each.ending.reason for each in sections if isinstance(each, Turn) and each.ending is not None]


def test_the_committed_sessions_are_exactly_those_that_the_program_makes(tmp_path: Path) -> None:
    tour.main(tmp_path)
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert made == {file.name: file.read_bytes() for file in tour.FOLDER.iterdir()}
    assert made.keys() == {f"{name}.jsonl" for name in tour.SESSIONS}
    assert all(len(content) < 32 << 10 for content in made.values())


@pytest.mark.parametrize("name", tour.SESSIONS)
def test_a_session_breaks_no_rule(name: str) -> None:
    log = session(name)
    assert list(check(log.facts)) == []
    for projection in (inbox, goal, transcript):
        assert fold(log, projection).state.breaches == ()  # type: ignore[attr-defined]


def test_the_sessions_show_what_the_tour_says_of_them() -> None:
    crashed, steered, worked, shopped = map(session, tour.SESSIONS)
    assert Counter(endings(crashed)) == {"interrupted": 2, "completed": 2}
    assert tally(fold(crashed, inbox).state) == {"lost": 1, "admitted": 4}
    assert endings(steered) == ["completed", "aborted", "blocked"]
    assert tally(fold(steered, inbox).state).keys() == {
        *("refused", "cancelled", "replaced", "pending", "admitted")
    }
    operations = [revision.operation for revision in fold(worked, goal).state.revisions]
    assert operations == ["create", "pause", "edit", "resume", "complete"]
    assert len(fold(worked, goal).state.rounds) == 3
    assert endings(shopped) == ["completed", "completed"]


def test_the_page_is_what_the_commands_show_now(tmp_path: Path) -> None:
    page = tmp_path / "tour.md"
    program = [sys.executable, str(ROOT / "docs" / "make_tour.py"), str(page)]
    subprocess.run(program, check=True, timeout=600)
    assert page.read_text(encoding="utf-8") == (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
