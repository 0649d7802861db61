"""Dialects: stored facts of every format in, logical events out."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path

from playhead.adapters.dsh import DIALECTS, seed_length
from playhead.adapters.dsh.log_file import open_log
from playhead.eventstore import envelope
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded

HEADER = SessionHeader(SessionId("s1"), 1)


def fact(seq: int, type: str, data: Any, **members: Any) -> Recorded:
    line = json.dumps({"type": type, "seq": seq, "time": 1, "data": data, **members}).encode()
    return envelope.facts(line, HEADER.id)[0]


def logical(name: str, facts: list[Recorded]) -> list[Recorded]:
    dialect = DIALECTS[name]
    state = dialect.initial(HEADER)
    events: list[Recorded] = []
    for one in facts:
        state, more = dialect.step(state, one)
        events += more
    return events


@pytest.mark.parametrize("name", ["dsh-v0", "dsh-v1"])
@pytest.mark.parametrize("case", cases("jsonl_framing", "legacy"))
def test_retired_shapes_are_upcast_or_refused_with_their_seq(case: dict[str, Any], name: str) -> None:
    facts = [envelope.facts(json.dumps(line).encode(), HEADER.id)[0] for line in case["lines"]]
    if case.get("refused"):
        with pytest.raises(CorruptLog) as caught:
            logical(name, facts)
        assert caught.value.seq == facts[-1].seq
    else:
        assert [event.envelope() for event in logical(name, facts)] == case["events"]


CURRENT = [
    fact(0, "turn/start", {"turn": 1}),
    fact(1, "turn/end", {"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "user"}}}),
    fact(2, "turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": "m", "code": "C"}}}),
    fact(3, "user/message", {"id": "u", "role": "user", "content": [], "source": {"kind": "user"}}),
    fact(4, "assistant/message", {"turn": 1, "step": 1, "message": {"id": "a"}, "stream": []}),
    fact(5, "tool/result", {"turn": 1, "step": 1, "message": {"id": "r", "role": "user", "content": []}}),
    fact(6, "request/header", {"header": {}, "reason": "change"}),
    fact(7, "compaction/start", {"compactionId": "c"}),
    fact(8, "tool/code-dispatch", {}),
    fact(9, "x/unknown", None),
    fact(10, "session/end-seed", {"inherited": True}),
]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("event", CURRENT, ids=lambda event: f"{event.seq}-{event.type}")
def test_a_current_event_comes_back_as_the_same_object(name: str, event: Recorded) -> None:
    assert logical(name, [event]) == [event]
    assert logical(name, [event])[0] is event


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "message", "content", "source", "reason", "kind", "callId", "trigger", "role"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
types = st.sampled_from([event.type for event in CURRENT] + ["steering/message", "mode/set", "compact/end"])


@pytest.mark.parametrize("name", DIALECTS)
@given(facts=st.lists(st.tuples(types, json_values), max_size=6))
def test_any_data_is_upcast_or_refused_and_what_is_upcast_is_current(
    name: str, facts: list[tuple[str, Any]]
) -> None:
    stored = [fact(seq, type, data) for seq, (type, data) in enumerate(facts)]
    try:
        events = logical(name, stored)
    except CorruptLog:
        return
    assert [(event.seq, event.time_ms) for event in events] == [(one.seq, one.time_ms) for one in stored]
    again = logical(name, events)
    assert all(one is other for one, other in zip(again, events, strict=True))


NO_WORDS: list[Any] = [None, 1, [], ["completed"], {"kind": "completed"}]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("kind", NO_WORDS, ids=repr)
def test_a_turn_end_whose_reason_is_no_word_is_read_as_it_is(name: str, kind: Any) -> None:
    event = fact(0, "turn/end", {"turn": 1, "reason": {"kind": kind}})
    assert logical(name, [event])[0] is event


RETIRED = [
    "steering/message",
    "mode/set",
    "request/header-delta",
    "tool/ptc-dispatch",
    "tool/ptc-dispatch-start",
]


@pytest.mark.parametrize("name", DIALECTS)
@given(
    type=st.sampled_from([*(event.type for event in CURRENT), *RETIRED, "compact/end", "compact/start"]),
    data=json_values,
)
def test_a_fact_of_a_type_that_a_dialect_does_not_touch_is_its_own_event(
    name: str, type: str, data: Any
) -> None:
    dialect = DIALECTS[name]
    assert dialect.touches is not None
    assert set(dialect.remembers or ()) <= set(dialect.touches)
    if type not in dialect.touches:
        state, one = dialect.initial(HEADER), fact(0, type, data)
        after, events = dialect.step(state, one)
        assert after is state
        assert [event is one for event in events] == [True]


FLAT = {"turn": 1, "step": 1, "callId": "c", "content": []}
results = st.builds(
    lambda data, at: (
        data,
        {"surfaceOp": "append" if at is None else {"op": "replace", "start": at, "end": at}},
    ),
    st.just(FLAT) | st.just({"turn": 1, "step": 1, "message": {"id": "r", "role": "user", "content": []}}),
    st.none() | st.integers(0, 5),
)
facts_and_results = st.lists(
    st.tuples(types, json_values, st.just({})) | results.map(lambda one: ("tool/result", *one)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", DIALECTS)
@given(facts=facts_and_results)
def test_a_dialect_that_begins_in_the_middle_needs_only_what_it_says_it_remembers(
    name: str, facts: list[tuple[str, Any, dict[str, Any]]]
) -> None:
    dialect = DIALECTS[name]
    remembers = dialect.remembers
    assert remembers is not None
    *earlier, last = [fact(seq, type, data, **more) for seq, (type, data, more) in enumerate(facts)]
    shown = [one for one in earlier if one.type in remembers] if last.type in remembers else []

    def told(before: list[Recorded]) -> Any:
        state = dialect.initial(HEADER)
        for one in before:
            with suppress(CorruptLog):
                state, _ = dialect.step(state, one)
        try:
            return list(dialect.step(state, last)[1])
        except CorruptLog as error:
            return str(error)

    assert told(earlier) == told(shown)


def test_a_state_can_be_stepped_from_twice() -> None:
    dialect = DIALECTS["dsh-v0"]
    flat = FLAT
    state, _ = dialect.step(dialect.initial(HEADER), fact(0, "tool/result", flat, surfaceOp="append"))
    for seq in (1, 2):  # the second step must not see what the first one added
        after, _ = dialect.step(state, fact(seq, "tool/result", flat, surfaceOp="append"))
        replacing = fact(3, "tool/result", flat, surfaceOp={"op": "replace", "start": seq, "end": seq})
        _, events = dialect.step(after, replacing)
        assert events[0].json["message"]["id"] == f"legacy-message:s1:{seq}"
    with pytest.raises(CorruptLog, match="no tool result"):
        dialect.step(state, replacing)


def test_a_flat_result_inherits_the_id_of_a_message_that_has_one() -> None:
    facts = [
        fact(0, "tool/result", {"message": {"id": "r1"}}, surfaceOp="append"),
        fact(
            4,
            "tool/result",
            {"callId": "c", "content": []},
            surfaceOp={"op": "replace", "start": 0, "end": 0},
        ),
    ]
    assert logical("dsh-v0", facts)[1].json["message"]["id"] == "r1"


@pytest.mark.parametrize(
    ("stored", "read"), [("compact/start", "compaction/start"), ("compact/prune", "compaction/prune")]
)
def test_early_names_of_compaction_are_read_as_the_later_ones(stored: str, read: str) -> None:
    for name in ("dsh-v0", "dsh-v1"):
        [event] = logical(name, [fact(0, stored, {"compactionId": "c"})])
        assert (event.type, event.raw) == (read, b'{"compactionId": "c"}')


@pytest.mark.parametrize("name", ["dsh-v3", "dsh-v4"])
def test_code_dispatch_has_its_name_back(name: str) -> None:
    facts = [fact(0, "tool/ptc-dispatch-start", {"a": 1}), fact(1, "tool/ptc-dispatch", {"a": 1})]
    assert [event.type for event in logical(name, facts)] == [
        "tool/code-dispatch-start",
        "tool/code-dispatch",
    ]


def test_a_flat_tool_message_is_wrapped_into_a_block_and_keeps_the_rest() -> None:
    message = {
        "role": "tool",
        "source": {"kind": "tool", "callId": "c"},
        "toolCallId": "c",
        "content": [{"type": "text", "text": "x"}],
        "isError": False,
        "id": "m",
        "later": 1,
    }
    stored = fact(3, "tool/result", {"turn": 1, "step": 1, "message": message, "meta": {"cwd": "/"}})
    [event] = logical("dsh-v4", [stored])
    block = {"type": "tool-result", "toolCallId": "c", "content": message["content"], "isError": False}
    assert event.json == {
        "turn": 1,
        "step": 1,
        "message": {
            "role": "user",
            "source": message["source"],
            "content": [block],
            "id": "m",
            "later": 1,
        },
        "meta": {"cwd": "/"},
    }


def test_an_early_header_states_the_seed_and_no_fact_is_read() -> None:
    header = SessionHeader(SessionId("s"), 1, version=1, seed_length=21)
    assert seed_length(header, iter(lambda: pytest.fail("a fact was read"), None)) == 21
    assert seed_length(SessionHeader(SessionId("s"), 1), []) is None


def test_a_later_seed_ends_at_the_last_inherited_marker() -> None:
    header = SessionHeader(SessionId("s"), 1, version=4, is_seeded=True)
    markers = [
        fact(4, "session/end-seed", {"inherited": True}),
        fact(9, "session/end-seed", {"inherited": True}),
        fact(12, "session/end-seed", {}),
    ]
    assert seed_length(header, markers) == Seq(9)
    assert seed_length(header, markers[2:]) is None
    unseeded = SessionHeader(SessionId("s"), 1, version=4, is_seeded=False)
    assert seed_length(unseeded, markers) is None


def corpus_events(path: str) -> tuple[SessionHeader, list[Recorded]]:
    with open_log(str(shared_path(f"corpus/dsh/{path}")), "", path) as log:
        facts = [
            one
            for block in log.blocks()
            for line in block.split(b"\n")[:-1]
            for one in envelope.facts(line, log.header.id)
        ]
        return log.header, logical(log.dialect, facts)


FORK = "sessions/--tmp-ws--/0cb1f13a-fe31-4d93-bcca-36a7b4c1cd76"


def test_one_session_in_formats_0_1_and_2_gives_the_same_events_but_for_the_numbering() -> None:
    by_version = [
        corpus_events(f"0.1.2rc1/subagent-fork/{FORK}/session.jsonl.zstd")[1],
        corpus_events(f"0.2.1rc2/migrate-from-derived-v1-subagent-fork/before/{FORK}/session.v1.jsonl.zstd")[
            1
        ],
        corpus_events(f"derived-v2/subagent-fork/{FORK}/session.v2.jsonl.zstd")[1],
    ]
    assert by_version[0] == by_version[1]
    moved = {"assistant/chunk", "assistant/message", "session/title", "session/end-seed"}
    plain = [
        [(event.type, event.time_ms, event.json) for event in events if event.type not in moved]
        for events in by_version
    ]
    assert plain[0] == plain[2]
    messages = [
        [event.json["message"] for event in events if event.type == "assistant/message"]
        for events in by_version
    ]
    assert messages[0] == messages[2]


def test_a_fork_inherited_the_same_events_in_every_format() -> None:
    early = corpus_events(f"0.1.2rc1/subagent-fork/{FORK}/session.jsonl.zstd")
    later = corpus_events(f"derived-v2/subagent-fork/{FORK}/session.v2.jsonl.zstd")
    cut = seed_length(*early)
    assert cut == 21
    turns = [
        [event.time_ms for event in events[: seed_length(header, events)] if event.type.startswith("turn/")]
        for header, events in (early, later)
    ]
    assert turns[0] == turns[1] != []
