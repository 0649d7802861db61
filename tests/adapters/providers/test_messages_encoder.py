"""Answers on the wire of the Messages format: what was recorded comes back, and when each event is due."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from answers import messages_answers
from exchanges import MESSAGES_RUNTIMES, Exchange, Scenario, scenarios
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import shared_path
from wire import bytewise, cut, logged, received, sent

from playhead.adapters.providers.dialect import decode
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES, MessagesDialect
from playhead.adapters.providers.sse import EventReader
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import Chunk, FinishChunk, decode_chunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError
from playhead.replay.attempt import attempts

DIALECTS = [ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES]
BOTH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
RECORDED = pytest.mark.parametrize("scenario", scenarios(*MESSAGES_RUNTIMES))
BROKEN = ("TRANSPORT", "STREAM_CLOSED")


def chunks_of(*values: dict[str, Any]) -> list[Chunk]:
    return [decode_chunk(value) for value in values]


def failed(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {
        "type": "finish",
        "reason": {"kind": "error", "failure": {"message": message, "code": code, **more}},
    }


def half(*, closed: bool = False) -> list[dict[str, Any]]:
    end = {"type": "block-end", "index": 0, "block": {"type": "text", "text": "half"}}
    return [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "half"},
        *([end] if closed else []),
    ]


def finish(kind: str = "stop") -> dict[str, Any]:
    return {"type": "finish", "reason": {"kind": kind}}


USAGE: dict[str, Any] = {"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 4}}


def events(dialect: MessagesDialect, *values: dict[str, Any]) -> list[dict[str, Any]]:
    """The payloads of an encoded answer."""
    return [json.loads(event.data) for _, event in dialect.encode(chunks_of(*values))]


def back(dialect: MessagesDialect, chunks: list[Chunk]) -> list[Chunk]:
    return logged(dialect, sent(dialect.encode(chunks)))


def recorded(exchange: Exchange) -> list[Chunk]:
    assert exchange.attempt is not None
    return [timed.chunk for timed in exchange.attempt.chunks()]


def without_broken_end(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks before a failure that the connection told, or that had a status."""
    reason = chunks[-1].reason if chunks and isinstance(chunks[-1], FinishChunk) else None
    is_outside = isinstance(reason, FinishError) and (reason.failure.status or reason.failure.code in BROKEN)
    return chunks[:-1] if is_outside else chunks


# What was recorded


@RECORDED
def test_every_recorded_answer_gives_the_recorded_chunks_in_any_cut(scenario: Scenario) -> None:
    for exchange in scenario.exchanges():
        if exchange.attempt is None or exchange.status != 200:
            continue
        wanted = recorded(exchange)
        places = random.Random(exchange.session).sample(range(len(exchange.body)), 20)
        for pieces in ([exchange.body], cut(exchange.body, places)):
            chunks, failure = received(DEEPSEEK_MESSAGES, pieces)
            if failure is not None:
                chunks.append(FinishChunk(FinishError(failure=failure)))
            if exchange.end == "complete":
                assert chunks == wanted
            else:
                assert (chunks[:-1], exchange.end) == (wanted[:-1], "reset")


@pytest.mark.parametrize("name", ["reasoning", "tool", "malformed", "unicode-split", "keepalive"])
def test_a_recorded_answer_gives_the_recorded_chunks_cut_at_every_byte(name: str) -> None:
    for exchange in Scenario(shared_path(f"corpus/dsh/0.2.1rc2/{name}")).exchanges():
        chunks, failure = received(DEEPSEEK_MESSAGES, bytewise(exchange.body))
        wanted = recorded(exchange)
        assert chunks == wanted[: len(chunks)]
        assert len(wanted) - len(chunks) == (failure is not None)


@RECORDED
def test_answers_that_the_client_ended_begin_as_the_attempts_that_have_no_finish(scenario: Scenario) -> None:
    given = []
    for answer in scenario.unlisted():
        chunks, failure = received(DEEPSEEK_MESSAGES, [answer])
        assert failure is not None
        assert failure.code == "STREAM_CLOSED"
        assert not any(isinstance(chunk, FinishChunk) for chunk in chunks)
        given.append(chunks)
    if scenario.folder.name.startswith("migrate-from"):
        return  # the bytes of what was migrated lie with the log that was
    for log in scenario.logs().values():
        for attempt in attempts(log):
            chunks = [timed.chunk for timed in attempt.chunks()]
            if chunks and not isinstance(chunks[-1], FinishChunk):
                assert any(chunks == whole[: len(chunks)] for whole in given)


