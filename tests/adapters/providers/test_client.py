"""The client against a server on the loopback that answers well and badly, as it is told."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import patiently
from scripted_server import (
    CUT,
    GARBLE,
    HANG,
    LONG_S,
    RESET,
    Answer,
    Pause,
    ScriptedServer,
    Signal,
    Step,
    Until,
    cut_everywhere,
    scripted_server,
)

from playhead.adapters.providers.chat import OPENAI_CHAT
from playhead.adapters.providers.client import Provider, endpoint
from playhead.adapters.providers.client_body import BodyDecoder
from playhead.adapters.providers.dialect import ProviderDialect, decode
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES
from playhead.adapters.providers.sse import EventReader
from playhead.eventstore.cancel import Cancelled, CancelToken
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk, FinishChunk, TextDelta
from playhead.eventstore.errors import UsageError
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.registered import Registered
from playhead.eventstore.request_header import CallConfig
from playhead.eventstore.stream_grammar import checked_stream

KEY = "sk-planted.Key/0123456789"
USER = {"kind": "user"}
REQUEST = ModelRequest(
    config=CallConfig(provider="p", model="m"),
    messages=({"id": "m-1", "role": "user", "content": [{"type": "text", "text": "hi"}], "source": USER},),
    session="s/é 1",
)


def event(delta: dict[str, Any] | None = None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


HEL, LO, STOP, DONE = (
    event({"content": "Hel"}),
    event({"content": "lo"}),
    event(finish="stop"),
    b"data: [DONE]\n\n",
)
BODY = HEL + LO + STOP + DONE


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Called:
    """What a call gave: chunks, and the error that ended it."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.error: BaseException | None = None
        self.exchanges: list[Exchange] = []

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, TextDelta))

    @property
    def code(self) -> str | None:
        return None if self.error is None else self.error.code  # type: ignore[attr-defined,no-any-return]

    @property
    def exchange(self) -> Exchange:
        (only,) = self.exchanges
        return only


async def _call(
    url: str,
    called: Called,
    *,
    dialect: ProviderDialect = OPENAI_CHAT,
    token: CancelToken | None = None,
    on_chunk: Callable[[Chunk], None] = lambda _: None,
    **members: Any,
) -> None:
    members = {"key": KEY, "idle_timeout_s": LONG_S, **members}
    async with Provider(
        dialect, url, on_exchange=lambda _, kept: called.exchanges.append(kept), **members
    ) as provider:
        stream = checked_stream(provider.stream(REQUEST, token or CancelToken()))
        try:
            async for chunk in stream:
                called.chunks.append(chunk)
                on_chunk(chunk)
        except (AdapterError, Cancelled) as error:
            called.error = error


def call(answer: Answer | str, **members: Any) -> Called:
    called = Called()
    if isinstance(answer, str):
        asyncio.run(_call(answer, called, **members))
        return called
    with scripted_server(answer) as server:
        asyncio.run(_call(server.url, called, **members))
    return called


# The request


@pytest.mark.parametrize(
    ("dialect", "path", "key_header"),
    [
        (OPENAI_CHAT, "/chat/completions", {"authorization": f"Bearer {KEY}"}),
        (ANTHROPIC_MESSAGES, "/v1/messages", {"x-api-key": KEY, "anthropic-version": "2023-06-01"}),
    ],
    ids=["chat", "messages"],
)
def test_the_request_carries_the_body_and_the_headers_of_its_dialect(
    dialect: ProviderDialect, path: str, key_header: dict[str, str]
) -> None:
    with scripted_server(Answer(status=500)) as server:
        asyncio.run(_call(server.url + "/?v=1", Called(), dialect=dialect))
    (sent,) = server.requests
    assert (sent.method, sent.path) == ("POST", f"{path}?v=1")
    assert sent.json == dialect.build_request(REQUEST)
    assert key_header.items() <= sent.headers.items()
    assert sent.headers["accept"] == "text/event-stream"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["user-agent"].startswith("playhead/")
    assert sent.headers["x-playhead-session-id"] == "s%2F%C3%A9%201"
    assert "x-playhead-compact" not in sent.headers


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://h", "/chat/completions", "https://h/chat/completions"),
        ("https://h/v1/", "/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/anthropic", "/v1/messages", "https://h/anthropic/v1/messages"),
        ("https://h/v1", "/v1/messages", "https://h/v1/messages"),
        (
            "http://h:81/a%2Fb?api-version=1#x",
            "/chat/completions",
            "http://h:81/a%2Fb/chat/completions?api-version=1",
        ),
    ],
)
def test_requests_go_behind_the_base_url(base: str, path: str, url: str) -> None:
    assert str(endpoint(base, path)) == url


