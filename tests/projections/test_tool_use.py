"""Tools by name: calls, errors, times; the same for a log and its migrated twin."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from native_sessions import Native, natives
from reference import cases, shared_path
from session_logs import recorded
from twins import Log, Twins, read_log, twins

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.projections.folding import fold
from playhead.projections.tool_use import Tool, tool_use


def tools(log: Log, **how: Any) -> dict[str, Tool]:
    return fold(log, tool_use, **how).state.tools


def call(id: str, name: str = "bash") -> tuple[str, dict[str, Any]]:
    return "tool/call", {"turn": 1, "step": 1, "callId": id, "name": name}


def result(id: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return "tool/result", {
        "turn": 1,
        "step": 1,
        "message": {"source": {"kind": "tool", "callId": id}},
        **data,
    }


def written(*events: tuple[str, dict[str, Any]], seed_length: int | None = None) -> Log:
    facts = recorded(
        [
            {"type": type, "seq": seq, "time": 10 * seq, "data": data}
            for seq, (type, data) in enumerate(events)
        ]
    )
    return Log.of(facts, SessionHeader(SessionId("s1"), 1, seed_length=seed_length))


def test_overlapping_calls_are_paired_by_id() -> None:
    log = written(
        call("a"), call("b", "read"), call("c"), result("c"), result("a", error={"code": "X"}), result("b")
    )
    assert tools(log) == {
        "bash": Tool(calls=2, answered=2, errors=1, total_ms=50, longest_ms=40),
        "read": Tool(calls=1, answered=1, total_ms=40, longest_ms=40),
    }


def test_a_call_without_a_result_has_none_and_its_id_may_come_again() -> None:
    log = written(call("a"), ("step/end", {}), result("a"), call("a"), result("a"))
    assert tools(log) == {"bash": Tool(calls=2, answered=1, total_ms=10, longest_ms=10)}


def test_the_inherited_part_is_left_out() -> None:
    assert tools(written(call("a"), result("a"), call("a"), seed_length=2)) == {"bash": Tool(calls=1)}
    marked = written(call("a"), result("a"), ("session/end-seed", {"inherited": True}), call("b"))
    later = SessionHeader(SessionId("s1"), 1, version=4, is_seeded=True)
    assert tools(Log(later, marked.facts)) == {"bash": Tool(calls=1)}


@settings(max_examples=100)
@given(natives())
def test_every_call_of_the_session_itself_is_counted_once(native: Native) -> None:
    own = [fact for fact in native.events if fact.seq >= (native.header.seed_length or 0)]
    called = Counter(fact.json["name"] for fact in own if fact.type == "tool/call")
    found = tools(Log(native.header, tuple(native.events)))
    assert {name: tool.calls for name, tool in found.items()} == called


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_the_time_of_all_tools_is_that_of_the_original(case: dict[str, Any]) -> None:
    log = read_log(shared_path(case["corpus"]))
    if log.header.seed_length is None:
        assert sum(tool.total_ms for tool in tools(log).values()) == case["stats"]["toolMs"]


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_used_the_tools_of_its_source(pair: Twins) -> None:
    assert tools(pair.migrated) == tools(pair.source, repaired=True)
