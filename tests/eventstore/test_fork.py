"""Forks: where they may be made, what the child says, and where its own events begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases
from session_logs import recorded, sessions

from playhead.eventstore import fork
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

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
            list(fork.seed(facts, case["boundary"], session="parent"))
        assert caught.value.code == case["error"]
        assert "'parent'" in str(caught.value)
        return
    inherited = list(fork.seed(facts, case["boundary"]))
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
            list(fork.seed(facts, boundary))
    elif types.count("turn/start") > types.count("turn/end"):
        with pytest.raises(fork.OpenTurn) as caught:
            list(fork.seed(facts, boundary))
        start = caught.value.turn_start
        assert facts[start].type == "turn/start"
        if start:
            assert list(fork.seed(facts, start - 1)) == facts[:start]
    else:
        assert list(fork.seed(facts, boundary)) == facts[: boundary + 1]


@pytest.mark.parametrize("boundary", [2, 3, None])
def test_a_seed_with_a_gap_is_refused_and_one_before_the_gap_is_not(boundary: int | None) -> None:
    facts = recorded([{"type": "x/y", "seq": seq, "time": 5, "data": {}} for seq in (0, 1, 3)])
    assert [fact.seq for fact in fork.seed(facts, 1)] == [0, 1]
    with pytest.raises(CorruptLog) as caught:
        list(fork.seed(facts, boundary, session="s1"))
    assert (caught.value.seq, caught.value.kind) == (2, "seq-gap")


def test_the_way_out_of_nested_turns_leads_to_before_the_first() -> None:
    types = ("turn/start", "turn/end", "turn/start", "step/start", "turn/start")
    facts = recorded([{"type": type, "seq": seq, "time": 5, "data": {}} for seq, type in enumerate(types)])
    with pytest.raises(fork.OpenTurn) as caught:
        list(fork.seed(facts))
    assert caught.value.turn_start == 2
    assert "--repaired" in str(caught.value)
    assert list(fork.seed(facts, 1)) == facts[:2]


def test_a_seed_is_read_no_further_than_its_boundary() -> None:
    def log() -> Iterator[Recorded]:
        yield from recorded([{"type": "x/y", "seq": seq, "time": 5, "data": {}} for seq in range(2)])
        raise AssertionError("read on")

    assert len(list(fork.seed(log(), 1))) == 2


@pytest.mark.parametrize("boundary", [True, 0.5, "0"])
def test_a_boundary_that_is_no_seq_is_refused(boundary: Any) -> None:
    facts = recorded([{"type": "x/y", "seq": seq, "time": 5, "data": {}} for seq in range(3)])
    with pytest.raises(fork.InvalidBoundary):
        list(fork.seed(facts, boundary))
