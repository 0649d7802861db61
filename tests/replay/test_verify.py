"""A log that contradicts itself about its model calls is found out, with both sides; a sound one never is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_sessions import recorded
from streams import Session, log_of, sessions_of_calls
from twins import Log, read_log, recorded_logs

from playhead.eventstore import json_text
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.recorded import Recorded
from playhead.projections.repaired import Repaired
from playhead.replay.reassembly import Discrepancy
from playhead.replay.verify import Watcher, discrepancies

Json = dict[str, Any]
PLACE = {"turn": 1, "step": 1}
USAGE = {"inputTokens": 3, "outputTokens": 2}
STATE = {"response": {"id": "x"}, "blocks": [{"n": 1}, {"n": 2}]}
TEXT = {"type": "text", "text": "The quick brown fox jumps over the lazy dog, and nobody minds."}
CALL = {"type": "tool-call", "id": "c", "name": "read", "arguments": "{}"}


def answer(
    chunks: list[Json], message: Json, *, embedded: bool, more: Json | None = None, **envelope: Any
) -> Log:
    """A log with one answer, in one layout or the other."""
    data = {**PLACE, "message": message, "usage": USAGE, **(more or {})}
    events: list[Json] = [
        {"type": "turn/start", "data": {"turn": 1}},
        {"type": "step/start", "data": PLACE},
        {"type": "request/header", "data": {"header": {"config": {"provider": "p", "model": "m"}}}},
    ]
    tail: Json = {"type": "assistant/message", "data": data, "surfaceOp": "append"}
    if embedded:
        data["stream"] = [{"type": "chunk", "time": 9, "chunk": chunk} for chunk in chunks]
        events.append(tail | envelope)
    else:
        sources = list(range(len(events), len(events) + len(chunks)))
        events += [{"type": "assistant/chunk", "data": {**PLACE, "chunk": chunk}} for chunk in chunks]
        events.append(tail | {"sourceEventSeqs": sources} | envelope)
    events += [{"type": "step/end", "data": PLACE}, {"type": "turn/end", "data": {"turn": 1, "reason": {}}}]
    return Log.of(recorded([{"seq": seq, "time": seq, **event} for seq, event in enumerate(events)]))


CHUNKS: list[Json] = [
    {"type": "block-start", "index": 0, "blockType": "text"},
    {"type": "text-delta", "index": 0, "text": TEXT["text"][:7]},
    {"type": "text-delta", "index": 0, "text": TEXT["text"][7:]},
    {"type": "block-end", "index": 0, "block": TEXT},
    {"type": "block-start", "index": 1, "blockType": "tool-call"},
    {"type": "tool-call-delta", "index": 1, "id": "c", "name": "read", "argumentsDelta": "{}"},
    {"type": "usage", "usage": USAGE},
    {"type": "finish", "reason": {"kind": "tool-calls"}, "replayState": STATE},
]
MESSAGE: Json = {
    "role": "assistant",
    "content": [TEXT, CALL],
    "source": {"kind": "model", "provider": "p", "model": "m", "replayState": STATE},
    "id": "a1",
}


def found(log: Any) -> list[Discrepancy]:
    return list(discrepancies(log))


def only(log: Any) -> Discrepancy:
    (discrepancy,) = discrepancies(log)
    return discrepancy


BOTH = pytest.mark.parametrize("embedded", [False, True], ids=["chunk-events", "embedded"])


@BOTH
def test_an_answer_that_follows_from_its_chunks_is_passed(embedded: bool) -> None:
    assert found(answer(CHUNKS, MESSAGE, embedded=embedded)) == []


@BOTH
def test_changed_content_is_shown_from_both_sides_where_they_part(embedded: bool) -> None:
    changed = {**MESSAGE, "content": [TEXT | {"text": TEXT["text"].replace("lazy", "dead")}, CALL]}
    log = answer(CHUNKS, changed, embedded=embedded)
    assert only(log) == Discrepancy(
        "content",
        'the message has …rown fox jumps over the dead dog, and nobody minds."}, '
        'its chunks give …rown fox jumps over the lazy dog, and nobody minds."}',
        log.facts[-3].seq,
        '…rown fox jumps over the dead dog, and nobody minds."}',
        '…rown fox jumps over the lazy dog, and nobody minds."}',
    )


def changed_source(**more: Any) -> Json:
    return {**MESSAGE, "source": {**MESSAGE["source"], **more}}


@BOTH
@pytest.mark.parametrize(
    ("message", "more", "kind"),
    [
        ({**MESSAGE, "content": [TEXT]}, {}, "content"),
        ({**MESSAGE, "content": [TEXT, CALL, CALL]}, {}, "content"),
        ({**MESSAGE, "content": [CALL, TEXT]}, {}, "content"),
        ({**MESSAGE, "content": "text"}, {}, "content"),
        ({**MESSAGE, "content": None}, {}, "content"),
        ({**MESSAGE, "content": [TEXT, {**CALL, "arguments": '{"a":1}'}]}, {}, "content"),
        (changed_source(replayState=None), {}, "replay-state"),
        (changed_source(replayState={**STATE, "blocks": [{"n": 1}]}), {}, "replay-state"),
        (MESSAGE, {"usage": {**USAGE, "outputTokens": 20}}, "usage"),
        (MESSAGE, {"usage": None}, "usage"),
        (changed_source(provider="q"), {}, "route"),
        (changed_source(model="m-mini"), {}, "route"),
    ],
)
def test_each_part_of_an_answer_is_held_against_its_chunks(
    message: Json, more: Json, kind: str, embedded: bool
) -> None:
    log = answer(CHUNKS, message, embedded=embedded, more=more)
    discrepancy = only(log)
    assert (discrepancy.kind, discrepancy.seq) == (kind, log.facts[-3].seq)
    assert discrepancy.recorded != discrepancy.derived


@BOTH
def test_deeply_nested_values_are_compared_as_well(embedded: bool) -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    finish = {**CHUNKS[-1], "replayState": {"response": deep}}
    message = changed_source(replayState={"response": [deep]})

    def log(message: Json) -> Log:
        return answer([*CHUNKS[:-1], finish], message, embedded=embedded)

    assert found(log(changed_source(replayState={"response": deep}))) == []
    assert only(log(message)).kind == "replay-state"


INTERRUPTED = {"interrupted": True}


@BOTH
def test_a_part_that_was_kept_is_text_and_reasoning_alone_and_its_stream_has_no_finish(
    embedded: bool,
) -> None:
    kept = {**MESSAGE, "content": [TEXT], "source": {"kind": "model", "provider": "p", "model": "m"}}
    assert found(answer(CHUNKS[:-1], kept, embedded=embedded, more=INTERRUPTED)) == []
    whole = {**kept, "content": [TEXT, CALL]}
    assert only(answer(CHUNKS[:-1], whole, embedded=embedded, more=INTERRUPTED)).kind == "content"
    discrepancy = only(answer(CHUNKS, kept, embedded=embedded, more=INTERRUPTED))
    assert (discrepancy.kind, discrepancy.recorded, discrepancy.derived) == (
        *("finish", '"interrupted"', '{"kind":"tool-calls"}'),
    )


@BOTH
def test_a_message_of_a_stream_that_failed_is_told(embedded: bool) -> None:
    failure = {"message": "busy", "code": "SERVER"}
    failed = [*CHUNKS[:-1], {"type": "finish", "reason": {"kind": "error", "failure": failure}}]
    message = {**MESSAGE, "source": {"kind": "model", "provider": "p", "model": "m"}}
    kinds = {one.kind for one in found(answer(failed, message, embedded=embedded))}
    # As events the stream is that of a call which ended before; the message is left without chunks.
    assert kinds == ({"finish"} if embedded else {"content", "usage", "sources"})


@BOTH
def test_a_block_of_an_unknown_type_that_was_never_closed_gives_no_message(embedded: bool) -> None:
    odd = [{"type": "block-start", "index": 7, "blockType": "picture"}, *CHUNKS]
    discrepancy = only(answer(odd, MESSAGE, embedded=embedded))
    assert discrepancy.kind == "content"
    assert "unknown type 'picture'" in discrepancy.message


@BOTH
def test_what_is_no_chunk_is_told_once(embedded: bool) -> None:
    log = answer([*CHUNKS[:3], {"type": "song"}, *CHUNKS[3:]], MESSAGE, embedded=embedded)
    discrepancy = only(log)
    assert (discrepancy.kind, "unknown chunk type 'song'" in discrepancy.message) == ("stream", True)


def test_what_is_no_chunk_is_told_outside_of_every_call() -> None:
    stray = {"seq": 0, "time": 0, "type": "assistant/chunk", "data": {**PLACE, "chunk": {"type": "song"}}}
    assert (only(Log.of(recorded([stray]))).kind, only(Log.of(recorded([stray]))).seq) == ("stream", 0)


@pytest.mark.parametrize(
    "sources",
    [[3, 4, 5, 6, 7, 8, 9], [4, 5, 6, 7, 8, 9, 10], [2, 3, 4, 5, 6, 7, 8, 9, 10], [3, 10], [], [10, 3]],
)
def test_sources_that_are_not_exactly_the_chunks_are_told(sources: list[int]) -> None:
    kinds = [one.kind for one in found(answer(CHUNKS, MESSAGE, embedded=False, sourceEventSeqs=sources))]
    assert "sources" in kinds or "content" in kinds


def test_a_message_that_names_an_event_among_its_chunks_that_is_none_is_told() -> None:
    log = answer(CHUNKS, MESSAGE, embedded=False)
    facts = list(log.facts)
    told = {"seq": 5, "time": 5, "type": "feedback/record", "data": {"text": "x"}}
    facts[5] = recorded([told])[0]
    discrepancy = only(Log.of(facts))
    assert (discrepancy.kind, discrepancy.recorded, discrepancy.derived) == (
        *("sources", "[3,4,5,6,7,8,9,10]", "[3,4,6,7,8,9,10]"),
    )


def test_an_answer_of_which_no_stream_is_recorded_cannot_be_held_against_one() -> None:
    told = [fact.envelope() for fact in answer([], MESSAGE, embedded=False).facts]
    del told[3]["sourceEventSeqs"]
    assert found(Log.of(recorded(told))) == []
    assert {one.kind for one in found(answer([], MESSAGE, embedded=False))} == {
        "content",
        "usage",
        "replay-state",
    }


@BOTH
def test_two_answers_of_one_id_are_told_but_not_a_replacement(embedded: bool) -> None:
    log = answer(CHUNKS, MESSAGE, embedded=embedded)

    def again(**change: Any) -> Iterator[Json]:
        for fact in log.facts:
            told = fact.envelope()
            yield told | (change if fact.type == "assistant/message" else {})
            if fact.type == "step/end":
                break

    for fact in log.facts[:-1]:
        assert fact.type != "turn/end"
    first = list(again())
    moved = len(first) - 1
    second = []
    for told in list(again())[1:]:
        told = told | {"seq": told["seq"] + moved}
        if "sourceEventSeqs" in told:
            told["sourceEventSeqs"] = [seq + moved for seq in told["sourceEventSeqs"]]
        second.append(told)
    discrepancy = only(Log.of(recorded([*first, *second])))
    assert (discrepancy.kind, discrepancy.recorded) == ("message-id", "a1")
    message = next(at for at, told in enumerate(second) if told["type"] == "assistant/message")
    seq = first[-2]["seq"]
    second[message] = second[message] | {"surfaceOp": {"op": "replace", "start": seq, "end": seq}}
    assert found(Log.of(recorded([*first, *second]))) == []


@settings(max_examples=80)
@given(sessions_of_calls(agreeing=True))
def test_a_session_whose_messages_were_made_by_the_assembler_is_passed_in_every_layout(
    session: Session,
) -> None:
    for log in (
        session.as_chunk_events(),
        session.as_chunk_events(packed=True),
        session.as_embedded_streams(),
    ):
        assert found(log) == []
        assert found(Repaired(log)) == []


@settings(max_examples=60)
@given(sessions_of_calls(agreeing=True), st.data())
def test_any_changed_text_of_any_answer_is_found(session: Session, data: st.DataObject) -> None:
    messages = [event for event in session.events if event["type"] == "assistant/message"]
    if not messages:
        return
    event = data.draw(st.sampled_from(messages))
    content = event["data"]["message"]["content"]
    content.append({"type": "text", "text": "and more"})
    for log in (session.as_chunk_events(), session.as_embedded_streams()):
        discrepancy = only(log)
        assert (discrepancy.kind, discrepancy.recorded) == ("content", '{"type":"text","text":"and more"}')
        assert log.facts[discrepancy.seq].json["message"]["id"] == event["data"]["message"]["id"]


@settings(max_examples=60)
@given(sessions_of_calls(), st.randoms(use_true_random=False))
def test_a_log_out_of_order_can_be_verified(session: Session, random: Any) -> None:
    lines = session.lines(packed=False)
    random.shuffle(lines)
    log = log_of(json_text.dumps(json_text.parse(line) | {"seq": seq}) for seq, line in enumerate(lines))
    assert all(0 <= one.seq < len(log.facts) for one in discrepancies(log))


def watched(log: Log, events: Iterable[Recorded], *, may_read: bool) -> list[Discrepancy]:
    """What a watcher finds that was shown ``events``, and that may or may not ask for ``log``."""

    def session(id: str, generation: int) -> Log:
        assert (id, generation, may_read) == ("s", 2, True)
        return log

    watcher = Watcher(session)
    shown = watcher.watch("s", 2, events)
    try:
        assert list(shown) == list(log.events())
    except CorruptLog:
        assert may_read
    return list(watcher.discrepancies("s", 2))


@settings(max_examples=60)
@given(sessions_of_calls())
def test_who_watches_others_read_a_log_finds_what_reading_it_gives(session: Session) -> None:
    for log in (session.as_chunk_events(), session.as_embedded_streams()):
        assert watched(log, log.events(), may_read=True) == found(log)


@BOTH
def test_a_watched_log_without_doubts_is_not_read_again(embedded: bool) -> None:
    log = answer(CHUNKS, MESSAGE, embedded=embedded)
    assert watched(log, log.events(), may_read=False) == []


@BOTH
@pytest.mark.parametrize("shown", [0, 3, 7])
def test_a_log_that_was_not_watched_to_its_end_is_read(embedded: bool, shown: int) -> None:
    log = answer(CHUNKS, {**MESSAGE, "content": [TEXT]}, embedded=embedded)

    def broken() -> Iterator[Recorded]:
        yield from log.facts[:shown]
        raise CorruptLog("s", "unreadable from here on")

    assert watched(log, broken(), may_read=True) == found(log) != []
    never = Watcher(lambda _id, _generation: log)
    assert list(never.discrepancies("s", 1)) == found(log)


@pytest.mark.heavy
def test_no_recorded_log_contradicts_itself() -> None:
    for param in recorded_logs():
        log = read_log(param.values[0])
        assert found(log) == [], param.id
        assert found(Repaired(log)) == [], param.id
