"""Crash repair: what closes an open turn, and that it is the same every time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import HEADER, decoded, recorded, sessions

from playhead.eventstore import jsonl, repair
from playhead.eventstore.errors import CorruptLog, NotALog
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded

_TEXTS = {"$text:not-started": repair.NOT_STARTED_TEXT, "$text:outcome-unknown": repair.OUTCOME_UNKNOWN_TEXT}


def _spelled_out(value: Any) -> Any:
    """A closer of the vectors, with our wording in place of the markers."""
    if isinstance(value, dict):
        return {key: _spelled_out(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_spelled_out(member) for member in value]
    return _TEXTS.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("case", cases("repair", "cases"))
def test_vector(case: dict[str, Any]) -> None:
    facts = recorded(case["events"])
    added = repair.closers(facts)
    lines = [repair.closer_line(closer) for closer in added]
    expected = [
        json.dumps(_spelled_out(closer), separators=(",", ":"), ensure_ascii=False).encode()
        for closer in case["closers"]
    ]
    assert lines == expected
    assert repair.closers(facts + added) == []


def test_results_of_a_newer_format_are_flat() -> None:
    folder = shared_path("cases/16-crash-with-parallel-calls")
    facts = jsonl.scan((folder / "log.jsonl").read_bytes(), SessionId("s")).facts
    first = repair.closers(facts, flat_results=True)[0]
    assert first.json == {
        "turn": 1,
        "step": 1,
        "message": {
            "id": "interrupted-tool-result-c-1-9",
            "role": "tool",
            "toolCallId": "c-1",
            "isError": True,
            "source": {"kind": "tool", "callId": "c-1"},
            "content": [{"type": "text", "text": repair.OUTCOME_UNKNOWN_TEXT}],
        },
        "error": {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
    }
    assert list(first.json["message"]) == ["id", "role", "toolCallId", "isError", "source", "content"]
    assert repair.closers(facts + repair.closers(facts, flat_results=True)) == []


def test_parallel_calls_are_closed_one_by_one() -> None:
    folder = shared_path("cases/16-crash-with-parallel-calls")
    expected = json.loads((folder / "expected.json").read_bytes())
    log = (folder / "log.jsonl").read_bytes()
    mended = repair.repaired(log)
    assert mended.startswith(log)
    added = [json.loads(line) for line in mended[len(log) :].splitlines()]
    assert {event["time"] for event in added} == {expected["closer_time"]}
    shown = []
    for event in added:
        data = event["data"]
        short = {"seq": event["seq"], "type": event["type"]}
        if event["type"] == "tool/result":
            short["callId"] = data["message"]["source"]["callId"]
            short["code"] = data["error"]["code"]
            if "sourceEventSeqs" in event:
                short["sourceEventSeqs"] = event["sourceEventSeqs"]
            short["id"] = data["message"]["id"]
        if event["type"] == "turn/end":
            short["reason"] = data["reason"]["kind"]
        shown.append(short)
    assert shown == expected["closers"]
    assert repair.repaired(mended) == mended


def test_a_torn_log_is_repaired_to_the_byte() -> None:
    folder = shared_path("cases/01-torn-tail-then-append")
    mended = repair.repaired((folder / "log.jsonl").read_bytes())
    assert mended == (folder / "expected-repaired.jsonl").read_bytes()
    assert repair.repaired(mended) == mended


@given(sessions(), st.booleans(), st.data())
def test_any_cut_of_a_valid_log_is_repaired_to_a_closed_one(
    events: list[dict[str, Any]], packed: bool, data: st.DataObject
) -> None:
    log = decoded(events, packed=packed)
    cut = log[: data.draw(st.integers(len(HEADER), len(log)))]
    mended = repair.repaired(cut)
    assert mended.startswith(cut[: cut.rindex(b"\n") + 1])
    assert repair.repaired(mended) == mended
    facts = jsonl.scan(mended, SessionId("s1")).facts
    assert [fact.seq for fact in facts] == list(range(len(facts)))
    assert repair.closers(facts) == []
    boundaries = [fact.type for fact in facts if fact.type in ("turn/start", "turn/end")]
    assert boundaries == ["turn/start", "turn/end"] * (len(boundaries) // 2)
    answered = [fact.json["message"]["source"]["callId"] for fact in facts if fact.type == "tool/result"]
    asked = [
        block["id"]
        for fact in facts
        if fact.type == "assistant/message"
        for block in fact.json["message"]["content"]
    ]
    assert sorted(answered) == sorted(asked)


def test_a_log_that_needs_nothing_comes_back_as_it_is() -> None:
    log = HEADER + b'{"type":"turn/start", "seq":0,"time":0,"data":{"turn":1}}\n'
    log += b'{"type":"turn/end","seq":1,"time":0,"data":{"turn":1,"reason":{"kind":"completed"}}}\n'
    assert repair.repaired(log) == log


def test_a_broken_tail_is_dropped_and_committed_damage_is_refused() -> None:
    turn = b'{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}\n'
    end = b'{"type":"turn/end","seq":1,"time":5,"data":{"turn":1,"reason":{"kind":"interrupted"}}}\n'
    assert repair.repaired(HEADER + turn + b"{oops\n{}\n") == HEADER + turn + end
    with pytest.raises(CorruptLog) as caught:
        repair.repaired(HEADER + turn + b"{oops\n" + end)
    assert (caught.value.line, caught.value.byte) == (3, len(HEADER + turn))
    assert "1 whole records" in str(caught.value)


@pytest.mark.parametrize("log", [b"", HEADER[:-1], b"{}\n"])
def test_a_log_without_a_header_is_refused(log: bytes) -> None:
    with pytest.raises(NotALog):
        repair.repaired(log)


_keys = st.sampled_from(["turn", "step", "message", "content", "callId", "source", "id", "type"])
_leaves = (
    st.none() | st.booleans() | st.integers() | st.just(float("inf")) | st.sampled_from(["c1", "tool-call"])
)
_json = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(st.tuples(st.sampled_from(sorted(repair.TURN_TYPES)), _json), max_size=8))
def test_malformed_data_is_never_an_error(contents: list[tuple[str, Any]]) -> None:
    facts = [
        Recorded(SessionId("s1"), Seq(at), 7, type, json.dumps(data).replace("Infinity", "1e999").encode())
        for at, (type, data) in enumerate(contents)
    ]
    added = repair.closers(facts)
    assert [closer.seq for closer in added] == list(range(len(facts), len(facts) + len(added)))
    assert repair.closers(facts + added) == []
