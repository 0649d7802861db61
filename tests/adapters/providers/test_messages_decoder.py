"""Chunks out of the Messages format, from vectors, from a reported fault and from bytes that nobody should send."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from exchanges import read_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cases, shared_path
from wire import bytewise, check_grammar, check_vector, logged, received

from playhead.adapters.providers import answer_room
from playhead.adapters.providers.dialect import WireEvent
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES, MessagesDialect
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import BlockEnd, FinishChunk, ToolCallDelta, UsageChunk
from playhead.eventstore.failures import Failure

BOTH = pytest.mark.parametrize(
    "dialect", [ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES], ids=lambda dialect: dialect.name
)
START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "m1", "model": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 0}},
}
STOP = {"type": "message_stop"}
TEXT = {"type": "text", "text": ""}
TOOL = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}


def begin(block: dict[str, Any], index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(kind: str, index: Any = 0, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def text(piece: Any, index: Any = 0) -> dict[str, Any]:
    return delta("text_delta", index, text=piece)


def arguments(piece: Any, index: Any = 0) -> dict[str, Any]:
    return delta("input_json_delta", index, partial_json=piece)


def stop(index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def settle(reason: Any = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7, **usage}}


def body(*payloads: dict[str, Any]) -> bytes:
    return "".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in payloads).encode()


def failure_of(dialect: MessagesDialect, *payloads: dict[str, Any]) -> Failure:
    chunks = logged(dialect, body(*payloads))
    assert isinstance(chunks[-1], FinishChunk)
    return chunks[-1].reason.failure  # type: ignore[union-attr]


@pytest.mark.parametrize("case", cases("sse_anthropic", "cases"))
def test_answers_give_the_chunks_of_the_vectors_in_any_cut(case: dict[str, Any]) -> None:
    check_vector(ANTHROPIC_MESSAGES, case)


@BOTH
def test_half_an_answer_and_then_an_error_event_is_no_finished_answer(dialect: MessagesDialect) -> None:
    folder = shared_path("cases/12-error-in-mid-stream")
    wanted = json.loads((folder / "expected.json").read_bytes())["stream"]
    chunks, failure = received(dialect, bytewise((folder / "stream.sse").read_bytes()))
    assert [chunk.to_json() for chunk in chunks] == [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": wanted["text"]},
    ]
    assert failure == Failure(message=wanted["error_message"], code="SERVER")


# Where the two differ


def test_deepseek_says_the_name_of_a_tool_once_and_anthropic_with_every_fragment() -> None:
    answer = body(START, begin(TOOL), arguments('{"a":'), arguments("1}"), stop(), settle("tool_use"), STOP)
    names = {
        dialect: [c.name for c in logged(dialect, answer) if isinstance(c, ToolCallDelta)]
        for dialect in (ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES)
    }
    assert names[DEEPSEEK_MESSAGES] == ["read", None, None]
    assert names[ANTHROPIC_MESSAGES] == ["read", "read", "read"]


def test_deepseek_keeps_empty_text_as_a_delta() -> None:
    answer = body(START, begin(TEXT), text(""), text("x"), stop(), settle(), STOP)
    assert [c.tag for c in logged(DEEPSEEK_MESSAGES, answer)].count("text-delta") == 2
    assert [c.tag for c in logged(ANTHROPIC_MESSAGES, answer)].count("text-delta") == 1


def test_deepseek_adds_up_the_tokens_and_says_what_kind_of_block_an_entry_is_for() -> None:
    answer = body(START, begin(TEXT), text("x"), stop(), settle(cache_read_input_tokens=3), STOP)
    *_, usage, finish = logged(DEEPSEEK_MESSAGES, answer)
    assert usage.to_json()["usage"] == {
        "inputTokens": 5,
        "outputTokens": 7,
        "cacheReadTokens": 3,
        "totalTokens": 15,
    }
    assert finish.to_json()["replayState"] == {
        "response": {"kind": "deepseek-messages", "version": 1, "model": "m"},
        "blocks": [{"type": "text"}],
    }


def test_arguments_that_are_no_json_object_fail_an_answer_of_deepseek_behind_the_end_of_the_block() -> None:
    for spelled in ("{not json", "[1]", '"x"'):
        answer = body(START, begin(TOOL), arguments(spelled), stop(), settle("tool_use"), STOP)
        chunks = logged(DEEPSEEK_MESSAGES, answer)
        assert [chunk.tag for chunk in chunks[-2:]] == ["block-end", "finish"]
        assert failure_of(DEEPSEEK_MESSAGES, *_payloads(answer)).code == "MALFORMED_RESPONSE"
        assert logged(ANTHROPIC_MESSAGES, answer)[-1].to_json()["reason"] == {"kind": "tool-calls"}


def test_arguments_that_the_token_limit_cut_off_are_no_failure() -> None:
    answer = body(START, begin(TOOL), arguments('{"a'), stop(), settle("max_tokens"), STOP)
    assert logged(DEEPSEEK_MESSAGES, answer)[-1].to_json()["reason"] == {"kind": "max-tokens"}


def test_an_empty_answer_of_deepseek_has_no_usage() -> None:
    answer = body(START, settle(), STOP)
    assert [chunk.tag for chunk in logged(DEEPSEEK_MESSAGES, answer)] == ["finish"]
    assert [chunk.tag for chunk in logged(ANTHROPIC_MESSAGES, answer)] == ["usage", "finish"]
    for dialect in (DEEPSEEK_MESSAGES, ANTHROPIC_MESSAGES):
        assert failure_of(dialect, START, settle(), STOP).code == "EMPTY_RESPONSE"


@pytest.mark.parametrize(
    ("payloads", "code"),
    [
        ([begin(TEXT)], "MALFORMED_RESPONSE"),
        ([START, begin({"type": "server_tool_use", "id": "s"})], "UNSUPPORTED_CONTENT"),
        ([START, begin({"type": "redacted_thinking", "data": "x"})], "UNSUPPORTED_CONTENT"),
        ([START, begin(TEXT), delta("citations_delta")], "MALFORMED_RESPONSE"),
        ([START, begin({**TOOL, "name": ""})], "MALFORMED_RESPONSE"),
        ([START, begin({"type": "text"})], "MALFORMED_RESPONSE"),
        ([START, settle("refusal")], "MALFORMED_RESPONSE"),
        ([START, settle(output_tokens=-1)], "MALFORMED_RESPONSE"),
        ([START, settle(input_tokens=None)], "MALFORMED_RESPONSE"),
        ([START, settle(), begin(TEXT)], "MALFORMED_RESPONSE"),
        ([START, begin(TEXT), text("x"), stop(), STOP], "MALFORMED_RESPONSE"),
        ([START, begin(TEXT), text("x"), settle(), STOP], "MALFORMED_RESPONSE"),
        ([{"type": "message_start", "message": {}}], "MALFORMED_RESPONSE"),
    ],
)
def test_what_deepseek_does_not_speak_is_refused_there_and_passed_over_by_anthropic(
    payloads: list[Any], code: str
) -> None:
    assert failure_of(DEEPSEEK_MESSAGES, *payloads).code == code
    _, failure = received(ANTHROPIC_MESSAGES, [body(*payloads)])
    assert failure is None or failure.code == "STREAM_CLOSED"


def test_an_event_with_another_name_than_its_data_is_refused_by_deepseek() -> None:
    answer = b'event: ping\ndata: {"type":"message_start","message":{"usage":{}}}\n\n'
    assert received(DEEPSEEK_MESSAGES, [answer])[1].code == "MALFORMED_RESPONSE"  # type: ignore[union-attr]
    assert received(ANTHROPIC_MESSAGES, [answer])[1].code == "STREAM_CLOSED"  # type: ignore[union-attr]
    unnamed = answer.removeprefix(b"event: ping\n")
    assert received(DEEPSEEK_MESSAGES, [unnamed])[1].code == "STREAM_CLOSED"  # type: ignore[union-attr]


# What both do


@BOTH
@pytest.mark.parametrize(
    "payloads",
    [
        [START, START],
        [START, begin(TEXT), begin(TEXT)],
        [START, text("x")],
        [START, stop()],
        [START, begin(TEXT), stop(), text("x")],
        [START, begin(TEXT), stop(), stop()],
        [START, begin(TEXT), arguments("{}")],
        [START, begin(TEXT), text(5)],
        [START, begin(TEXT, "0")],
        [START, begin(TEXT, -1)],
        [START, begin(TEXT, True)],
        [START, begin(TEXT, 2**60)],
        [START, begin([])],  # type: ignore[arg-type]
        [START, {"type": ["message_stop"]}],
        [START, {"kind": "message_stop"}],
    ],
    ids=str,
)
def test_what_would_lose_content_or_is_not_in_the_format_is_malformed(
    dialect: MessagesDialect, payloads: list[Any]
) -> None:
    answer = "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads).encode()
    _, failure = received(dialect, [answer])
    assert failure is not None
    assert (failure.code, failure.is_valid) == ("MALFORMED_RESPONSE", True)


@BOTH
@pytest.mark.parametrize("data", ["{", "[]", "null", "NaN", '"message_stop"', "[" * 5000])
def test_data_that_is_no_json_object_is_malformed(dialect: MessagesDialect, data: str) -> None:
    _, failure = received(dialect, [f"data: {data}\n\n".encode()])
    assert failure is not None
    assert failure.code == "MALFORMED_RESPONSE"


@BOTH
def test_halves_of_a_character_are_joined_in_the_block_and_apart_in_the_deltas(
    dialect: MessagesDialect,
) -> None:
    chunks = logged(dialect, body(START, begin(TEXT), text("\ud83d"), text("\ude00"), stop(), settle(), STOP))
    assert [chunk.text for chunk in chunks[1:3]] == ["\ud83d", "\ude00"]  # type: ignore[union-attr]
    assert next(c.block for c in chunks if isinstance(c, BlockEnd)).to_json()["text"] == "\U0001f600"


@BOTH
def test_a_tool_without_fragments_has_the_arguments_that_it_started_with(dialect: MessagesDialect) -> None:
    answer = body(START, begin({**TOOL, "input": {"a": [1]}}), stop(), settle("tool_use"), STOP)
    (block,) = (chunk.block.to_json() for chunk in logged(dialect, answer) if isinstance(chunk, BlockEnd))
    assert block["arguments"] == '{"a":[1]}'


@BOTH
def test_a_number_in_a_tool_that_no_double_holds_is_malformed(dialect: MessagesDialect) -> None:
    answer = body(START) + b"data: " + json.dumps(begin(TOOL)).replace("{}", '{"a":1e999}').encode() + b"\n\n"
    assert received(dialect, [answer])[1].code == "MALFORMED_RESPONSE"  # type: ignore[union-attr]


@BOTH
def test_signatures_are_joined_and_stay_out_of_the_chunks(dialect: MessagesDialect) -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    signed = [delta("signature_delta", signature=piece) for piece in ("ab", "cd")]
    answer = body(
        START, begin(thinking), delta("thinking_delta", thinking="h"), *signed, stop(), settle(), STOP
    )
    chunks = logged(dialect, answer)
    assert [chunk.tag for chunk in chunks].count("reasoning-delta") == 1
    assert chunks[-1].to_json()["replayState"]["blocks"][0]["signature"] == "abcd"


@BOTH
def test_nothing_is_read_behind_the_end(dialect: MessagesDialect) -> None:
    answer = body(START, begin(TEXT), text("x"), stop(), settle(), STOP)
    more = body({"type": "error", "error": {"type": "api_error"}})
    assert logged(dialect, answer + more) == logged(dialect, answer)


@BOTH
def test_an_event_without_text_is_passed_over(dialect: MessagesDialect) -> None:
    answer = body(START, begin(TEXT), text("x"), stop(), settle(), STOP)
    assert logged(dialect, b"data:\n\n" + answer) == logged(dialect, answer)


@BOTH
def test_an_answer_in_one_object_gives_the_content_that_a_stream_gives(dialect: MessagesDialect) -> None:
    message = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "why", "signature": "s"},
            {"type": "text", "text": "Hi"},
            {**TOOL, "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    streamed = body(
        START,
        begin({"type": "thinking", "thinking": "why", "signature": "s"}, 0),
        stop(0),
        begin({"type": "text", "text": "Hi"}, 1),
        stop(1),
        begin({**TOOL, "input": {"path": "a"}}, 2),
        stop(2),
        settle("tool_use"),
        STOP,
    )
    assert list(dialect.decoder().whole(message)) == logged(dialect, streamed)


@BOTH
@pytest.mark.parametrize(
    "answer", [{}, {"content": "x"}, {"content": [5]}, {"content": [{"type": "text", "text": 5}]}]
)
def test_an_object_that_is_no_message_is_malformed(dialect: MessagesDialect, answer: dict[str, Any]) -> None:
    with pytest.raises(AdapterError) as caught:
        list(dialect.decoder().whole(answer))
    assert caught.value.code == "MALFORMED_RESPONSE"


@BOTH
def test_an_answer_without_end_is_a_failure_and_not_endless_memory(
    dialect: MessagesDialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_room, "ANSWER_LIMIT_CHARS", 5000)
    floods = [
        [begin(TEXT)] + [text("x" * 100)] * 100,
        [begin(TEXT, index) for index in range(100)],
        [begin({"type": "thinking", "thinking": "", "signature": ""})]
        + [delta("signature_delta", signature="x" * 100)] * 100,
        [begin({**TOOL, "input": {"a": "x" * 6000}})],
        [begin({"type": "thinking", "thinking": "", "signature": "x" * 6000})],
    ]
    for flood in floods:
        _, failure = received(dialect, [body(START, *flood)])
        assert failure is not None
        assert failure.code == "MALFORMED_RESPONSE"
        assert "5000" in failure.message


def test_blocks_that_are_passed_over_count_against_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_room, "ANSWER_LIMIT_CHARS", 5000)
    flood = [begin({"type": "web_search_tool_result"}, index) for index in range(100)]
    _, failure = received(ANTHROPIC_MESSAGES, [body(START, *flood)])
    assert failure is not None
    assert failure.code == "MALFORMED_RESPONSE"


def test_no_report_of_tokens_is_no_usage_and_a_part_of_one_counts_the_rest_as_nothing() -> None:
    bare = {"type": "message_start", "message": {"id": "m1"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    answer = [bare, begin(TEXT), text("x"), stop()]
    assert not any(
        isinstance(chunk, UsageChunk) for chunk in logged(ANTHROPIC_MESSAGES, body(*answer, end, STOP))
    )
    (usage,) = (
        chunk.usage.to_json()
        for chunk in logged(ANTHROPIC_MESSAGES, body(*answer, settle(), STOP))
        if isinstance(chunk, UsageChunk)
    )
    assert usage == {"inputTokens": 0, "outputTokens": 7}


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_SAMPLES = [
    START,
    begin(TEXT),
    begin(TOOL, 1),
    begin({"type": "thinking", "thinking": "t", "signature": "s"}, 2),
    begin({"type": "redacted_thinking", "data": "d"}, 3),
    text("x"),
    arguments('{"a":1}', 1),
    delta("thinking_delta", 2, thinking="h"),
    delta("signature_delta", 2, signature="s"),
    stop(),
    stop(1),
    settle("tool_use"),
    settle("stop_sequence", cache_read_input_tokens=2),
    STOP,
    {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    {"type": "ping"},
]


@st.composite
def _mutated(draw: st.DrawFn) -> dict[str, Any]:
    """An event of the format with one member, at any depth, that is something else, or gone."""
    payload: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(_SAMPLES))))
    place = payload
    while True:
        member = draw(st.sampled_from(sorted(place)))
        if isinstance(place[member], dict) and place[member] and draw(st.booleans()):
            place = place[member]
            continue
        if draw(st.booleans()):
            place[member] = draw(_values)
        else:
            del place[member]
        return payload


@BOTH
@settings(max_examples=200)
@given(payloads=st.lists(st.sampled_from(_SAMPLES) | _mutated(), max_size=12))
def test_members_of_any_kind_give_chunks_in_order_or_a_typed_failure(
    dialect: MessagesDialect, payloads: list[dict[str, Any]]
) -> None:
    decoder = dialect.decoder()
    chunks: list[Any] = []
    failure: Failure | None = None
    try:
        for payload in payloads:
            chunks += decoder.push(WireEvent(json.dumps(payload), "message"))
        chunks += decoder.end()
    except AdapterError as error:
        failure = error.failure
    assert failure is None or failure.is_valid
    check_grammar(chunks, failure)


@BOTH
@settings(max_examples=200)
@given(places=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=6)), max_size=4))
def test_streams_with_bytes_changed_anywhere_give_chunks_or_a_typed_failure(
    dialect: MessagesDialect, places: list[tuple[int, bytes]]
) -> None:
    answer = bytearray(
        body(START, begin(TEXT), text("héllo"), stop(), begin(TOOL, 1), stop(1), settle("tool_use"), STOP)
    )
    for place, change in places:
        answer[place % len(answer) : place % len(answer) + len(change)] = change
    chunks, failure = received(dialect, [bytes(answer)])
    assert failure is None or failure.is_valid
    check_grammar(chunks, failure)


@BOTH
def test_five_thousand_broken_recordings_give_chunks_or_a_typed_failure(dialect: MessagesDialect) -> None:
    chance = random.Random(dialect.name)
    corpus = shared_path("corpus/dsh/0.2.1rc2")
    bodies = [body for file in sorted(corpus.glob("*/wire/*.sse")) if (body := read_bytes(file))]
    parts = [
        b"\n\n",
        b"data: ",
        b"event: ",
        b"{",
        b"}",
        b'"',
        b"null",
        b"-1",
        b"1e999",
        b"[[",
        b"\xff",
        b"\r",
        b"\\u",
        b":",
    ]
    for _ in range(5000):
        body = bytearray(chance.choice(bodies)[:4000])
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(body) + 1)
            end = at + chance.choice((0, 0, 1, 2, 40, 400))
            other = chance.choice(bodies)
            cut_at = chance.randrange(len(other))
            body[at:end] = chance.choice((chance.choice(parts), other[cut_at : cut_at + 60], b""))
        chunks, failure = received(dialect, [bytes(body)])
        assert failure is None or failure.is_valid
        check_grammar(chunks, failure)


def _payloads(answer: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in answer.decode().splitlines() if line.startswith("data: ")]