@pytest.mark.parametrize(
    "base",
    [
        "",
        "h",
        "ftp://h",
        "http://",
        "https://u:secret-0@h",
        "http://h:x",
        "/v1",
        "http://h:0",
        "http://h:99999",
    ],
)
def test_a_base_url_that_is_none_is_refused_without_repeating_it(base: str) -> None:
    with pytest.raises(UsageError, match="base URL") as caught:
        endpoint(base, "/v1/messages")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "MISSING_CREDENTIAL"),
        ("", "MISSING_CREDENTIAL"),
        (" \n", "MISSING_CREDENTIAL"),
        (lambda: None, "MISSING_CREDENTIAL"),
        ("planted key", "INVALID_CREDENTIAL"),
        ("planted\x7f", "INVALID_CREDENTIAL"),
        ("plantéd", "INVALID_CREDENTIAL"),
        ("planted\r\nx: y", "INVALID_CREDENTIAL"),
    ],
)
def test_a_key_that_cannot_be_sent_fails_the_call_before_it_is(key: Any, code: str) -> None:
    with scripted_server() as server:
        called = call(server.url, key=key)
    assert called.code == code
    assert server.connections == 0
    assert called.exchanges == []
    assert "plant" not in str(called.error)


def test_a_key_is_trimmed_and_asked_for_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playhead.adapters.providers.client._LINGER_S", LONG_S)
    keys = iter([f" {KEY}\n", "other-key"])
    with scripted_server(Answer(steps=[BODY]), Answer(steps=[BODY])) as server:

        async def twice() -> None:
            async with Provider(OPENAI_CHAT, server.url, lambda: next(keys)) as provider:
                for _ in range(2):
                    assert [chunk async for chunk in provider.stream(REQUEST, CancelToken())]

        asyncio.run(twice())
        assert server.connections == 1  # the first answer was read to its end, so its connection served again
    assert [sent.headers["authorization"] for sent in server.requests] == [
        f"Bearer {KEY}",
        "Bearer other-key",
    ]


# The answer


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize(
    "steps", [[BODY], [HEL, LO, STOP, DONE], cut_everywhere(BODY)], ids=["whole", "events", "bytes"]
)
def test_an_answer_gives_its_chunks_however_it_is_cut(framing: Any, steps: list[Step]) -> None:
    called = call(Answer(steps=steps, framing=framing))
    assert called.error is None
    assert called.chunks == list(decode(OPENAI_CHAT, EventReader().push(BODY)))
    assert (called.exchange.end, called.exchange.body, called.exchange.status) == ("complete", BODY, 200)


def test_chunks_come_while_the_answer_is_still_on_its_way() -> None:
    more = threading.Event()
    called = call(
        Answer(steps=[HEL, Until(more), LO, STOP, DONE]),
        on_chunk=lambda chunk: more.set() if isinstance(chunk, TextDelta) else None,
    )
    assert called.text == "Hello"


def test_nothing_behind_the_last_event_is_waited_for() -> None:
    with scripted_server(Answer(steps=[BODY, HANG])) as server:
        called = call(server.url)
        assert server.wait_client_gone()
    assert isinstance(called.chunks[-1], FinishChunk)
    assert called.error is None


