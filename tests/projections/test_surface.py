from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import recorded, sessions
from twins import Log, read_log, recorded_logs

from playhead.eventstore import envelope, json_text
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded
from playhead.projections import same_json
from playhead.projections.folding import advance, begin, fold
from playhead.projections.surface import Surface, apply, message_of, messages, surface, window


def facts(events: list[dict[str, Any]]) -> list[Recorded]:
    return [fact for event in events for fact in envelope.facts(json.dumps(event).encode(), SessionId("s1"))]


def sha256(text: str) -> str:
    return hashlib.sha256(json_text.whole(text).encode("utf-8", "surrogatepass")).hexdigest()


def all_text(blocks: list[dict[str, Any]]) -> str:
    """The text blocks joined, those inside tool results among them."""
    return "".join(
        all_text(block["content"]) if block["type"] == "tool-result" else block["text"]
        for block in blocks
        if block["type"] in ("text", "tool-result")
    )


@pytest.mark.parametrize("case", cases("surface", "cases"))
def test_vectors_fold_to_the_expected_surface(case: dict[str, Any]) -> None:
    events, expect = facts(case["events"]), case["expect"]
    state = window(events)
    if "error" in expect:
        assert (state.breaches[0].kind, state.breaches[0].seq) == (
            expect["error"],
            events[expect["index"]].seq,
        )
        before, after = (window(events[:end]) for end in (expect["index"], expect["index"] + 1))
        assert (before.seqs, before.breaches) == (after.seqs, ())
        return
    shown = surface.view(state)
    assert shown["breaches"] == []
    assert shown["entries"] == expect["nodes"]
    assert shown["generation"] == expect["replaceGeneration"]
    assert shown["replacements"] == expect["replacements"]
    sent = messages(Log.of(events), state)
    assert [message["id"] for _, message in sent] == expect["modelMessageIds"]


@pytest.mark.parametrize("case", cases("surface", "windows"))
def test_a_window_folds_on_its_own(case: dict[str, Any]) -> None:
    state = window(facts(case["events"]), case["baseSeq"])
    expect = case["expect"]
    if "error" in expect:
        assert state.breaches[0].kind == expect["error"]
        assert state.breaches[0].seq == case["events"][expect["index"]]["seq"]
    else:
        assert (state.seqs, state.generation, state.breaches) == (
            expect["nodes"],
            expect["replaceGeneration"],
            (),
        )


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_recorded_logs_fold_to_what_the_original_folds_them_to(case: dict[str, Any]) -> None:
    log = read_log(shared_path(case["corpus"]))
    folded = fold(log, surface)
    assert (folded.state.seqs, folded.state.generation) == (case["surface"], case["replace_generation"])
    assert (folded.state.breaches, folded.complete) == ((), True)
    sent = [
        {
            "seq": seq,
            "id": message["id"],
            "role": message["role"],
            "source": message["source"]["kind"],
            "text_sha256": sha256(all_text(message["content"])),
        }
        for seq, message in messages(log, folded.state)
    ]
    assert sent == [{key: wanted[key] for key in sent[0]} for wanted in case["messages"]]


@pytest.mark.parametrize("path", recorded_logs())
def test_recorded_logs_fold_without_a_breach(path: Any) -> None:
    if "edited-" not in str(path):
        assert fold(read_log(path), surface).state.breaches == ()


def test_two_compactions_leave_the_second_summary_and_what_came_after() -> None:
    log = read_log(shared_path("cases/20-two-compactions-two-views/log.jsonl"))
    assert fold(log, surface).state.seqs == [42, 32, 37]
    assert fold(log, surface, at=26).state.seqs == [26, 16, 21]
    texts = [
        "".join(block["text"] for block in message["content"])
        for _, message in messages(log, fold(log, surface).state)
    ]
    assert texts == ["Robin asked for steps; two were given.", "what is my name?", "Robin."]