@RECORDED
def test_a_recorded_answer_encoded_is_the_answer_as_it_came(scenario: Scenario) -> None:
    for exchange in scenario.exchanges():
        if exchange.attempt is None:
            continue
        chunks = recorded(exchange)
        came = [json.loads(event.data) for event in _events(exchange.body) if event.data.startswith('{"')]
        id = came[0]["message"]["id"] if came else ""
        ours = [
            json.loads(event.data)
            for _, event in DEEPSEEK_MESSAGES.encode(chunks, id=id)
            if event.data != "{"
        ]
        is_whole = exchange.attempt.outcome == "finished"
        assert ours == (came if is_whole else ours)
        assert without_broken_end(back(DEEPSEEK_MESSAGES, chunks) or chunks) == without_broken_end(chunks)


# What is generated


@settings(max_examples=50)
@given(st.data())
@BOTH
def test_an_answer_encoded_and_decoded_is_the_same_answer(
    dialect: MessagesDialect, data: st.DataObject
) -> None:
    chunks = data.draw(messages_answers(dialect))
    assert back(dialect, chunks) == chunks


@settings(max_examples=50)
@given(st.data())
@BOTH
def test_the_wire_is_what_clients_of_the_format_insist_on(
    dialect: MessagesDialect, data: st.DataObject
) -> None:
    chunks = data.draw(messages_answers(dialect))
    wire = list(dialect.encode(chunks, model="m"))
    payloads = [json.loads(event.data) for _, event in wire]
    assert [event.event for _, event in wire] == [payload["type"] for payload in payloads]
    kinds = [payload["type"] for payload in payloads]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert set(payloads[0]["message"]) >= {"id", "type", "role", "model", "content", "stop_reason", "usage"}
    assert {"input_tokens", "output_tokens"} <= set(payloads[0]["message"]["usage"])
    started = [payload["index"] for payload in payloads if payload["type"] == "content_block_start"]
    stopped = [payload["index"] for payload in payloads if payload["type"] == "content_block_stop"]
    assert started == list(range(len(started))) == sorted(stopped)
    assert payloads[-2]["delta"]["stop_reason"] in dialect.profile.stop_reasons


@settings(max_examples=50)
@given(st.data())
@BOTH
def test_each_event_is_due_with_the_chunks_that_it_gives(
    dialect: MessagesDialect, data: st.DataObject
) -> None:
    chunks = data.draw(messages_answers(dialect))
    wire = list(dialect.encode(chunks))
    decoder = dialect.decoder()
    given_so_far = 0
    for due, event in wire:
        given_so_far += len(list(decoder.push(event)))
        # An end is of several chunks, and the signature and the start of a tool come a chunk later than they could.
        assert given_so_far <= due
    assert [due for due, _ in wire] == sorted(due for due, _ in wire)
    assert (given_so_far, wire[-1][0]) == (len(chunks), len(chunks))


@settings(max_examples=50)
@given(data=st.data(), places=st.integers(0, 40))
@BOTH
def test_an_answer_that_was_cut_off_gives_what_had_come_and_no_end(
    dialect: MessagesDialect, data: st.DataObject, places: int
) -> None:
    whole = data.draw(messages_answers(dialect))
    chunks = whole[: min(places, len(whole) - 2)]
    came, failure = received(dialect, [sent(dialect.encode(chunks))])
    lost = [chunk for chunk in chunks if chunk not in came]
    assert failure is not None
    assert failure.code == "STREAM_CLOSED"
    assert came == [chunk for chunk in chunks if chunk not in lost]
    assert all(chunk.to_json().get("blockType") == "tool-call" for chunk in lost)


@settings(max_examples=50)
@given(st.data())
@BOTH
def test_an_answer_as_one_object_has_what_the_stream_has(
    dialect: MessagesDialect, data: st.DataObject
) -> None:
    chunks = data.draw(messages_answers(dialect))
    whole = list(dialect.decoder().whole(dialect.encode_whole(chunks, model="m")))
    ours, theirs = BlockAssembler(chunks), BlockAssembler(whole)
    assert [_said(block) for block in theirs.blocks()] == [_said(block) for block in ours.blocks()]
    assert (theirs.finish, theirs.usage) == (ours.finish, ours.usage)


@pytest.mark.parametrize("other", DIALECTS, ids=lambda dialect: dialect.name)
@settings(max_examples=50)
@given(st.data())
@BOTH
def test_content_and_finish_survive_in_the_other_dialect(
    dialect: MessagesDialect, other: MessagesDialect, data: st.DataObject
) -> None:
    chunks = data.draw(messages_answers(dialect))
    ours, theirs = BlockAssembler(chunks), BlockAssembler(back(other, chunks))
    assert theirs.blocks() == ours.blocks()
    assert theirs.finish == ours.finish


# Failures