@pytest.mark.parametrize("count", [1, 3])
def test_a_message_of_the_other_dialect_is_streamed_too(count: int) -> None:
    payloads: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "i", "model": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}] * count,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    body = "".join(
        f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n" for payload in payloads
    ).encode()
    called = call(Answer(steps=[body]), dialect=ANTHROPIC_MESSAGES)
    assert called.error is None
    assert called.text == "a" * count


def test_a_compressed_answer_is_read_and_kept_as_plain_text() -> None:
    import gzip

    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    called = call(Answer(steps=[gzip.compress(BODY)], headers=headers))
    assert called.text == "Hello"
    assert called.exchange.body == BODY
    assert dict(called.exchange.headers) == {"content-type": "text/event-stream"}


# Failures


@pytest.mark.parametrize(
    ("answer", "code", "message", "end"),
    [
        (Answer.json(429, {"error": {"message": "slow down"}}), "RATE_LIMIT", "slow down", "complete"),
        (
            Answer.json(400, {"error": "prompt is too long"}),
            "CONTEXT_WINDOW_EXCEEDED",
            "too long",
            "complete",
        ),
        (Answer(status=500, steps=[b"<html>"]), "SERVER", "status 500", "complete"),
        (Answer(status=503, steps=[b'{"error":', CUT]), "SERVER", "status 503", "complete"),
        (Answer(status=529, steps=[b"[" * 100_000]), "SERVER", "status 529", "complete"),
        (
            Answer(status=302, headers={"location": "http://127.0.0.1:1/"}),
            "HTTP_302",
            "status 302",
            "complete",
        ),
        (Answer(), "EMPTY_RESPONSE", "no body", "complete"),
        (Answer(status=204, framing="close"), "EMPTY_RESPONSE", "no body", "complete"),
        (Answer(steps=[b": wait\n\n"]), "STREAM_CLOSED", "", "complete"),
        (Answer(status=None, steps=[RESET]), "TRANSPORT", "the request to http://", "reset-before-response"),
        (Answer(status=None, steps=[CUT]), "TRANSPORT", "the request to http://", "reset-before-response"),
        (Answer(steps=[GARBLE]), "TRANSPORT", "the stream from http://", "reset"),
    ],
)
def test_a_call_that_gives_nothing_fails_as_what_it_was(
    answer: Answer, code: str, message: str, end: str
) -> None:
    called = call(answer)
    assert called.chunks == []
    assert called.code == code
    assert message in str(called.error)
    assert isinstance(called.error, AdapterError)
    assert called.error.failure.is_valid
    assert (called.exchange.end, called.exchange.status) == (end, answer.status)


def test_a_refusal_tells_how_long_to_wait_and_the_request_id() -> None:
    called = call(Answer.json(429, {"error": {"message": "slow"}}, retry_after="2", x_request_id="r-1"))
    assert isinstance(called.error, AdapterError)
    assert (called.error.status, called.error.retry_after_ms, called.error.failure.request_id) == (
        429,
        2000,
        "r-1",
    )
    assert dict(called.exchange.headers)["retry-after"] == "2"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("last", [RESET, CUT, GARBLE])
def test_a_failure_in_mid_stream_comes_after_the_chunks_before_it(framing: Any, last: Any) -> None:
    more = threading.Event()  # a RST overtakes bytes that were not read yet
    headers = {
        "content-type": "text/event-stream",
        **({"content-length": "9999"} if framing == "length" else {}),
    }
    called = call(
        Answer(steps=[HEL, LO, Until(more), last], framing=framing, headers=headers),
        on_chunk=lambda chunk: more.set() if getattr(chunk, "text", "") == "lo" else None,
    )
    assert called.text == "Hello"
    clean_end = framing == "close" and last is not RESET
    assert called.code == ("STREAM_CLOSED" if clean_end else "TRANSPORT")
    assert called.exchange.end == ("complete" if clean_end else "reset")
    assert called.exchange.body.startswith(HEL + LO)


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (b'data: {"error":{"message":"The server had an error","type":"server_error"}}\n\n', "SERVER"),
        (b"data: {oops\n\n", "MALFORMED_RESPONSE"),
        (b"", "STREAM_CLOSED"),
    ],
)
def test_what_the_stream_says_of_itself_comes_after_the_chunks_before_it(last: bytes, code: str) -> None:
    called = call(Answer(steps=[HEL + LO + last]))
    assert called.text == "Hello"
    assert called.code == code
    assert (called.exchange.end, called.exchange.body) == ("complete", HEL + LO + last)


