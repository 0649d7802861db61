"""A provider over HTTP: a ``ChunkSource`` that streams one answer for one request.

A call ends in one of these ways; the first that fits is told::

    nothing came for the idle timeout      AdapterError TIMEOUT       connecting counts, a slow consumer does not
    the token was cancelled                Cancelled                  at once, and the connection is closed
    the answer is no success               AdapterError, see http_failures.py
    the stream itself says that it failed  AdapterError, see the dialect; after the chunks before it
    a success without a body               AdapterError EMPTY_RESPONSE
    the body ends before its last event    AdapterError STREAM_CLOSED
    anything else between the two sides    AdapterError TRANSPORT

Redirects are failures: a key goes where it was meant to go. No message, ``repr`` or log line holds the key.
Source: docs/providers.md, "Client and failures".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from playhead.adapters.providers.base_url import read_base_url
from playhead.adapters.providers.client_body import BodyDecoder
from playhead.adapters.providers.client_wait import IdleTimeout, Wait
from playhead.adapters.providers.credentials import KeySource, key_headers, resolve_key
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.http_failures import http_failure
from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore import json_text
from playhead.eventstore.cancel import Cancelled, CancelToken
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.exchange import Exchange, ExchangeEnd, ExchangeRecorder
from playhead.eventstore.failures import Failure
from playhead.eventstore.log import Clock
from playhead.eventstore.redaction import Secrets

IDLE_TIMEOUT_S = 300.0
"""How long nothing may come before a call has failed."""

ERROR_BODY_LIMIT_BYTES = 2**20
"""The most that is read of an answer which is no success."""

SESSION_HEADER = "x-playhead-session-id"
"""Names the session of a request, so that a recording proxy can tell sessions apart."""

COMPACT_HEADER = "x-playhead-compact"
"""Marks the request for a summary."""

_LINGER_S = 0.05
"""How long the end of a body is waited for behind its last event: a connection read to its end is used again."""

OnExchange = Callable[[ModelRequest, Exchange], None]
"""Hears every call that was sent, once it is over. What it raises goes to who reads the chunks."""


class Provider:
    """One endpoint of one provider. Calls may run side by side; ``async with`` closes its connections.

    ``base_url`` is what clients of the dialect take: ``https://api.deepseek.com``, ``https://api.openai.com/v1``,
    ``https://api.anthropic.com``. ``key`` is the API key, or what gives one. ``http`` brings proxies, certificates
    and limits of its own, and stays open. Raises ``UsageError`` for a URL that is none.
    """

    def __init__(
        self,
        dialect: ProviderDialect,
        base_url: str,
        key: KeySource = None,
        *,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        on_exchange: OnExchange | None = None,
        http: httpx.AsyncClient | None = None,
        clock: Clock = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.dialect = dialect
        self.url = endpoint(base_url, dialect.path)
        self._key = key
        self._idle_timeout_s = idle_timeout_s
        self._on_exchange = on_exchange
        self._clock = clock
        self._owns_http = http is None
        self._http = httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) if http is None else http

    def __repr__(self) -> str:
        return f"Provider({self.dialect.name!r}, {self.where!r})"

    @property
    def where(self) -> str:
        """The endpoint as messages name it, without its query."""
        return str(self.url.copy_with(query=None))

    async def stream(self, request: ModelRequest, token: CancelToken) -> AsyncIterator[Chunk]:
        """The chunks of one answer. See ``ChunkSource.stream``."""
        token.check()
        call = _Call(self, request)
        response: httpx.Response | None = None
        end: ExchangeEnd = "client-gone"
        body, empty = BodyDecoder(self.dialect), True
        wait = Wait(token, self._idle_timeout_s)
        try:
            response = await wait(
                lambda: self._http.send(call.http, stream=True, auth=None, follow_redirects=False)
            )
            call.head(response)
            pieces = response.aiter_bytes()
            if not response.is_success:
                raise AdapterError(await self._refusal(call, response, pieces, wait))
            while not body.done and (piece := await wait(lambda: anext(pieces, None))) is not None:
                empty = False
                call.piece(piece)
                for chunk in body.push(piece):
                    token.check()
                    yield chunk
            end = "complete"
            if empty:
                message = f"{self.where} answered with status {response.status_code} and no body"
                raise AdapterError(
                    Failure(message=message, code="EMPTY_RESPONSE", status=response.status_code)
                )
            for chunk in body.end():
                token.check()
                yield chunk
            await _linger(call, pieces)
        except IdleTimeout as error:
            end = "timeout"
            message = f"nothing came from {self.where} for {self._idle_timeout_s:g} s"
            raise AdapterError(Failure(message=message, code="TIMEOUT")) from error
        except AdapterError as error:
            end = "complete"
            if token.cause is not None:
                raise Cancelled(token.cause) from None
            raise call.without_key(error) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            end = "reset-before-response" if response is None else "reset"
            if token.cause is not None:
                raise Cancelled(token.cause) from error
            raise call.without_key(self._broken(error, response)) from error
        finally:
            try:
                if response is not None:
                    await response.aclose()
            finally:
                call.ended("complete" if body.done else end)

    async def _refusal(
        self, call: _Call, response: httpx.Response, pieces: AsyncIterator[bytes], wait: Wait
    ) -> Failure:
        """The failure that an answer without success stands for. Its body may be broken: the status says enough."""
        body = b""
        with suppress(httpx.HTTPError):
            while (
                len(body) < ERROR_BODY_LIMIT_BYTES
                and (piece := await wait(lambda: anext(pieces, None))) is not None
            ):
                call.piece(piece)
                body += piece
        return http_failure(response.status_code, _parsed(body), response.headers, self._clock())

    def _broken(self, error: Exception, response: httpx.Response | None) -> AdapterError:
        what = "request to" if response is None else "stream from"
        reason = str(error) or type(error).__name__
        return AdapterError(Failure(message=f"the {what} {self.where} failed: {reason}", code="TRANSPORT"))

    async def aclose(self) -> None:
        """Close the connections, unless they came with ``http``."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Call:
    """One request on its way, and what is heard of it."""

    def __init__(self, provider: Provider, request: ModelRequest) -> None:
        key = resolve_key(provider._key)
        body = json_text.dumps(provider.dialect.build_request(request))
        headers = {**_headers(request), **key_headers(provider.dialect.path, key)}
        self.http = provider._http.build_request(
            "POST", provider.url, content=body, headers=headers, timeout=None
        )
        self._secrets = Secrets.of_request(str(provider.url), (), key)
        self._request = request
        self._clock = provider._clock
        self._on_exchange = provider._on_exchange
        self._recorder = None
        if self._on_exchange is not None:
            self._recorder = ExchangeRecorder(
                provider.dialect.name, str(provider.url), headers.items(), body, self._clock(), secrets=[key]
            )

    def head(self, response: httpx.Response) -> None:
        """The head came. The body is read without content encoding, so that none is kept."""
        if self._recorder is not None:
            headers = response.headers.multi_items()
            kept = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
            self._recorder.head(response.status_code, kept, self._clock())

    def piece(self, piece: bytes) -> None:
        """A piece of the body came."""
        if self._recorder is not None:
            self._recorder.piece(piece, self._clock())

    def ended(self, end: ExchangeEnd) -> None:
        """The call is over."""
        if self._recorder is not None and self._on_exchange is not None:
            self._on_exchange(self._request, self._recorder.ended(end, self._clock()))

    def without_key(self, error: AdapterError) -> AdapterError:
        """``error`` without the key: some providers repeat it to who sent a wrong one."""
        message = self._secrets.hidden_text(error.failure.message)
        if message == error.failure.message:
            return error
        return AdapterError(Failure.decode({**error.failure.to_json(), "message": message}))


