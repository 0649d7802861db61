"""Goals: the vectors, a reported fault, recorded logs and their migrated twins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import recorded
from twins import Log, Twins, read_log, twins

from playhead.eventstore.invariants import check
from playhead.projections.folding import advance, begin, fold
from playhead.projections.goal import GoalHistory, goal, records

CASE = "cases/19-goal-pause-edit-resume"


def placed(events: list[dict[str, Any]]) -> Log:
    """The log of events that have no envelope."""
    return Log.of(
        recorded(
            [
                {"seq": seq, "time": seq, **event}
                | ({"surfaceOp": "append"} if event["type"] == "user/message" else {})
                for seq, event in enumerate(events)
            ]
        )
    )


def as_vector(state: GoalHistory) -> dict[str, Any]:
    """The fold as the vectors spell it; what has no value is absent."""
    standing = state.standing
    told: dict[str, Any] = {"roundsStarted": standing.rounds}
    if standing.goal is not None:
        now = standing.goal
        told["goal"] = {
            "id": now.id,
            "revision": now.revision,
            "objective": now.objective,
            "phase": now.phase,
            "maxGoalRounds": now.max_rounds,
        }
        if now.blocked is not None:
            told["goal"]["blockedReason"] = {"code": now.blocked.code, "message": now.blocked.message}
        told |= {"createdAt": standing.created_ms, "updatedAt": standing.updated_ms}
    if standing.last_id is not None:
        told["lastRef"] = {"id": standing.last_id, "revision": standing.last_revision}
    return told


@pytest.mark.parametrize("case", cases("goal_fold", "folds"))
def test_vector(case: dict[str, Any]) -> None:
    state = fold(placed(case["events"]), goal).state
    expected = case["expect"]
    assert [breach.seq for breach in state.breaches][:1] == [
        expected["error_at"] for _ in (1,) if "error_at" in expected
    ]
    if "fold" in expected:
        assert as_vector(state) == expected["fold"]


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_a_recorded_log_folds_to_what_the_original_folded(case: dict[str, Any]) -> None:
    log = read_log(shared_path(case["corpus"]))
    trace: list[list[Any]] = []
    folded = begin(goal, log.header)
    for event in log.events(deltas=False):
        before, folded = folded, advance(goal, folded, [event])
        standing = folded.state.standing
        if standing != before.state.standing:
            now = standing.goal
            assert now is not None
            trace.append([event.seq, now.phase, now.revision, standing.rounds])
    assert trace == case["goal_trace"]
    assert folded.state.breaches == ()
    told = as_vector(folded.state)
    expected = case["goal"]
    if expected is None:
        assert told == {"roundsStarted": 0}
        return
    blocked = told["goal"].get("blockedReason")
    if blocked is not None:
        assert (
            len(blocked["message"].encode("utf-16-le")) // 2
            == (expected["goal"]["blockedReason"]["message"]["units"])
        )
        blocked["message"] = expected["goal"]["blockedReason"]["message"]
    assert told == expected


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_has_the_goals_and_rounds_of_its_source(pair: Twins) -> None:
    def told(state: GoalHistory) -> Any:
        view = goal.view(state)
        for record in view["goals"]:
            for part in (record["latest"], *record["revisions"], *record["rounds"]):
                del part["seq"]
        return view

    source = fold(pair.source, goal, repaired=True).state
    assert told(fold(pair.migrated, goal).state) == told(source)


def read_case(name: str) -> Log:
    return read_log(shared_path(f"{CASE}/{name}"))


def test_a_goal_that_was_paused_edited_and_resumed_has_the_rounds_that_were_admitted() -> None:
    expected = json.loads(Path(shared_path(f"{CASE}/expected.json")).read_bytes())
    state = fold(read_case("log.jsonl"), goal).state
    (record,) = records(state)
    latest = record.latest
    assert state.breaches == ()
    assert {
        "id": latest.goal_id,
        "revision": latest.revision,
        "phase": latest.phase,
        "objective": latest.objective,
        "maxGoalRounds": latest.max_rounds,
    } == expected["goal"]
    assert (latest.created_ms, latest.updated_ms) == (expected["created"], expected["updated"])
    assert record.rounds_started == expected["rounds_started"] == len(record.rounds)
    assert [(made.revision, made.phase, made.rounds) for made in record.revisions] == [
        (1, "active", 0),
        (2, "paused", 2),
        (3, "paused", 2),
        (4, "active", 2),
        (5, "paused", 3),
    ]
    assert [(round.round, round.revision, round.ending) for round in record.rounds] == [
        (1, 1, "completed"),
        (2, 1, "completed"),
        (3, 4, "completed"),
    ]


def test_the_round_before_the_last_pause_counts_where_the_log_is_cut_behind_it() -> None:
    log = read_case("log.jsonl")
    third = records(fold(log, goal).state)[0].rounds[2]
    (record,) = records(fold(log, goal, at=third.seq).state)
    assert (record.latest.rounds, record.rounds_started) == (2, 3)
    assert record.rounds[-1].ending is None


def test_a_round_of_a_paused_goal_is_a_breach_and_does_not_count() -> None:
    expected = json.loads(Path(shared_path(f"{CASE}/expected.json")).read_bytes())
    state = fold(read_case("bad.jsonl"), goal).state
    assert [(breach.kind, breach.seq) for breach in state.breaches] == [
        ("goal-round", expected["bad_refused_at_seq"])
    ]
    assert (state.standing.rounds, state.standing.goal and state.standing.goal.phase) == (3, "paused")
    assert len(records(state)[0].rounds) == 3


_goals = st.sampled_from(["g1", "g2"])
_changes = st.fixed_dictionaries(
    {
        "kind": st.just("goal/change"),
        "version": st.just(1),
        "operation": st.sampled_from(["create", "edit", "pause", "resume", "complete", "block"]),
        "goal": st.fixed_dictionaries(
            {
                "id": _goals,
                "revision": st.integers(1, 4),
                "objective": st.sampled_from(["x", " y"]),
                "phase": st.sampled_from(["active", "paused", "complete"]),
                "maxGoalRounds": st.integers(1, 3),
            }
        ),
        "roundsStarted": st.integers(0, 2),
        "createdAt": st.just(1),
        "updatedAt": st.integers(1, 3),
    }
)
_clears = st.builds(
    lambda id, revision: {
        "kind": "goal/change",
        "version": 1,
        "operation": "clear",
        "cleared": {"id": id, "revision": revision},
        "clearedAt": 5,
    },
    _goals,
    st.integers(1, 4),
)
_rounds = st.builds(
    lambda id, revision, round: {
        "id": "m",
        "source": {"kind": "goal", "goalId": id, "revision": revision, "round": round},
    },
    _goals,
    st.integers(1, 3),
    st.integers(1, 3),
)
_events = st.one_of(
    _changes.map(lambda data: {"type": "goal/change", "data": data}),
    _clears.map(lambda data: {"type": "goal/change", "data": data}),
    _rounds.map(lambda data: {"type": "user/message", "data": data}),
    st.integers(1, 3).map(lambda turn: {"type": "turn/start", "data": {"turn": turn}}),
    st.just({"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}}),
)


@settings(max_examples=200)
@given(st.lists(_events, max_size=12), st.data())
def test_breaches_are_the_violations_and_every_round_is_counted_once(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    log = placed(events)
    state = fold(log, goal).state
    found = [(violation.rule, violation.seq) for violation in check(log.facts, ["goal"])]
    assert [(breach.kind, breach.seq) for breach in state.breaches] == found
    seqs = [round.seq for record in records(state) for round in record.rounds]
    refused = {breach.seq for breach in state.breaches}
    admitted = [fact.seq for fact in log.facts if fact.type == "user/message" and fact.seq not in refused]
    assert sorted(seqs) == admitted

    cut = data.draw(st.integers(0, len(events)))
    half = advance(goal, begin(goal, log.header), log.facts[:cut])
    half = type(half)(goal.load(goal.dump(half.state)), half.next_seq)
    assert advance(goal, half, log.facts[cut:]).state == state