def test_a_port_where_nobody_listens_is_a_transport_failure() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # taken, so that nobody else gets it, and nobody listens
        called = call(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert called.code == "TRANSPORT"
    assert called.exchange.end == "reset-before-response"


# Time


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(status=None, steps=[HANG]), ""),
        (Answer(steps=[HANG]), ""),
        (Answer(steps=[HEL, HANG]), "Hel"),
        (Answer(status=500, steps=[b"{", HANG]), ""),
    ],
    ids=["before-head", "behind-head", "mid-stream", "in-an-error"],
)
def test_silence_for_the_idle_timeout_ends_the_call_and_the_connection(answer: Answer, text: str) -> None:
    def check(silence_s: float) -> None:
        with scripted_server(answer) as server:
            called = call(server.url, idle_timeout_s=silence_s)
            assert server.wait_client_gone()
        assert called.code == "TIMEOUT"
        assert "nothing came from http://127.0.0.1" in str(called.error)
        assert called.text == text
        assert called.exchange.end == "timeout"

    patiently(check)


def test_any_bytes_start_the_idle_timer_anew() -> None:
    def check(silence_s: float) -> None:
        slow: list[Step] = [Pause(silence_s / 4), b": keep-alive\n\n"] * 5
        called = call(Answer(steps=[HEL, *slow, LO, STOP, DONE]), idle_timeout_s=silence_s)
        assert called.error is None
        assert called.text == "Hello"

    patiently(check)


def test_a_slow_consumer_is_no_silence() -> None:
    async def run(url: str, silence_s: float) -> int:
        async with Provider(OPENAI_CHAT, url, KEY, idle_timeout_s=silence_s) as provider:
            count = 0
            async for _ in provider.stream(REQUEST, CancelToken()):
                count += 1
                await asyncio.sleep(0.4 * silence_s)
            return count

    def check(silence_s: float) -> None:
        with scripted_server(Answer(steps=[HEL, LO, STOP, DONE])) as server:
            assert asyncio.run(run(server.url, silence_s)) == 5

    patiently(check)


# Cancellation

CAUSE = {"kind": "user"}


@pytest.mark.parametrize(
    ("before", "text"),
    [([], ""), ([HEL], "Hel")],
    ids=["behind-head", "mid-stream"],
)
def test_a_cancellation_ends_a_read_at_once_and_closes_the_connection(before: list[Step], text: str) -> None:
    here = threading.Event()
    called = Called()

    async def run(url: str) -> None:
        token = CancelToken()
        task = asyncio.create_task(_call(url, called, token=token))
        while not here.is_set() or called.text != text:
            await asyncio.sleep(0.005)
        token.cancel(CAUSE)
        await asyncio.wait_for(task, LONG_S)

    with scripted_server(Answer(steps=[*before, Signal(here), HANG])) as server:
        asyncio.run(run(server.url))
        assert server.wait_client_gone()
    assert isinstance(called.error, Cancelled)
    assert called.error.cause == CAUSE
    assert called.exchange.end == "client-gone"


def test_a_cancellation_while_connecting_ends_the_call() -> None:
    here = threading.Event()
    called = Called()

    async def run(url: str) -> None:
        token = CancelToken()
        task = asyncio.create_task(_call(url, called, token=token))
        while not here.is_set():
            await asyncio.sleep(0.005)
        token.cancel(CAUSE)
        token.cancel({"kind": "parent"})
        await asyncio.wait_for(task, LONG_S)

    with scripted_server(Answer(status=None, steps=[Signal(here), HANG])) as server:
        asyncio.run(run(server.url))
        assert server.wait_client_gone()
    assert isinstance(called.error, Cancelled)
    assert called.error.cause == CAUSE
    assert (called.exchange.end, called.exchange.status) == ("client-gone", None)