def endpoint(base_url: str, path: str) -> httpx.URL:
    """Where requests of a dialect go. A base that ends in ``/v1`` is not given a second one.

    Raises ``UsageError`` for what is no URL of HTTP, or holds a user: a key is given as such.
    """
    url = read_base_url(base_url, "the base URL of a provider", credentials="give the key as the key")
    base = url.raw_path.partition(b"?")[0].rstrip(b"/")
    if base.endswith(b"/v1"):
        path = path.removeprefix("/v1")
    query = b"?" + url.query if url.query else b""
    return url.copy_with(raw_path=base + path.encode() + query, fragment=None)


def _headers(request: ModelRequest) -> dict[str, str]:
    headers = {
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"playhead/{version('playhead')}",
    }
    if request.session is not None:
        headers[SESSION_HEADER] = quote(request.session, safe="", errors="replace")
    if request.purpose == "compaction":
        headers[COMPACT_HEADER] = "1"
    return headers


async def _linger(call: _Call, pieces: AsyncIterator[bytes]) -> None:
    """Read on to the end of a body whose last event was seen, if that is there already."""
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            async for piece in pieces:
                call.piece(piece)


def _parsed(body: bytes) -> Any:
    """The value of a JSON body; None for what is none."""
    try:
        return parse_payload(body)
    except ValueError:
        return None
