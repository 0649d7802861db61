"""What an answer on the wire comes to: chunks, whatever way it was given, and a last one that says how it ended.

============================================  ==================================================================
a success in server-sent events               the chunks of the dialect as they come
a success in JSON                             the chunks that it stands for, once it is whole
no success                                    a failure by its status and wording (docs/providers.md)
the connection broke, before or in the answer a failure ``TRANSPORT``
the body ended before its last event          a failure ``STREAM_CLOSED``; without any body ``EMPTY_RESPONSE``
the client went away                          nothing more: the call was cancelled
the body cannot be read                       a failure ``UNSUPPORTED_CONTENT``
============================================  ==================================================================

An answer that came to its last event is whole, whoever left first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from playhead.adapters.providers.client_body import BodyDecoder
from playhead.adapters.providers.content_encoding import ContentDecoder, Unreadable, content_decoder
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.http_failures import http_failure
from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.exchange import BODY_LIMIT_BYTES, ExchangeEnd
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError
from playhead.eventstore.redaction import Secrets
from playhead.replay.timed_chunk import TimedChunk
from playhead.web.recorder_secrets import HiddenChunks


class AnswerReader:
    """Reads one answer. ``streams`` says what the request asked for, ``secrets`` what must not come through."""

    def __init__(self, dialect: ProviderDialect, *, streams: bool, secrets: Secrets) -> None:
        self._dialect = dialect
        self._streams = streams
        self._hidden = HiddenChunks(secrets)
        self._status: int | None = None
        self._headers: list[tuple[str, str]] = []
        self._content: ContentDecoder | None = None
        self._unreadable: Unreadable | None = None
        self._stream: BodyDecoder | None = None
        self._body = bytearray()
        self._is_empty = True
        self.finished = False

    @property
    def spread_a_secret(self) -> bool:
        """Whether a credential came in pieces or broke off: chunks are without it, the bytes of the body are not."""
        return self._hidden.were_spread

    @property
    def is_readable(self) -> bool:
        """Whether the body could be decoded, so far."""
        return self._unreadable is None

    def head(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """The head came."""
        self._status, self._headers = status, list(headers)
        try:
            self._content = content_decoder(self._headers)
        except Unreadable as error:
            self._unreadable = error
        kind = self._header("content-type").lower()
        if self._is_success and ("event-stream" in kind or (self._streams and not kind)):
            self._stream = BodyDecoder(self._dialect)

    def decoded(self, piece: bytes) -> bytes:
        """``piece`` without its content encoding; as it is where that cannot be read."""
        if self._content is None or self._unreadable is not None:
            return piece
        try:
            return self._content.push(piece)
        except Unreadable as error:
            self._unreadable = error
            return piece

    def push(self, piece: bytes, time_ms: int) -> Iterator[TimedChunk]:
        """The chunks that a decoded piece of the body completes, and those that were held back for it."""
        if self._unreadable is not None or not piece:
            return
        self._is_empty = False
        if self._stream is None:
            self._body += piece[: BODY_LIMIT_BYTES - len(self._body)]
        elif not self.finished:
            yield from self._hide(_until_failure(self._stream.push(piece)), time_ms)

    def end(self, end: ExchangeEnd, reason: str, now_ms: int) -> Iterator[TimedChunk]:
        """What the end of the exchange gives; ``reason`` says why a connection broke."""
        if not self.finished:
            yield from self._hide(_until_failure(self._last(end, reason, now_ms)), now_ms)
        yield from self._hidden.end()

    def _last(self, end: ExchangeEnd, reason: str, now_ms: int) -> Iterator[Chunk]:
        if self._status is not None and not self._is_success:
            raise AdapterError(http_failure(self._status, self._parsed(), dict(self._headers), now_ms))
        if end == "client-gone":
            return
        if end != "complete":
            raise AdapterError(Failure(message=reason or "the connection broke", code="TRANSPORT"))
        if self._unreadable is not None:
            message = f"the recorder could not read the answer: {self._unreadable}"
            raise AdapterError(Failure(message=message, code="UNSUPPORTED_CONTENT"))
        if self._is_empty:
            message = f"the answer with status {self._status} has no body"
            raise AdapterError(Failure(message=message, code="EMPTY_RESPONSE", status=self._status))
        if self._stream is not None:
            yield from self._stream.end()
            return
        answer = self._parsed()
        if not isinstance(answer, dict):
            raise AdapterError(
                Failure(message="the answer is neither a JSON object nor a stream", code="MALFORMED_RESPONSE")
            )
        yield from self._dialect.decoder().whole(answer)

    @property
    def _is_success(self) -> bool:
        return self._status is not None and 200 <= self._status < 300

    def _header(self, name: str) -> str:
        return next((value for given, value in self._headers if given.lower() == name), "")

    def _parsed(self) -> Any:
        try:
            return parse_payload(bytes(self._body))
        except ValueError:
            return None

    def _hide(self, chunks: Iterable[Chunk], time_ms: int) -> Iterator[TimedChunk]:
        for chunk in chunks:
            self.finished = isinstance(chunk, FinishChunk)
            yield from self._hidden.push(chunk, time_ms)


def _until_failure(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """``chunks``; a failure ends them as a ``finish``, as a log has it."""
    try:
        yield from chunks
    except AdapterError as error:
        yield FinishChunk(FinishError(failure=error.failure))
