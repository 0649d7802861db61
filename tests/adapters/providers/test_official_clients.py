"""The official clients of OpenAI and Anthropic read what the dialects write, and raise their own errors.

The clients are used as they are. Their HTTP library is given the recorded answer in place of a connection.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import anthropic
import openai
import pytest
from answers import messages_answers
from exchanges import CHAT_RUNTIMES, MESSAGES_RUNTIMES, Scenario, scenarios
from hypothesis import given, settings
from hypothesis import strategies as st
from official_clients import (
    as_anthropic_read,
    as_openai_read,
    as_openai_streamed,
    has_half_a_character,
    same_calls,
    wanted,
)
from reference import shared_path
from wire import sent

from playhead.adapters.providers.chat import DEEPSEEK_CHAT, OPENAI_CHAT
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import Recordings
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES
from playhead.eventstore import json_text
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunks import Chunk, FinishChunk, decode_chunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError
from playhead.replay.attempt import attempts

MESSAGES = (ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES)
CHAT = (OPENAI_CHAT, DEEPSEEK_CHAT)
SAY: list[Any] = [{"role": "user", "content": "Hi"}]


def library(client: type) -> ModuleType:
    """The HTTP library on which a client is built: releases differ in it."""
    base = next(kind for kind in client.__mro__ if "httpx" in kind.__module__.partition(".")[0])
    return importlib.import_module(base.__module__.partition(".")[0])


ANTHROPIC_HTTP = library(anthropic.DefaultHttpxClient)
OPENAI_HTTP = library(openai.DefaultHttpxClient)


def _served(http: Any, status: int, body: bytes, kind: str, headers: Any = None) -> Any:
    def answer(_request: Any) -> Any:
        return http.Response(status, content=body, headers={"content-type": kind, **(headers or {})})

    return http.MockTransport(answer)


def anthropic_client(status: int, body: bytes, kind: str = "text/event-stream", headers: Any = None) -> Any:
    transport = _served(ANTHROPIC_HTTP, status, body, kind, headers)
    return anthropic.Anthropic(
        api_key="k",
        base_url="http://replay",
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(transport=transport),
    )


def openai_client(status: int, body: bytes, kind: str = "text/event-stream", headers: Any = None) -> Any:
    transport = _served(OPENAI_HTTP, status, body, kind, headers)
    return openai.OpenAI(
        api_key="k",
        base_url="http://replay/v1",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(transport=transport),
    )


def wire(dialect: ProviderDialect, chunks: Sequence[Chunk]) -> bytes:
    return sent(dialect.encode(chunks, model="m", id="i"))


def whole(dialect: ProviderDialect, chunks: Sequence[Chunk]) -> bytes:
    return json_text.dumps(dialect.encode_whole(chunks, model="m", id="i"))


def by_anthropic(dialect: ProviderDialect, chunks: Sequence[Chunk]) -> Iterator[dict[str, Any]]:
    """The answer as the client reads it: put together from the stream, and as one object."""
    body = wire(dialect, chunks)
    ask: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": SAY}
    with anthropic_client(200, body).messages.stream(**ask) as stream:
        if has_half_a_character(chunks):
            with pytest.raises(ValueError, match="hex escape"):
                stream.get_final_message()
        else:
            yield as_anthropic_read(stream.get_final_message())
    events = list(anthropic_client(200, body).messages.create(**ask, stream=True))
    assert [event.type for event in events][-1] == "message_stop"
    client = anthropic_client(200, whole(dialect, chunks), "application/json")
    yield as_anthropic_read(client.messages.create(**ask))


def by_openai(dialect: ProviderDialect, chunks: Sequence[Chunk]) -> Iterator[dict[str, Any]]:
    """The answer as the client reads it: put together from the stream, and as one object."""
    ask: dict[str, Any] = {"model": "m", "messages": SAY}
    events = openai_client(200, wire(dialect, chunks)).chat.completions.create(**ask, stream=True)
    yield as_openai_streamed(events)
    client = openai_client(200, whole(dialect, chunks), "application/json")
    (choice,) = client.chat.completions.create(**ask).choices
    yield as_openai_read(choice.message, choice.finish_reason)


# What was recorded


def recorded(scenario: Scenario) -> Iterator[tuple[ProviderDialect, list[Chunk]]]:
    for log in scenario.logs().values():
        recordings = Recordings(log)
        for call in attempts(log):
            chunks = [timed.chunk for timed in call.chunks()]
            if chunks:
                yield recordings.dialect_of(call), chunks


def failure_of(chunks: Sequence[Chunk]) -> Failure | None:
    last = chunks[-1]
    if isinstance(last, FinishChunk) and isinstance(last.reason, FinishError):
        return last.reason.failure
    return None


@pytest.mark.heavy
@pytest.mark.parametrize("scenario", scenarios(*CHAT_RUNTIMES, *MESSAGES_RUNTIMES))
def test_the_client_of_its_dialect_reads_every_recorded_answer(scenario: Scenario) -> None:
    _read_all(scenario)


QUICK = ("reasoning", "tool", "unicode", "unicode-split", "malformed", "empty", "http-errors", "disconnect")
"""Scenarios of each kind, for every run."""


@pytest.mark.parametrize("runtime", ["0.1.1rc1", "0.2.1rc2"])
@pytest.mark.parametrize("name", QUICK)
def test_the_client_of_its_dialect_reads_what_was_recorded(runtime: str, name: str) -> None:
    _read_all(Scenario(shared_path(f"corpus/dsh/{runtime}/{name}")))


def _read_all(scenario: Scenario) -> None:
    for dialect, chunks in recorded(scenario):
        read = by_openai if dialect.path == "/chat/completions" else by_anthropic
        failure = failure_of(chunks)
        if failure is None and isinstance(chunks[-1], FinishChunk):
            for told in read(dialect, chunks):
                assert same_calls(told) == same_calls(wanted(chunks))
        elif failure is not None and failure.status is not None:
            _raises_typed(dialect, failure)


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("dialect", MESSAGES, ids=lambda dialect: dialect.name)
def test_the_anthropic_client_reads_generated_answers(dialect: ProviderDialect, data: st.DataObject) -> None:
    chunks = data.draw(messages_answers(dialect))  # type: ignore[arg-type]
    for told in by_anthropic(dialect, chunks):
        assert same_calls(told) == same_calls(wanted(chunks))


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("dialect", CHAT, ids=lambda dialect: dialect.name)
def test_the_openai_client_reads_generated_answers(dialect: ProviderDialect, data: st.DataObject) -> None:
    chunks = data.draw(messages_answers(DEEPSEEK_MESSAGES, interleaved=False))
    if BlockAssembler(chunks).blocks():
        for told in by_openai(dialect, chunks):
            assert same_calls(told) == same_calls(wanted(chunks))


# What fails


STATUSES = {
    400: ("INVALID_REQUEST", "BadRequestError"),
    401: ("AUTH", "AuthenticationError"),
    403: ("AUTH", "PermissionDeniedError"),
    404: ("HTTP_404", "NotFoundError"),
    429: ("RATE_LIMIT", "RateLimitError"),
    500: ("SERVER", "InternalServerError"),
    503: ("SERVER", "InternalServerError"),
}


def _ask(dialect: ProviderDialect, status: int, body: bytes, kind: str, headers: Any, *, stream: bool) -> Any:
    if dialect.path == "/chat/completions":
        client = openai_client(status, body, kind, headers)
        return client.chat.completions.create(model="m", messages=SAY, stream=stream)
    client = anthropic_client(status, body, kind, headers)
    return client.messages.create(model="m", max_tokens=10, messages=SAY, stream=stream)


def _raises_typed(dialect: ProviderDialect, failure: Failure) -> Any:
    """Have the client read the answer of HTTP for ``failure``; the error that it raises, of its own kind."""
    status, body, headers = dialect.error(failure)
    module: Any = openai if dialect.path == "/chat/completions" else anthropic
    for stream in (True, False):
        with pytest.raises(module.APIStatusError) as caught:
            _ask(dialect, status, json_text.dumps(body), "application/json", headers, stream=stream)
        assert caught.value.status_code == status
        assert failure.message in str(caught.value)
    return caught.value


@pytest.mark.parametrize("dialect", [*CHAT, *MESSAGES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("status", STATUSES)
def test_a_refusal_raises_the_typed_error_of_the_client(dialect: ProviderDialect, status: int) -> None:
    code, kind = STATUSES[status]
    failure = Failure(message="because", code=code, status=status, provider_retry_after_ms=1000)
    raised = _raises_typed(dialect, failure)
    module: Any = openai if dialect.path == "/chat/completions" else anthropic
    assert isinstance(raised, getattr(module, kind))
    assert raised.response.headers["retry-after"] == "1"


def half(*more: dict[str, Any]) -> list[Chunk]:
    start = {"type": "block-start", "index": 0, "blockType": "text"}
    return [decode_chunk(c) for c in (start, {"type": "text-delta", "index": 0, "text": "half"}, *more)]


def failed(code: str) -> dict[str, Any]:
    return {"type": "finish", "reason": {"kind": "error", "failure": {"message": "because", "code": code}}}


@pytest.mark.parametrize("dialect", [*CHAT, *MESSAGES], ids=lambda dialect: dialect.name)
def test_a_failure_in_mid_stream_raises_the_error_of_the_client_behind_what_had_come(
    dialect: ProviderDialect,
) -> None:
    module: Any = openai if dialect.path == "/chat/completions" else anthropic
    stream = _ask(dialect, 200, wire(dialect, half(failed("SERVER"))), "text/event-stream", None, stream=True)
    seen = []
    with pytest.raises(module.APIError, match="because"):
        seen.extend(stream)
    assert "half" in str(seen)


@pytest.mark.parametrize("dialect", [*CHAT, *MESSAGES], ids=lambda dialect: dialect.name)
def test_what_is_no_json_is_not_read_as_an_answer(dialect: ProviderDialect) -> None:
    stream = _ask(
        dialect,
        200,
        wire(dialect, half(failed("MALFORMED_RESPONSE"))),
        "text/event-stream",
        None,
        stream=True,
    )
    with pytest.raises(json.JSONDecodeError):
        list(stream)


def test_arguments_of_a_tool_that_are_no_json_fail_in_the_anthropic_client_too() -> None:
    call = {"type": "tool-call", "id": "c", "name": "bash", "arguments": "{not json"}
    values: list[dict[str, Any]] = [
        {"type": "block-start", "index": 0, "blockType": "tool-call"},
        {"type": "block-end", "index": 0, "block": call},
        failed("MALFORMED_RESPONSE"),
    ]
    body = wire(DEEPSEEK_MESSAGES, [decode_chunk(value) for value in values])
    ask: Callable[..., Any] = anthropic_client(200, body).messages.stream
    with ask(model="m", max_tokens=10, messages=SAY) as stream, pytest.raises(ValueError, match="JSON"):
        stream.get_final_message()


@pytest.mark.parametrize("dialect", MESSAGES, ids=lambda dialect: dialect.name)
def test_the_anthropic_client_finds_no_final_message_in_an_answer_that_was_cut_off(dialect: Any) -> None:
    kinds = [
        event.type
        for event in _ask(dialect, 200, wire(dialect, half()), "text/event-stream", None, stream=True)
    ]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]
