"""The provider behind a proxy: requests go to it as they came, and its answers are read as they are.

Nothing is added, decoded, followed or tried again. The target of a request is appended to the base URL, byte for byte;
where both have the ``/v1`` of the format, one stands. Headers that belong to a connection are not passed on, see
``end_to_end``. Source: docs/recording.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Self, TypeAlias

import httpx

from playhead.adapters.providers.base_url import read_base_url
from playhead.adapters.providers.content_encoding import readable_encodings
from playhead.eventstore.errors import PlayheadError, UsageError

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
"""Names and values as on the wire, in order."""

_OF_THE_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


class UpstreamBroken(PlayheadError):
    """The connection broke, or never stood. ``before_response`` says that no answer had begun."""

    code = "upstream-broken"

    def __init__(self, where: str, reason: str, *, before_response: bool) -> None:
        self.before_response = before_response
        what = "request to" if before_response else "stream from"
        super().__init__(f"the {what} {where} failed: {reason}")


class UpstreamAnswer:
    """An answer that began. ``headers`` are those that concern its reader."""

    def __init__(self, response: httpx.Response, where: str) -> None:
        self._response = response
        self._where = where
        self.status = response.status_code
        self.headers = end_to_end(response.headers.raw)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes, in its content encoding. Raises ``UpstreamBroken``."""
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except httpx.HTTPError as error:
            raise UpstreamBroken(self._where, _reason(error), before_response=False) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._response.aclose()


class Upstream:
    """One provider. Calls may run side by side; ``async with`` closes its connections.

    ``base_url`` is what a client would take. Raises ``UsageError`` for a URL that is none, or holds a credential.
    """

    def __init__(self, base_url: str) -> None:
        self._url = _base(base_url)
        self._path = self._url.raw_path.rstrip(b"/")
        self._http = httpx.AsyncClient(
            timeout=None, limits=httpx.Limits(max_connections=None), follow_redirects=False
        )

    @property
    def where(self) -> str:
        """The base URL as messages name it."""
        return str(self._url)

    def target(self, asked: bytes) -> bytes:
        """Where a request for the path and query ``asked`` goes."""
        if self._path.endswith(b"/v1") and (asked == b"/v1" or asked.startswith((b"/v1/", b"/v1?"))):
            asked = asked[len(b"/v1") :]
        return self._path + asked or b"/"

    async def ask(
        self, method: str, asked: bytes, headers: RawHeaders, body: AsyncIterator[bytes] | None
    ) -> UpstreamAnswer:
        """The answer to a request, once its head is there; ``async with`` lets go of its connection.

        ``body`` is sent as it comes; None is no body. What it raises comes through. Raises ``UpstreamBroken``.
        """
        passed = [(b"host", self._url.netloc), *_asked_headers(headers)]
        if body is not None and not any(name.lower() == b"content-length" for name, _ in passed):
            passed.append((b"transfer-encoding", b"chunked"))
        request = httpx.Request(
            method,
            self._url,
            headers=passed,
            stream=_Body(body) if body is not None else httpx.ByteStream(b""),
            extensions={"target": self.target(asked), "timeout": {}},
        )
        try:
            response = await self._http.send(request, stream=True, auth=None)
        except httpx.HTTPError as error:
            raise UpstreamBroken(self.where, _reason(error), before_response=True) from error
        if not 200 <= response.status_code <= 599:
            await response.aclose()
            reason = f"its answer has the status {response.status_code}, which HTTP does not have"
            raise UpstreamBroken(self.where, reason, before_response=True)
        return UpstreamAnswer(response, self.where)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers that concern the other end: neither those of a connection, nor those that ``connection`` names.

    Where ``transfer-encoding`` says how long a body is, ``content-length`` does not, and goes with it.
    """
    headers = list(headers)
    named = {
        name.strip().lower()
        for header, value in headers
        if header.lower() == b"connection"
        for name in value.split(b",")
    }
    if any(name.lower() == b"transfer-encoding" for name, _ in headers):
        named.add(b"content-length")
    return [(name, value) for name, value in headers if name.lower() not in _OF_THE_CONNECTION | named]


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece


def _asked_headers(headers: RawHeaders) -> RawHeaders:
    """The headers of a request that go on: as they came, but for encodings that nobody here could read."""
    return [
        (name, readable_encodings(value.decode("latin-1")).encode("latin-1"))
        if name.lower() == b"accept-encoding"
        else (name, value)
        for name, value in end_to_end(headers)
        if name.lower() not in (b"host", b"expect")
    ]


def _base(base_url: str) -> httpx.URL:
    url = read_base_url(base_url, "the URL of the upstream", credentials="the client sends its own")
    if url.query or url.fragment:
        raise UsageError("the URL of the upstream ends with its path; clients send their own query")
    return url


def _reason(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
