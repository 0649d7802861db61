"""Forks: where they may be made, what the child says, and where its own events begin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases
from session_logs import recorded, sessions

from playhead.eventstore import fork
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId

PARENT = SessionHeader(
    SessionId("parent"),
    1,
    cwd="/w",
    origin="subagent",
    delegation_depth=2,
    agent_preset="code",
    seed_length=7,
)


@pytest.mark.parametrize("case", cases("fork_seed", "fork"))
def test_vector_of_a_fork(case: dict[str, Any]) -> None:
    facts = recorded(
        [{"type": type, "seq": seq, "time": 5, "data": {}} for seq, type in enumerate(case["parentTypes"])]
    )
    if "error" in case:
        with pytest.raises(fork.ForkError) as caught:
            fork.seed(facts, case["boundary"], session="parent")
        assert caught.value.code == case["error"]
        assert "'parent'" in str(caught.value)
        return
    inherited = fork.seed(facts, case["boundary"])
    assert inherited == facts[: len(inherited)]
    marker = fork.end_seed(inherited)
    assert [*(fact.type for fact in inherited), *(event.type for event in marker)] == case["child"]["types"]
    assert [event.data for event in marker] == [{}]
    assert fork.first_live_seq(inherited) == case["child"]["firstLiveSeq"]
    header = fork.child_header(PARENT, SessionId("child"), 9, len(inherited))
    expected = case["child"]["header"]
    assert (header.version, header.id, header.cwd) == (expected["version"], expected["id"], expected["cwd"])
    assert (header.parent, header.seed_length) == (expected["parentSession"], expected["seedLength"])
    assert (header.created_ms, header.delegation_depth) == (9, 0)
    assert (header.origin, header.agent_preset) == (None, None)


@pytest.mark.parametrize("case", cases("fork_seed", "seeds"))
def test_vector_of_a_seed(case: dict[str, Any]) -> None:
    seed = None if case["seed"] is None else recorded(case["seed"])
    types = [fact.type for fact in seed or ()] + [event.type for event in fork.end_seed(seed)]
    assert types == case["types"]
    assert fork.first_live_seq(seed) == case["firstLiveSeq"]


@given(sessions(), st.integers(-2, 40))
def test_a_session_can_be_forked_exactly_where_no_turn_is_open(
    events: list[dict[str, Any]], boundary: int
) -> None:
    facts = recorded(events)
    types = [fact.type for fact in facts[: max(0, boundary + 1)]]
    if not 0 <= boundary < len(facts):
        with pytest.raises(fork.InvalidBoundary):
            fork.seed(facts, boundary)
    elif types.count("turn/start") > types.count("turn/end"):
        with pytest.raises(fork.OpenTurn) as caught:
            fork.seed(facts, boundary)
        start = caught.value.turn_start
        assert facts[start].type == "turn/start"
        if start:
            assert fork.seed(facts, start - 1) == facts[:start]
    else:
        assert fork.seed(facts, boundary) == facts[: boundary + 1]


def test_a_boundary_that_a_damaged_log_lost_is_refused() -> None:
    facts = recorded([{"type": "x/y", "seq": seq, "time": 5, "data": {}} for seq in (0, 1, 3)])
    assert [fact.seq for fact in fork.seed(facts, 3)] == [0, 1, 3]
    with pytest.raises(fork.InvalidBoundary):
        fork.seed(facts, 2)


@pytest.mark.parametrize("boundary", [True, 0.5, "0"])
def test_a_boundary_that_is_no_seq_is_refused(boundary: Any) -> None:
    facts = recorded([{"type": "x/y", "seq": seq, "time": 5, "data": {}} for seq in range(3)])
    with pytest.raises(fork.InvalidBoundary):
        fork.seed(facts, boundary)
