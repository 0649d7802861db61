"""``playhead goals``: goals with their revisions and rounds, and what breaks a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play

from playhead.cli import output
from playhead.eventstore import json_text

GOAL = {"id": "g1", "revision": 1, "objective": "ship \x1b[31mit", "phase": "active", "maxGoalRounds": 2}


def change(operation: str, revision: int, phase: str, rounds: int, **goal: Any) -> dict[str, Any]:
    told = GOAL | {"revision": revision, "phase": phase} | goal
    times = {"createdAt": 10, "updatedAt": 10 + revision}
    data = {
        "kind": "goal/change",
        "version": 1,
        "operation": operation,
        "goal": told,
        "roundsStarted": rounds,
    }
    return {"type": "goal/change", "data": data | times}


def round_of(number: int, revision: int = 1) -> dict[str, Any]:
    source = {"kind": "goal", "goalId": "g1", "revision": revision, "round": number}
    message = {"id": f"m{number}", "role": "user", "content": [], "source": source}
    return {"type": "user/message", "data": message, "surfaceOp": "append"}


TURN = {"type": "turn/start", "data": {"turn": 1}}
TURN_END = {"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}}
LOG = [
    change("create", 1, "active", 0),
    TURN,
    round_of(1),
    TURN_END,
    change("block", 2, "blocked", 1, blockedReason={"code": "needs-key", "message": "no key"}),
]


@pytest.fixture
def log(tmp_path: Path) -> Any:
    """Writes a log of events that have no envelope yet; its path."""

    def write(*events: dict[str, Any]) -> Path:
        header = {"type": "session", "version": 0, "id": "s1", "createdAt": 1, "delegationDepth": 0}
        placed = [{"seq": seq, "time": 1000 * seq, **event} for seq, event in enumerate(events)]
        file = tmp_path / "log.jsonl"
        file.write_bytes(b"".join(json_text.dumps(line) + b"\n" for line in (header, *placed)))
        return file

    return write


def test_each_change_and_each_round_is_a_line_in_the_order_of_the_log(play: Play, log: Any) -> None:
    ran = play("goals", log(*LOG))
    assert ran.code == 0
    assert [[row[at] for at in (0, 1, 2, 3, 5, 6, 7)] for row in ran.rows] == [
        ["g1", "create", "1", "0", "active", "0", "ship \\x1b[31mit"],
        ["g1", "round", "1", "2", "completed", "1", "m1"],
        ["g1", "block", "2", "4", "blocked", "1", "ship \\x1b[31mit"],
    ]


def test_json_has_the_goal_its_history_and_its_breaches(play: Play, log: Any) -> None:
    found = play("goals", log(*LOG), "--json").json
    assert (found["session"], found["breaches"], found["unknown"]) == ("s1", [], [])
    assert (found["goal"]["phase"], found["goal"]["blocked"]["code"]) == ("blocked", "needs-key")
    assert (found["roundsStarted"], found["createdAt"], found["updatedAt"]) == (1, 10, 12)
    (goal,) = found["goals"]
    assert [revision["operation"] for revision in goal["revisions"]] == ["create", "block"]
    assert [(made["round"], made["turn"], made["endedMs"]) for made in goal["rounds"]] == [(1, 1, 3000)]


def test_at_an_earlier_event_the_round_still_runs(play: Play, log: Any) -> None:
    file = log(*LOG)
    assert [row[5] for row in play("goals", file, "--at", 2).rows] == ["active", "running"]
    assert play("goals", file, "--at", 2, "--json").json["goal"]["phase"] == "active"
    assert play("goals", file, "--at", 5).code == 2


def test_the_repaired_view_ends_what_a_crash_left_open(play: Play, log: Any) -> None:
    file = log(*LOG[:3])
    assert play("goals", file).rows[-1][5] == "running"
    assert play("goals", file, "--repaired").rows[-1][5] == "interrupted"


def test_a_round_that_breaks_a_rule_is_told_and_does_not_count(play: Play, log: Any) -> None:
    file = log(*LOG, round_of(2))
    ran = play("goals", file)
    assert ran.code == 1
    assert "playhead: s1: seq 5: " in ran.err
    assert "(goal-round)" in ran.err
    assert [row[1] for row in ran.rows] == ["create", "round", "block"]
    strict = play("goals", file, "--strict")
    assert (strict.code, strict.out) == (1, b"")
    assert "seq 5" in strict.err


def test_an_unknown_event_makes_the_answer_incomplete_unless_somebody_knows_better(
    play: Play, log: Any
) -> None:
    file = log(*LOG, {"type": "x/new", "data": {}})
    ran = play("goals", file)
    assert ran.code == 1
    assert "interpretation incomplete: unknown event type x/new, first at seq 5" in ran.err
    assert play("goals", file, "--ignorable", "x/new").code == 0
    assert play("goals", file, "--strict").out == b""


def test_a_session_without_goals_says_so(full: Play) -> None:
    ran = full("goals", "plain-v0")
    assert (ran.code, ran.out) == (0, b"")
    assert "never had a goal" in ran.err


def test_on_a_terminal_lines_fit_its_width(play: Play, log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    long = change("edit", 2, "active", 1, objective="word " * 60 + "end", maxGoalRounds=7)
    ran = play("goals", log(*LOG[:4], long))
    assert all(len(line) <= 100 for line in ran.lines)
    shown = ran.out.decode()
    assert "active, revision 2, 1 of 7 rounds" in shown
    assert "  round 1" in shown
    assert "turn 1, completed after 1.0 s" in shown
    assert "edit (revision 2)" in shown


def test_a_goal_with_a_long_id_fits_too_and_nothing_follows_the_last_line(
    play: Play, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    events = [
        change("create", 1, "active", 0, id="g" * 90),
        change("complete", 2, "complete", 0, id="g" * 90),
    ]
    lines = play("goals", log(*events, change("create", 1, "active", 0, id="second"))).lines
    assert f"  {'g' * 90}" in lines
    assert all(len(line) <= 100 for line in lines)
    assert lines.count("") == 3, "one below each goal's head, one between them"
    assert lines[-1]


def test_a_round_over_which_the_clock_ran_back_took_nobody_knows_how_long(
    play: Play, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    shown = play("goals", log(*LOG[:3], TURN_END | {"time": 5})).out.decode()
    assert "turn 1, completed\n" in shown