def test_no_chunk_comes_behind_a_cancellation_although_bytes_are_there() -> None:
    token = CancelToken()
    called = call(Answer(steps=[BODY]), token=token, on_chunk=lambda _: token.cancel(CAUSE))
    assert len(called.chunks) == 1
    assert isinstance(called.error, Cancelled)


def test_a_call_with_a_cancelled_token_is_not_made() -> None:
    token = CancelToken()
    token.cancel(CAUSE)
    with scripted_server() as server:
        called = call(server.url, token=token)
    assert isinstance(called.error, Cancelled)
    assert server.connections == 0


def test_a_connection_that_breaks_behind_a_cancellation_is_a_cancellation() -> None:
    token = CancelToken()

    class Broken(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            token._listeners = Registered()  # the cancellation is not heard in time
            token.cancel(CAUSE)
            raise httpx.ReadError("broken", request=request)

    called = call("http://127.0.0.1:1", token=token, http=httpx.AsyncClient(transport=Broken()))
    assert isinstance(called.error, Cancelled)


@pytest.mark.parametrize("way", ["aclose", "task", "dropped"])
def test_a_stream_that_is_left_lets_go_of_its_connection(way: str) -> None:
    async def run(url: str, server: ScriptedServer) -> None:
        provider = Provider(OPENAI_CHAT, url, KEY)
        stream: Any = provider.stream(REQUEST, CancelToken())
        await anext(stream)
        if way == "aclose":
            await stream.aclose()
        elif way == "task":
            await anext(stream)
            task = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            del stream
            gc.collect()
        assert await asyncio.to_thread(server.wait_client_gone)
        await provider.aclose()

    with scripted_server(Answer(steps=[HEL, HANG])) as server:
        asyncio.run(run(server.url, server))


def test_calls_run_side_by_side() -> None:
    async def run(url: str) -> list[str]:
        async with Provider(OPENAI_CHAT, url, KEY) as provider:

            async def text() -> str:
                chunks = [chunk async for chunk in provider.stream(REQUEST, CancelToken())]
                return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))

            return await asyncio.gather(*(text() for _ in range(64)))

    with scripted_server(script=lambda _: Answer(steps=[HEL, Pause(0.05), LO, STOP, DONE])) as server:
        assert asyncio.run(run(server.url)) == ["Hello"] * 64


def test_a_client_that_was_given_stays_open() -> None:
    async def run(url: str) -> bool:
        async with httpx.AsyncClient(timeout=LONG_S) as http:
            async with Provider(OPENAI_CHAT, url, KEY, http=http) as provider:
                assert [chunk async for chunk in provider.stream(REQUEST, CancelToken())]
            return http.is_closed

    with scripted_server(Answer(steps=[BODY])) as server:
        assert asyncio.run(run(server.url)) is False


# Secrets


def told(called: Called) -> Iterator[str]:
    """Everything that a failed call says to somebody."""
    assert called.error is not None
    yield from traceback.format_exception(called.error)
    yield repr(called.error)
    if isinstance(called.error, AdapterError):
        yield json.dumps(called.error.failure.to_json())
    yield repr(called.exchanges)