@BOTH
@pytest.mark.parametrize(
    "code",
    [
        "AUTH",
        "INVALID_REQUEST",
        "CONTEXT_WINDOW_EXCEEDED",
        "HTTP_404",
        "RATE_LIMIT",
        "QUOTA",
        "SERVER",
        "PROVIDER_ERROR",
    ],
)
def test_a_failure_that_the_stream_can_tell_is_told_behind_what_had_come(
    dialect: MessagesDialect, code: str
) -> None:
    chunks = chunks_of(*half(), failed(code, "because"))
    assert back(dialect, chunks) == chunks


@BOTH
@pytest.mark.parametrize("code", ["TRANSPORT", "STREAM_CLOSED", "TIMEOUT", "ABORTED"])
def test_a_failure_of_the_connection_just_stops_the_events(dialect: MessagesDialect, code: str) -> None:
    kinds = [event["type"] for event in events(dialect, *half(), failed(code))]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]
    assert events(dialect, failed(code)) == []


@BOTH
def test_a_failure_of_http_is_no_part_of_a_stream(dialect: MessagesDialect) -> None:
    assert events(dialect, failed("RATE_LIMIT", status=429)) == []


@BOTH
def test_an_aborted_answer_and_one_without_a_finish_stop_alike(dialect: MessagesDialect) -> None:
    aborted = {
        "type": "finish",
        "reason": {"kind": "aborted", "failure": {"message": "x", "code": "ABORTED"}},
    }
    assert events(dialect, *half(), aborted) == events(dialect, *half())


@BOTH
def test_what_was_malformed_is_malformed_again(dialect: MessagesDialect) -> None:
    chunks = chunks_of(
        *half(), failed("MALFORMED_RESPONSE", f"{dialect.profile.label} SSE contains invalid JSON")
    )
    assert back(dialect, chunks) == chunks


def test_malformed_arguments_of_a_tool_are_found_by_a_reader_that_looks_into_them() -> None:
    call = {"type": "tool-call", "id": "c", "name": "bash", "arguments": "{not json"}
    chunks = chunks_of(
        {"type": "block-start", "index": 0, "blockType": "tool-call"},
        {"type": "tool-call-delta", "index": 0, "id": "c", "name": "bash", "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 0, "id": "c", "argumentsDelta": "{not json"},
        {"type": "block-end", "index": 0, "block": call},
        failed("MALFORMED_RESPONSE", "DeepSeek Messages stream: tool input is invalid JSON"),
    )
    assert back(DEEPSEEK_MESSAGES, chunks) == chunks
    assert [json.loads(e.data)["type"] for _, e in DEEPSEEK_MESSAGES.encode(chunks)][-1] == "message_stop"
    assert back(ANTHROPIC_MESSAGES, chunks)[-1].reason.failure.code == "MALFORMED_RESPONSE"  # type: ignore[union-attr]


def test_an_empty_answer_is_empty_again() -> None:
    bare = chunks_of(failed("EMPTY_RESPONSE", "DeepSeek Messages returned no content"))
    assert back(DEEPSEEK_MESSAGES, bare) == bare
    counted = chunks_of(USAGE, failed("EMPTY_RESPONSE", "Anthropic Messages returned no content"))
    assert back(ANTHROPIC_MESSAGES, counted) == counted


def test_a_stop_reason_that_is_a_failure_is_said_again_by_anthropic() -> None:
    chunks = chunks_of(
        *half(closed=True), USAGE, failed("REFUSAL", "Anthropic Messages stopped with refusal")
    )
    assert back(ANTHROPIC_MESSAGES, chunks) == chunks


@BOTH
@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([*half(), failed("SERVER")], "SERVER"),
        ([failed("RATE_LIMIT", status=429)], "RATE_LIMIT"),
        (half(), "STREAM_CLOSED"),
        ([], "STREAM_CLOSED"),
    ],
)
def test_an_answer_that_did_not_end_well_is_no_object(
    dialect: MessagesDialect, values: list[dict[str, Any]], code: str
) -> None:
    with pytest.raises(AdapterError) as caught:
        dialect.encode_whole(chunks_of(*values))
    assert caught.value.code == code


# What other sources record


@BOTH
def test_a_block_without_deltas_arrives_whole(dialect: MessagesDialect) -> None:
    call = {"type": "tool-call", "id": "c", "name": "f", "arguments": '{"a":1}'}
    blocks = [{"type": "reasoning", "text": "why"}, {"type": "text", "text": "Hi"}, call]
    values = [
        value
        for index, block in enumerate(blocks)
        for value in (
            {"type": "block-start", "index": index, "blockType": block["type"]},
            {"type": "block-end", "index": index, "block": block},
        )
    ]
    chunks = back(dialect, chunks_of(*values, finish("tool-calls")))
    assert [block.to_json() for block in BlockAssembler(chunks).blocks()] == blocks
    assert chunks[-1].reason.tag == "tool-calls"  # type: ignore[union-attr]


