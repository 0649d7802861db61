"""Chat completions from chunks: what was decoded is written so that it decodes to the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_payloads import bodies
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import logged, received, sent

from playhead.adapters.providers.chat import (
    DEEPSEEK_CHAT,
    DEEPSEEK_CHAT_0_1_1,
    OPENAI_CHAT,
    ChatDialect,
)
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import Chunk, FinishChunk, decode_chunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError

dialects = pytest.mark.parametrize(
    "dialect", [DEEPSEEK_CHAT, DEEPSEEK_CHAT_0_1_1, OPENAI_CHAT], ids=lambda d: d.name
)


def chunk(type: str, **members: Any) -> Chunk:
    return decode_chunk({"type": type, **members})


def text(index: int, *parts: str) -> list[Chunk]:
    """A text block, whole."""
    return [
        chunk("block-start", index=index, blockType="text"),
        *(chunk("text-delta", index=index, text=part) for part in parts),
        chunk("block-end", index=index, block={"type": "text", "text": "".join(parts)}),
    ]


def finish(kind: str, **members: Any) -> Chunk:
    return chunk("finish", reason={"kind": kind, **members})


def failed(code: str, message: str = "it failed", **members: Any) -> Chunk:
    return finish("error", failure={"message": message, "code": code, **members})


def payloads(dialect: ChatDialect, chunks: list[Chunk]) -> list[Any]:
    """The payloads on the wire, the terminator left out."""
    events = [event.data for _, event in dialect.encode(chunks, model="m", id="i")]
    return [json.loads(data) for data in events if data != "[DONE]"]


def deltas(dialect: ChatDialect, chunks: list[Chunk]) -> list[dict[str, Any]]:
    return [payload["choices"][0]["delta"] for payload in payloads(dialect, chunks)]


@settings(max_examples=150)
@given(body=bodies, dialect=st.sampled_from([DEEPSEEK_CHAT, DEEPSEEK_CHAT_0_1_1, OPENAI_CHAT]))
def test_decoded_chunks_survive_their_wire_events(body: bytes, dialect: ChatDialect) -> None:
    chunks = logged(dialect, body)
    found = logged(dialect, sent(dialect.encode(chunks, model="m")))
    assert found == chunks


@given(body=bodies, dialect=st.sampled_from([DEEPSEEK_CHAT, OPENAI_CHAT]), length=st.integers(0, 20))
def test_an_answer_that_was_cut_off_survives_up_to_a_block_that_had_only_been_begun(
    body: bytes, dialect: ChatDialect, length: int
) -> None:
    before_end = [
        chunk for chunk in logged(dialect, body) if chunk.tag not in ("block-end", "usage", "finish")
    ]
    chunks = before_end[:length]
    found, failure = received(dialect, [sent(dialect.encode(chunks))])
    assert failure is not None
    assert failure.code == "STREAM_CLOSED"
    assert found == (chunks[:-1] if chunks and chunks[-1].tag == "block-start" else chunks)


@settings(max_examples=100)
@given(body=bodies, dialect=st.sampled_from([DEEPSEEK_CHAT, OPENAI_CHAT]))
def test_a_whole_answer_has_the_content_of_the_stream(body: bytes, dialect: ChatDialect) -> None:
    chunks, failure = received(dialect, [body])
    last = chunks[-1] if chunks else None
    if failure is not None or not isinstance(last, FinishChunk):
        with pytest.raises(AdapterError) as raised:
            dialect.encode_whole(chunks)
        assert raised.value.code == "STREAM_CLOSED"
        return
    answer = json.loads(json.dumps(dialect.encode_whole(chunks, model="m")))
    again = list(dialect.decoder().whole(answer))
    assert again[-1] == last
    assert kinds(again) == kinds(chunks)


def test_calls_of_a_whole_answer_are_told_apart_by_their_place_not_by_their_ids() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call, call]}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    chunks = list(OPENAI_CHAT.decoder().whole(answer))
    assert kinds(chunks) == ({}, [("read", "{}"), ("read", "{}")])


def kinds(chunks: list[Chunk]) -> Any:
    """Text, thinking, and the names and arguments of tool calls: the ids that are made up depend on places."""
    prose: dict[str, str] = {}
    calls = []
    for block in BlockAssembler(chunks).blocks():
        value = block.to_json()
        if value["type"] == "tool-call":
            calls.append((value["name"], value["arguments"]))
        else:
            prose[value["type"]] = value["text"]
    return prose, calls


@dialects
def test_an_event_is_due_with_the_last_chunk_that_it_says(dialect: ChatDialect) -> None:
    chunks = [*text(0, "a", "b"), finish("stop")]
    due = [taken for taken, _ in dialect.encode(iter(chunks))]
    assert due[:3] == [1, 2, 3]
    assert set(due[3:]) == {5}


def test_events_come_while_chunks_are_still_awaited() -> None:
    chunks = iter(text(0, "a", "b"))
    events = DEEPSEEK_CHAT.encode(chunks)
    assert [next(events)[0], next(events)[0]] == [1, 2]
    assert len(list(chunks)) == 2


@dialects
def test_every_payload_has_what_clients_want(dialect: ChatDialect) -> None:
    usage = chunk("usage", usage={"inputTokens": 1, "outputTokens": 2})
    found = payloads(dialect, [*text(0, "a"), usage, finish("stop")])
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"
    for payload in found:
        assert (payload["id"], payload["object"], payload["model"]) == ("i", "chat.completion.chunk", "m")
        assert type(payload["created"]) is int
        assert all(choice["index"] == 0 and "finish_reason" in choice for choice in payload["choices"])
    assert [payload["usage"]["completion_tokens"] for payload in found if "usage" in payload] == [2]


def test_the_report_of_tokens_is_where_the_endpoint_has_it() -> None:
    report = {
        "inputTokens": 1,
        "outputTokens": 2,
        "cacheReadTokens": 3,
        "reasoningTokens": 1,
        "totalTokens": 6,
    }
    chunks = [*text(0, "a"), chunk("usage", usage=report), finish("stop")]
    figures = {
        "prompt_tokens": 4,
        "completion_tokens": 2,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    *_, last = payloads(DEEPSEEK_CHAT, chunks)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"] == {**figures, "prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 1}
    *_, before, last = payloads(OPENAI_CHAT, chunks)
    assert before["choices"][0]["finish_reason"] == "stop"
    assert (last["choices"], last["usage"]) == ([], figures)


def test_a_tool_call_is_named_once_and_two_at_a_time_stay_apart() -> None:
    part = {"argumentsDelta": "{"}
    chunks = [
        chunk("block-start", index=4, blockType="tool-call"),
        chunk("tool-call-delta", index=4, id="a", name="f", **part),
        chunk("block-start", index=2, blockType="tool-call"),
        chunk("tool-call-delta", index=2, id="b", name="g", **part),
        chunk("tool-call-delta", index=4, id="a", name="f", **part),
    ]
    assert deltas(OPENAI_CHAT, chunks)[1:] == [
        {
            "tool_calls": [
                {"index": 0, "type": "function", "id": "a", "function": {"name": "f", "arguments": "{"}}
            ]
        },
        {
            "tool_calls": [
                {"index": 1, "type": "function", "id": "b", "function": {"name": "g", "arguments": "{"}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    ]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "text", "text": "all"}, {"content": "all"}),
        ({"type": "reasoning", "text": "all"}, {"reasoning_content": "all"}),
        (
            {"type": "tool-call", "id": "c", "name": "f", "arguments": "{}"},
            {
                "tool_calls": [
                    {"index": 0, "type": "function", "id": "c", "function": {"name": "f", "arguments": "{}"}}
                ]
            },
        ),
    ],
)
def test_a_block_without_deltas_arrives_whole(block: dict[str, Any], said: dict[str, Any]) -> None:
    chunks = [
        chunk("block-start", index=0, blockType=block["type"]),
        chunk("block-end", index=0, block=block),
        finish("stop"),
    ]
    assert deltas(OPENAI_CHAT, chunks)[1] == said
    assert kinds(logged(OPENAI_CHAT, sent(OPENAI_CHAT.encode(chunks)))) == kinds(chunks)


def test_a_block_that_ends_with_more_than_its_deltas_is_completed() -> None:
    chunks = [
        *text(0, "a")[:-1],
        chunk("block-end", index=0, block={"type": "text", "text": "abc"}),
        chunk("tool-call-delta", index=1, id="c", argumentsDelta=""),
        chunk("block-end", index=1, block={"type": "tool-call", "id": "c", "name": "f", "arguments": "{}"}),
        finish("tool-calls"),
    ]
    assert deltas(DEEPSEEK_CHAT, chunks)[1:5] == [
        {"content": "a"},
        {"content": "bc"},
        {"tool_calls": [{"index": 0, "type": "function", "id": "c", "function": {"arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]},
    ]


def test_chunks_that_the_assembler_passes_over_are_not_said() -> None:
    chunks = [
        *text(0, "a"),
        chunk("text-delta", index=0, text="late"),
        chunk("block-end", index=0, block={"type": "text", "text": "again"}),
        chunk("tool-call-delta", index=0, id="c", name="f", argumentsDelta="{}"),
        chunk("block-start", index=1, blockType="chart"),
        chunk("text-delta", index=1, text="of a block nobody knows"),
        finish("stop"),
    ]
    assert deltas(DEEPSEEK_CHAT, chunks) == [{"role": "assistant", "content": ""}, {"content": "a"}, {}]


@dialects
def test_halves_of_a_character_are_escapes_on_the_wire_and_come_back(dialect: ChatDialect) -> None:
    chunks = [
        *text(0, "\ud83d", "\ude00 é")[:-1],
        chunk("block-end", index=0, block={"type": "text", "text": "😀 é"}),
    ]
    chunks.append(finish("stop"))
    data = sent(dialect.encode(chunks))
    assert b'"\\ud83d"' in data
    assert '"\\ude00 é"'.encode() in data
    assert logged(dialect, data) == chunks


@dialects
def test_an_answer_without_finish_stops_without_terminator(dialect: ChatDialect) -> None:
    data = sent(dialect.encode(text(0, "a")[:2]))
    assert b"[DONE]" not in data
    assert [c.to_json() for c in received(dialect, [data])[0]] == [c.to_json() for c in text(0, "a")[:2]]
    assert list(dialect.encode([])) == []


@dialects
@pytest.mark.parametrize(
    "end",
    [
        failed("EMPTY_RESPONSE", "model returned a completed response with no content"),
        failed("MALFORMED_RESPONSE", "malformed SSE payload: {this is not json"),
        failed("SERVER"),
        failed("RATE_LIMIT", "slow down"),
        failed("QUOTA", "no more"),
        failed("CONTEXT_WINDOW_EXCEEDED", "too much"),
        failed("PROVIDER_ERROR"),
        failed("STREAM_CLOSED", "SSE stream ended without [DONE]"),
        failed("CONTENT_FILTER", "the model stopped with 'content_filter'"),
    ],
    ids=lambda end: end.reason.failure.code,
)
def test_a_failure_inside_the_format_comes_back_as_it_was(end: Chunk, dialect: ChatDialect) -> None:
    assert isinstance(end, FinishChunk)
    assert isinstance(end.reason, FinishError)
    before = [] if end.reason.failure.code == "EMPTY_RESPONSE" else text(0, "half")[:2]
    if end.reason.failure.code == "CONTENT_FILTER":
        before = text(0, "half")
    assert logged(dialect, sent(dialect.encode([*before, end]))) == [*before, end]


@dialects
@pytest.mark.parametrize(
    "end",
    [
        failed("TRANSPORT"),
        failed("TIMEOUT"),
        failed("SERVER", status=500),
        finish("aborted", failure={"message": "stop", "code": "ABORTED"}),
    ],
    ids=lambda end: end.reason.failure.code,
)
def test_a_failure_of_the_connection_or_of_http_just_stops_the_answer(
    end: Chunk, dialect: ChatDialect
) -> None:
    before = text(0, "half")[:2]
    chunks, failure = received(dialect, [sent(dialect.encode([*before, end]))])
    assert chunks == before
    assert failure is not None
    assert failure.code == "STREAM_CLOSED"


@pytest.mark.parametrize(
    "message",
    [
        "why",
        "malformed SSE payload: {}",
        "malformed SSE payload: ",
        "malformed SSE payload: [DONE]",
        "malformed SSE payload: \ud83d",
    ],
)
def test_a_malformed_answer_is_malformed_again_whatever_its_message_says(message: str) -> None:
    end = failed("MALFORMED_RESPONSE", message)
    _, failure = received(DEEPSEEK_CHAT, [sent(DEEPSEEK_CHAT.encode([end]))])
    assert failure is not None
    assert failure.code == "MALFORMED_RESPONSE"


def test_a_refusal_that_was_recorded_in_other_words_is_still_a_finish_reason() -> None:
    *_, last = payloads(DEEPSEEK_CHAT, [*text(0, "a"), failed("CONTENT_FILTER", "filtered")])
    assert last["choices"][0]["finish_reason"] == "content_filter"


def test_an_unknown_finish_is_a_success() -> None:
    *_, last = payloads(DEEPSEEK_CHAT, [*text(0, "a"), finish("pause")])
    assert last["choices"][0]["finish_reason"] == "stop"


def test_an_answer_in_one_object_has_what_clients_want() -> None:
    call = {"type": "tool-call", "id": "c", "name": "f", "arguments": "{}"}
    chunks = [
        chunk("reasoning-delta", index=0, text="hm"),
        *text(1, "h", "i"),
        chunk("block-end", index=2, block=call),
        chunk("usage", usage={"inputTokens": 1, "outputTokens": 2}),
        finish("tool-calls"),
    ]
    assert OPENAI_CHAT.encode_whole(chunks, model="m", id="i") == {
        "id": "i",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hi",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


@pytest.mark.parametrize("end", [failed("SERVER", status=500), failed("MALFORMED_RESPONSE")])
def test_an_answer_in_one_object_fails_as_the_recorded_one_did(end: Chunk) -> None:
    with pytest.raises(AdapterError) as raised:
        OPENAI_CHAT.encode_whole([*text(0, "a"), end])
    assert isinstance(end, FinishChunk)
    assert isinstance(end.reason, FinishError)
    assert raised.value.failure == end.reason.failure


def test_an_error_event_reads_back_as_the_failure() -> None:
    failure = Failure(message="busy", code="SERVER")
    event = OPENAI_CHAT.error_event(failure)
    with pytest.raises(AdapterError) as raised:
        list(OPENAI_CHAT.decoder().push(event))
    assert raised.value.failure == failure