@pytest.mark.parametrize(
    "answer",
    [
        Answer.json(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
        Answer(steps=[HEL, b'data: {"error":{"message":"' + KEY.encode() + b' is wrong"}}\n\n']),
        Answer(steps=[f"data: {{{KEY}\n\n".encode()]),
        Answer(status=None, steps=[RESET]),
        Answer(steps=[HEL, RESET]),
    ],
    ids=["refusal", "in-stream", "malformed", "reset-before", "reset"],
)
def test_no_message_no_repr_no_log_and_no_exchange_holds_the_key(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    called = call(answer)
    assert isinstance(called.error, AdapterError)
    assert [text for text in told(called) if KEY in text] == []
    # What httpx logs of an answer's head is the provider's, and its URL has no key in it.
    assert KEY not in caplog.text


def test_a_provider_shows_where_it_goes_and_no_key() -> None:
    provider = Provider(OPENAI_CHAT, f"https://h/v1?key={KEY}", KEY)
    assert repr(provider) == f"Provider({OPENAI_CHAT.name!r}, 'https://h/v1/chat/completions')"
    asyncio.run(provider.aclose())


def test_an_exchange_has_what_went_over_the_wire_with_its_times() -> None:
    ticks = iter(range(1000, 2000))
    heard = {"Hel": threading.Event(), "lo": threading.Event()}
    called = call(
        Answer(steps=[HEL, Until(heard["Hel"]), LO, Until(heard["lo"]), STOP + DONE]),
        clock=lambda: next(ticks),
        on_chunk=lambda chunk: heard[chunk.text].set() if isinstance(chunk, TextDelta) else None,
    )
    kept = called.exchange
    assert (kept.dialect, kept.path) == (OPENAI_CHAT.name, "/chat/completions")
    assert json.loads(kept.request) == OPENAI_CHAT.build_request(REQUEST)
    assert [piece for _, piece in kept.timed_body()] == [HEL, LO, STOP + DONE]
    assert [time_ms for time_ms, _ in kept.timed_body()] == [1002, 1003, 1004]
    assert (kept.began_ms, kept.head_ms, kept.ended_ms) == (1000, 1001, 1005)
    assert {name for name, _ in kept.request_headers} == {
        "accept",
        "content-type",
        "user-agent",
        "x-playhead-session-id",
    }


def test_a_reader_that_leaves_with_the_finish_leaves_a_complete_exchange() -> None:
    kept: list[Exchange] = []

    async def run(url: str) -> None:
        async with Provider(
            OPENAI_CHAT, url, KEY, on_exchange=lambda _, heard: kept.append(heard)
        ) as provider:
            stream: Any = provider.stream(REQUEST, CancelToken())
            async for chunk in stream:
                if isinstance(chunk, FinishChunk):
                    break
            await stream.aclose()

    with scripted_server(Answer(steps=[BODY, HANG])) as server:
        asyncio.run(run(server.url))
    assert [(exchange.end, exchange.body) for exchange in kept] == [("complete", BODY)]


def test_what_was_kept_decodes_to_what_was_streamed() -> None:
    log = MemoryLog(lambda: 0)
    session = log.create(SessionHeader(SessionId("s"), 0))
    called = call(Answer(steps=[HEL, LO, STOP, DONE]))
    session.keep_exchange(called.exchange.placed(turn=1, step=1, number=1))
    (kept,) = session.exchanges(turn=1)
    body = BodyDecoder(OPENAI_CHAT)
    assert [chunk for _, piece in kept.timed_body() for chunk in body.push(piece)] == called.chunks
    assert body.done
    assert list(body.end()) == []


@given(cuts=st.lists(st.integers(0, len(BODY)), max_size=12).map(sorted), behind=st.binary(max_size=8))
def test_a_body_cut_anywhere_gives_the_same_chunks(cuts: list[int], behind: bytes) -> None:
    body = BodyDecoder(OPENAI_CHAT)
    bounds = [0, *cuts, len(BODY)]
    chunks = [chunk for start, end in pairwise(bounds) for chunk in body.push(BODY[start:end])]
    assert chunks == list(decode(OPENAI_CHAT, EventReader().push(BODY)))
    assert body.done
    assert list(body.push(behind)) == []


async def _drained(stream: AsyncIterator[Chunk]) -> None:
    async for _ in stream:
        pass


def test_what_the_listener_raises_reaches_who_reads_the_chunks() -> None:
    def full(_: ModelRequest, __: Exchange) -> None:
        raise OSError("the disk is full")

    async def run(url: str) -> None:
        async with Provider(OPENAI_CHAT, url, KEY, on_exchange=full) as provider:
            await _drained(provider.stream(REQUEST, CancelToken()))

    with scripted_server(Answer(steps=[BODY])) as server, pytest.raises(OSError, match="the disk is full"):
        asyncio.run(run(server.url))