@BOTH
def test_blocks_of_unknown_types_are_left_out_and_indexes_stay_dense(dialect: MessagesDialect) -> None:
    values = [
        {"type": "block-start", "index": 0, "blockType": "picture"},
        {"type": "text-delta", "index": 0, "text": "lost"},
        {"type": "block-end", "index": 0, "block": {"type": "picture", "data": "x"}},
        {"type": "text-delta", "index": 7, "text": "kept"},
        finish(),
    ]
    found = events(dialect, *values)
    assert [event["index"] for event in found if "index" in event] == [0, 0, 0]
    assert dialect.encode_whole(chunks_of(*values))["content"] == [{"type": "text", "text": "kept"}]


@BOTH
def test_a_call_that_nobody_named_gets_an_id_of_its_place(dialect: MessagesDialect) -> None:
    delta = {"type": "tool-call-delta", "index": 0, "id": "", "name": "f", "argumentsDelta": "{}"}
    start = events(dialect, {"type": "block-start", "index": 0, "blockType": "tool-call"}, delta, finish())[1]
    assert (start["content_block"]["id"], start["content_block"]["name"]) == ("call-0", "f")


@BOTH
def test_a_tool_call_that_says_nothing_but_its_start_has_no_spelling(dialect: MessagesDialect) -> None:
    assert events(dialect, {"type": "block-start", "index": 0, "blockType": "tool-call"}) == []


@BOTH
def test_what_follows_the_finish_is_not_sent(dialect: MessagesDialect) -> None:
    assert events(dialect, *half(), finish(), *half()) == events(dialect, *half(), finish())


@BOTH
def test_replay_state_of_another_dialect_or_of_other_blocks_signs_nothing(dialect: MessagesDialect) -> None:
    thinking = [
        {"type": "block-start", "index": 0, "blockType": "reasoning"},
        {"type": "block-end", "index": 0, "block": {"type": "reasoning", "text": "h"}},
    ]
    response = {"kind": dialect.name, "version": 1, "model": "m"}
    entry = {"type": "reasoning", "signature": "s"}
    states: list[Any] = [
        {"response": {**response, "kind": "other"}, "blocks": [entry]},
        {"response": {**response, "version": 2}, "blocks": [entry]},
        {"response": response, "blocks": [entry, entry]},
        {"response": response},
        {"response": 5, "blocks": 5},
        "no object",
    ]
    for state in states:
        kinds = [
            e["delta"]["type"]
            for e in events(dialect, *thinking, {**finish(), "replayState": state})
            if "index" in e and "delta" in e
        ]
        assert kinds == ["thinking_delta"]
    good = {"response": response, "blocks": [entry]}
    signed = events(dialect, *thinking, {**finish(), "replayState": good})
    assert {"type": "signature_delta", "signature": "s"} in [event.get("delta") for event in signed]
    (block,) = dialect.encode_whole(chunks_of(*thinking, {**finish(), "replayState": good}))["content"]
    assert block["signature"] == "s"


def test_redacted_thinking_comes_back_with_its_data() -> None:
    response = {"kind": "anthropic-messages", "version": 1, "model": "m", "id": "i", "stopReason": "end_turn"}
    chunks = chunks_of(
        {"type": "block-start", "index": 0, "blockType": "reasoning"},
        {"type": "block-end", "index": 0, "block": {"type": "reasoning", "text": ""}},
        USAGE,
        {**finish(), "replayState": {"response": response, "blocks": [{"redacted": "opaque=="}]}},
    )
    assert back(ANTHROPIC_MESSAGES, chunks) == chunks
    assert ANTHROPIC_MESSAGES.encode_whole(chunks)["content"] == [
        {"type": "redacted_thinking", "data": "opaque=="}
    ]


def test_model_and_id_are_those_of_the_recording_else_those_that_are_given() -> None:
    (_, event), *_ = DEEPSEEK_MESSAGES.encode(chunks_of(*half(), finish()), model="m", id="i")
    message = json.loads(event.data)["message"]
    assert (message["model"], message["id"]) == ("m", "i")
    (_, event), *_ = DEEPSEEK_MESSAGES.encode(chunks_of(*half(), finish()))
    assert json.loads(event.data)["message"]["id"] == "msg_0"


def _events(body: bytes) -> Any:
    return EventReader().push(body)


def _said(block: Any) -> Any:
    """A block as JSON, arguments as their value: one object spells them anew."""
    members = block.to_json()
    return members | ({"arguments": json.loads(members["arguments"])} if "arguments" in members else {})


def test_decoding_ends_with_the_failure_as_a_log_has_it() -> None:
    wire = [event for _, event in DEEPSEEK_MESSAGES.encode(chunks_of(*half()))]
    *_, last = decode(DEEPSEEK_MESSAGES, wire)
    closed = Failure(message="DeepSeek Messages stream ended before message_stop", code="STREAM_CLOSED")
    assert last == FinishChunk(FinishError(failure=closed))
