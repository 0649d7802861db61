"""The contract of a provider dialect: a wire format, both ways, without any network.

A dialect is a frozen value. Text on the wire is JSON in server-sent events (``sse.py``); requests and whole answers
are JSON objects. Chunks go through ``decode`` and ``encode``: ``decode(encode(chunks)) == chunks`` for what was
recorded in that dialect, and content, tool calls and finish survive across dialects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError


class WireEvent(NamedTuple):
    """One server-sent event. ``event`` is ``message`` where the wire names none; ``data`` is its text."""

    data: str
    event: str = "message"
    id: str = ""


class WireError(NamedTuple):
    """An answer of HTTP that is no success: status, JSON body, and headers beyond the usual."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = {}


class Decoder(Protocol):
    """Turns the events of one answer into chunks, as they come."""

    @property
    def done(self) -> bool:
        """The terminal event was seen: nothing after it is read."""
        ...

    def push(self, event: WireEvent) -> Iterator[Chunk]:
        """The chunks that ``event`` gives, once it is wholly looked at. Raises ``AdapterError`` for a failure
        inside the stream, after the chunks before it."""
        ...

    def end(self) -> Iterator[Chunk]:
        """What the end of the body gives. Raises ``AdapterError`` with ``STREAM_CLOSED`` when it comes too early."""
        ...

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Chunk]:
        """The chunks of an answer that came as one JSON object, for which no stream was asked."""
        ...


class ProviderDialect(Protocol):
    """One wire format."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str:
        """Where requests go, behind the base URL: ``/chat/completions`` or ``/v1/messages``."""
        ...

    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON body that asks for ``request`` as a stream. Raises ``AdapterError`` for what it cannot say."""
        ...

    def read_request(self, body: Mapping[str, Any]) -> ModelRequest:
        """The request that a body stands for, as far as the wire tells: ids are made of the place in it.

        Raises ``AdapterError`` with ``INVALID_REQUEST`` for a body that is none.
        """
        ...

    def decoder(self) -> Decoder:
        """For one answer."""
        ...

    def encode(
        self, chunks: Iterable[Chunk], *, model: str = "", id: str = ""
    ) -> Iterator[tuple[int, WireEvent]]:
        """The wire events of an answer, each with the number of chunks that had been taken when it was made.

        An event belongs to the moment of the last chunk taken. An answer that stops without a ``finish`` stops on
        the wire without its terminal event. A failure that the format can tell is told; one of HTTP (it has a
        status) or of the connection stops the answer too, and the endpoint says how the connection ends.
        """
        ...

    def encode_whole(self, chunks: Iterable[Chunk], *, model: str = "", id: str = "") -> dict[str, Any]:
        """The same answer as one JSON object, for a client that asked for no stream."""
        ...

    def error(self, failure: Failure) -> WireError:
        """The answer that tells a client of ``failure`` before any chunk."""
        ...

    def error_event(self, failure: Failure) -> WireEvent:
        """The event that tells a client of ``failure`` in mid-stream."""
        ...


def decode(dialect: ProviderDialect, events: Iterable[WireEvent]) -> Iterator[Chunk]:
    """The chunks of a whole answer. A failure ends them as a ``finish`` of kind ``error``, as a log has it."""
    decoder = dialect.decoder()
    try:
        for event in events:
            yield from decoder.push(event)
            if decoder.done:
                return
        yield from decoder.end()
    except AdapterError as error:
        yield FinishChunk(FinishError(failure=error.failure))