def surface_events() -> st.SearchStrategy[list[Recorded]]:
    """Events of all kinds whose operations, sources and data are often wrong."""
    seqs = st.integers(-1, 12)
    op = st.one_of(
        st.just("append"),
        st.just("append"),
        st.builds(lambda start, end: {"op": "replace", "start": start, "end": end}, seqs, seqs),
        st.none(),
    )
    event = st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["user/message", "assistant/message", "tool/result", "system/message", "turn/start", "x/y"]
            ),
            "data": st.sampled_from(
                [None, 1, [], {}, {"message": {}}, {"message": {"content": [{"type": "tool-result"}]}}]
            ),
            "surfaceOp": op,
        },
        optional={
            "sourceEventSeqs": st.one_of(st.none(), st.lists(seqs, max_size=4), st.just(list(range(6))))
        },
    )
    return st.lists(event, max_size=25).map(
        lambda found: facts([{"seq": at, "time": 1, **item} for at, item in enumerate(found)])
    )


@settings(max_examples=150)
@given(surface_events(), st.data())
def test_a_cut_and_a_checkpoint_anywhere_change_nothing(events: list[Recorded], data: st.DataObject) -> None:
    log = Log.of(events)
    cut = data.draw(st.integers(0, len(events)))
    part = advance(surface, begin(surface, log.header), events[:cut])
    assert surface.load(surface.dump(part.state)) == part.state
    assert advance(surface, part, events[cut:]).state == fold(log, surface).state


@settings(max_examples=150)
@given(surface_events())
def test_any_events_fold_and_entries_are_unique_events_of_the_surface(events: list[Recorded]) -> None:
    state = Surface()
    for event in events:
        after = apply(state, event)
        refused = len(after.breaches) > len(state.breaches)
        assert not refused or after.seqs == state.seqs
        assert after.generation == len(after.replacements)
        state = after
    assert len(set(state.seqs)) == len(state.seqs)


@given(sessions())
def test_an_event_that_is_not_on_the_surface_leaves_the_same_state(events: list[dict[str, Any]]) -> None:
    state = Surface()
    for event in recorded(events):
        after = apply(state, event)
        assert (after is state) == (event.surface_op is None)
        state = after
    assert state.breaches == ()


def test_many_entries_are_kept_in_order_and_replaced_across_blocks() -> None:
    line = {"type": "user/message", "time": 1, "data": {"id": "u", "content": []}, "surfaceOp": "append"}
    appended = facts([{**line, "seq": at} for at in range(1000)])
    state = window(appended)
    assert state.seqs == list(range(1000))
    op = {"op": "replace", "start": 100, "end": 899}
    last = {**line, "seq": 1000, "surfaceOp": op, "sourceEventSeqs": list(range(100, 900))}
    state = window([*appended, *facts([last])])
    assert state.seqs == [*range(100), 1000, *range(900, 1000)]
    assert state.replacements[0].shadowed == tuple(range(100, 900))
    assert state.with_entry(state.last[0]).seqs[:-1] == state.seqs


def test_notices_about_tools_and_empty_prompts_are_not_sent() -> None:
    note, empty, full = facts(
        [
            {
                "type": type,
                "seq": at,
                "time": 1,
                "data": {"message": {"content": content}},
                "surfaceOp": "append",
            }
            for at, (type, content) in enumerate(
                [("developer/message", [{}]), ("system/message", []), ("system/message", [{}])]
            )
        ]
    )
    assert (message_of(note), message_of(empty)) == (None, None)
    assert message_of(full) == {"content": [{}]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(json_values, json_values)
def test_digests_differ_exactly_where_values_differ(one: Any, other: Any) -> None:
    def spelled(value: Any) -> Any:
        return json.dumps(_plain(value), sort_keys=True)

    assert (same_json.digest(one) == same_json.digest(other)) == (spelled(one) == spelled(other))


def _plain(value: Any) -> Any:
    """The value with whole floats as integers, as JSON readers that know doubles only see it."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def test_key_order_does_not_count_and_depth_is_no_limit() -> None:
    assert same_json.digest({"a": 1, "b": [2.0]}) == same_json.digest({"b": [2], "a": 1})
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert same_json.digest(deep) != same_json.digest([deep])
