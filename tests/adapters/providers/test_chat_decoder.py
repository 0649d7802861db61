"""Chunks out of chat completions, from vectors and from bytes that nobody should send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reference import cases, shared_path
from wire import check_grammar, check_vector, logged, received

from playhead.adapters.providers import answer_room
from playhead.adapters.providers.chat import DEEPSEEK_CHAT, DEEPSEEK_CHAT_0_1_1, OPENAI_CHAT, ChatDialect
from playhead.adapters.providers.chat_profile import ChatProfile
from playhead.adapters.providers.dialect import WireEvent
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunks import BlockEnd, FinishChunk, UsageChunk
from playhead.eventstore.failures import Failure


def payloads(*values: Any, done: bool = True) -> bytes:
    texts = [json.dumps(value) for value in values] + ["[DONE]"] * done
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def delta(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


def fragment(**members: Any) -> dict[str, Any]:
    return delta(tool_calls=[members])


def finish(reason: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def blocks(dialect: ChatDialect, *values: Any) -> list[Any]:
    chunks = logged(dialect, payloads(*values))
    return [chunk.block.to_json() for chunk in chunks if isinstance(chunk, BlockEnd)]


@pytest.mark.parametrize("case", cases("sse_deepseek", "cases"))
def test_answers_of_deepseek_give_the_chunks_of_the_vectors_in_any_cut(case: dict[str, Any]) -> None:
    check_vector(DEEPSEEK_CHAT, case)


@pytest.mark.parametrize("case", cases("sse_openai", "cases"))
def test_answers_of_openai_give_the_chunks_of_the_vectors_in_any_cut(case: dict[str, Any]) -> None:
    check_vector(OPENAI_CHAT, case)


def test_pieces_of_two_calls_at_once_go_to_the_call_of_their_index() -> None:
    folder = shared_path("cases/13-interleaved-tool-calls")
    wanted = json.loads((folder / "expected.json").read_bytes())
    for dialect in (DEEPSEEK_CHAT, OPENAI_CHAT):
        chunks = logged(dialect, (folder / "stream.sse").read_bytes())
        calls = [chunk.block.to_json() for chunk in chunks if isinstance(chunk, BlockEnd)]
        assert [{**call, "type": "tool-call"} for call in wanted["calls"]] == calls
        (usage,) = (chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk))
        assert usage.input_tokens == wanted["usage"]["uncached_input"]
        assert usage.cache_read_tokens == wanted["usage"]["cached_input"]
        assert usage.output_tokens == wanted["usage"]["output"]
        assert chunks[-1].to_json()["reason"]["kind"] == wanted["finish"]


def test_the_sum_of_tokens_is_recorded_where_the_runtime_did() -> None:
    report = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    sums = {
        dialect.name: next(
            chunk.usage.total_tokens
            for chunk in logged(dialect, payloads(delta(content="x"), report))
            if isinstance(chunk, UsageChunk)
        )
        for dialect in (DEEPSEEK_CHAT, DEEPSEEK_CHAT_0_1_1, OPENAI_CHAT)
    }
    assert sums == {"deepseek-chat": 7, "deepseek-chat-0.1.1": None, "openai-chat": None}


@pytest.mark.parametrize(
    "report", [None, {}, {"prompt_tokens": 1}, {"prompt_tokens": "1", "completion_tokens": 1}]
)
def test_a_report_without_both_figures_is_no_usage(report: object) -> None:
    chunks = logged(DEEPSEEK_CHAT, payloads(delta(content="x"), {"choices": [], "usage": report}))
    assert not any(isinstance(chunk, UsageChunk) for chunk in chunks)


@pytest.mark.parametrize("dialect", [DEEPSEEK_CHAT, OPENAI_CHAT], ids=lambda dialect: dialect.name)
def test_an_error_in_mid_stream_fails_the_answer_although_more_follows(dialect: ChatDialect) -> None:
    body = payloads(delta(content="half"), {"error": {"message": "busy", "code": 529}}, delta(content="x"))
    chunks, failure = received(dialect, [body])
    assert [chunk.tag for chunk in chunks] == ["block-start", "text-delta"]
    assert failure == Failure(message="busy", code="SERVER")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": 429}, "RATE_LIMIT"),
        ({"code": "429"}, "RATE_LIMIT"),
        ({"code": 503}, "SERVER"),
        ({"code": 5030}, "PROVIDER_ERROR"),
        ({"code": [[5]]}, "PROVIDER_ERROR"),
        ({"type": "rate_limit_error"}, "RATE_LIMIT"),
        ({"code": "context_length_exceeded"}, "CONTEXT_WINDOW_EXCEEDED"),
        ({}, "PROVIDER_ERROR"),
        ("the server is overloaded", "SERVER"),
    ],
)
def test_an_error_in_the_stream_is_classified_by_its_words_and_number(error: object, code: str) -> None:
    chunks, failure = received(OPENAI_CHAT, [payloads({"error": error})])
    assert chunks == []
    assert failure is not None
    assert (failure.code, failure.is_valid) == (code, True)


@pytest.mark.parametrize("error", [None, "", 0, []])
def test_an_error_member_that_tells_nothing_is_passed_over(error: object) -> None:
    assert blocks(OPENAI_CHAT, {"error": error, **delta(content="x")}) == [{"type": "text", "text": "x"}]


def test_a_gateway_reads_one_choice_and_deepseek_all() -> None:
    two = {"choices": [{"index": 1, "delta": {"content": "b"}}, {"delta": {"content": "a"}}]}
    assert blocks(OPENAI_CHAT, two) == [{"type": "text", "text": "a"}]
    assert blocks(DEEPSEEK_CHAT, two) == [{"type": "text", "text": "ba"}]


def test_empty_ids_and_names_replace_known_ones_only_where_they_are_taken_at_their_word() -> None:
    parts = (
        fragment(index=0, id="a", function={"name": "f", "arguments": "{"}),
        fragment(index=0, id="", function={"name": "", "arguments": "}"}),
    )
    call = {"type": "tool-call", "arguments": "{}"}
    assert blocks(OPENAI_CHAT, *parts) == [{**call, "id": "a", "name": "f"}]
    assert blocks(DEEPSEEK_CHAT, *parts) == [{**call, "id": "", "name": ""}]


def test_the_id_of_a_call_that_came_without_index_and_then_with_one_keeps_calls_apart() -> None:
    found = blocks(
        OPENAI_CHAT,
        fragment(id="a", function={"name": "f", "arguments": "1"}),
        fragment(id="b", function={"name": "g", "arguments": "2"}),
        fragment(id="a", function={"arguments": "3"}),
        fragment(function={"arguments": "4"}),
    )
    assert [(call["id"], call["arguments"]) for call in found] == [("a", "134"), ("b", "2")]


def test_an_endpoint_without_terminator_ends_with_its_finish_reason() -> None:
    profile = ChatProfile(has_terminator=False)
    dialect = ChatDialect("x", profile)
    whole = payloads(delta(content="x"), finish("stop"), done=False)
    chunks, failure = received(dialect, [whole])
    assert failure is None
    assert chunks[-1].to_json() == {"type": "finish", "reason": {"kind": "stop"}}
    _, failure = received(dialect, [payloads(delta(content="x"), done=False)])
    assert failure is not None
    assert failure.code == "STREAM_CLOSED"


def test_halves_of_a_character_stay_apart_in_deltas_and_are_joined_in_the_block() -> None:
    chunks = logged(DEEPSEEK_CHAT, payloads(delta(content="a\ud83d"), delta(content="\ude00b")))
    assert [chunk.text for chunk in chunks if chunk.tag == "text-delta"] == ["a\ud83d", "\ude00b"]
    assert chunks[3].to_json()["block"]["text"] == "a😀b"


@pytest.mark.parametrize(
    "text", ["{oops", "null", "[]", "5", '"x"', "NaN", "[DONE", "{" * 300, '{"a":' * 100_000]
)
def test_a_payload_that_is_no_object_is_malformed_and_shown_in_part(text: str) -> None:
    chunks, failure = received(DEEPSEEK_CHAT, [f"data: {text}\n\n".encode()])
    assert chunks == []
    assert failure == Failure(message=f"malformed SSE payload: {text[:120]}", code="MALFORMED_RESPONSE")


_HOSTILE: list[Any] = [None, True, 0, -1, 2**70, 1e308, "", "x", [], [[]], {}, {"index": {}}, [{"index": []}]]


@pytest.mark.parametrize("closed", [0, 1_000_000])
def test_nesting_that_would_take_long_to_read_is_malformed_at_once(closed: int) -> None:
    body = b'data: {"choices":' + b"[" * 1_000_000 + b"]" * closed + b"}\n\n"
    _, failure = received(DEEPSEEK_CHAT, [body])
    assert failure is not None
    assert failure.code == "MALFORMED_RESPONSE"


@pytest.mark.parametrize("dialect", [DEEPSEEK_CHAT, OPENAI_CHAT], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("value", _HOSTILE, ids=repr)
def test_members_of_the_wrong_kind_count_as_absent(value: Any, dialect: ChatDialect) -> None:
    bodies = [
        {"choices": value},
        {"choices": [value]},
        {"usage": value},
        {"choices": [{"index": value, "delta": value, "finish_reason": value}]},
        delta(content=value, reasoning_content=value, refusal=value, reasoning=value),
        delta(tool_calls=value, function_call=value),
        fragment(index=value, id=value, function=value),
        fragment(index=0, id="a", function={"name": value, "arguments": value}),
        {"usage": {"prompt_tokens": value, "completion_tokens": value, "total_tokens": value}},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": value}},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "prompt_cache_hit_tokens": value}},
    ]
    for body in bodies:
        chunks, failure = received(dialect, [payloads(body, delta(content="x"))])
        assert failure is None
        check_grammar(chunks, failure)
        assert isinstance(chunks[-1], FinishChunk)


@pytest.mark.parametrize(
    "literal", ["9" * 4000, "-" + "9" * 4000, "1e400", "0." + "0" * 5000 + "1", "1E-9999"]
)
def test_huge_numbers_are_no_counts_and_no_indexes(literal: str) -> None:
    text = '{"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":N}]}}],"usage":{"prompt_tokens":N}}'
    body = f"data: {text.replace('N', literal)}\n\n".encode() + payloads()
    assert [chunk.tag for chunk in logged(OPENAI_CHAT, body)] == [
        *("block-start", "text-delta", "block-start", "tool-call-delta"),
        *("block-end", "block-end", "finish"),
    ]


def test_a_number_that_would_take_long_to_read_is_malformed() -> None:
    body = b'data: {"usage":{"prompt_tokens":' + b"9" * 1_000_000 + b"}}\n\n"
    _, failure = received(OPENAI_CHAT, [body])
    assert failure is not None
    assert failure.code == "MALFORMED_RESPONSE"


def test_an_answer_without_end_is_a_failure_and_not_endless_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_room, "ANSWER_LIMIT_CHARS", 10_000)
    for payload in (delta(content="x" * 100), delta(reasoning_content="y" * 100)):
        chunks, failure = received(DEEPSEEK_CHAT, [payloads(*[payload] * 200)])
        assert failure is not None
        assert failure.code == "MALFORMED_RESPONSE"
        assert len(chunks) < 110
    calls = [fragment(index=index) for index in range(200)]
    chunks, failure = received(DEEPSEEK_CHAT, [payloads(*calls)])
    assert failure is not None
    assert len(chunks) < 100


def test_nothing_is_read_behind_the_terminator() -> None:
    decoder = DEEPSEEK_CHAT.decoder()
    assert [chunk.tag for chunk in decoder.push(WireEvent("[DONE]"))] == ["finish"]
    assert decoder.done
    assert list(decoder.push(WireEvent("{oops"))) == []
    assert list(decoder.end()) == []


def test_an_answer_in_one_object_gives_the_content_that_a_stream_gives() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [call]}
    answer = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    chunks = list(OPENAI_CHAT.decoder().whole(answer))
    check_grammar(chunks, None)
    assembled = BlockAssembler()
    for chunk in chunks:
        assembled.push(chunk)
    assert [block.to_json() for block in assembled.blocks()] == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "hi"},
        {"type": "tool-call", "id": "c", "name": "f", "arguments": "{}"},
    ]
    assert chunks[-1].to_json() == {"type": "finish", "reason": {"kind": "tool-calls"}}
