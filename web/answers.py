"""How a recorded call is answered over HTTP, its failures too.

An ``Answer`` is a head, pieces of a body with their times, and how it ends:

============  ====================================================================================
``complete``  the body comes to its proper end, which may be before the last event of the stream
``reset``     the connection breaks, after everything that was sent before
``silence``   nothing more, until the client goes
============  ====================================================================================

Where the bytes of the call were kept, they are the answer. Otherwise it is made of the chunks:

============================================  ===========================================================
the recording                                 the answer
============================================  ===========================================================
nothing came                                  no head, silence
only ``TRANSPORT``                            no head, reset
only ``TIMEOUT``, ``ABORTED``, ``aborted``    no head, silence
only an error with a status                   that status, with the body of an error and ``retry-after``
only ``EMPTY_RESPONSE`` with a success        that status and no body
ends with ``finish``, or an error that the    the events, complete
format can tell
ends with ``STREAM_CLOSED``                   the events, and the body ends before the terminal one
ends with ``TRANSPORT``                       the events, reset
ends with ``TIMEOUT``, ``ABORTED``,           the events, silence
``aborted``, or without a ``finish``
============================================  ===========================================================

A client that asked for no stream gets one object, the status of the failure, a reset for a connection that ended, or
silence. Source: docs/replaying-in-tests.md, "How calls end".
"""

from __future__ import annotations

import dataclasses
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.payload import parse_payload
from playhead.adapters.providers.sse import encode_event
from playhead.eventstore import json_text
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import Chunk, FinishChunk, UsageChunk
from playhead.eventstore.exchange import Exchange, ExchangeEnd
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishAborted, FinishError
from playhead.replay.script import PARTIAL, Chunks, Entry, Hang, Throw
from playhead.replay.timed_chunk import TimedChunk

End: TypeAlias = Literal["complete", "reset", "silence"]

STREAM_HEADERS = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))
JSON_HEADERS = (("content-type", "application/json"),)
SYNTHESISED = ("x-playhead-synthesised", "1")
"""Marks an answer whose chunks were made up of a recorded result."""

_TOLD_BY_STREAMS = frozenset(
    {"ABORTED", "EMPTY_RESPONSE", "MALFORMED_RESPONSE", "STREAM_CLOSED", "TIMEOUT", "TRANSPORT"}
)
"""Codes of failures that no status tells."""

_SILENT = frozenset({"TIMEOUT", "ABORTED"})
_SIGN_OF_LIFE = b": playhead\n\n"
"""A comment: it makes a body that is not empty, and says nothing."""
_ENDS: dict[ExchangeEnd, End] = {
    "complete": "complete",
    "reset": "reset",
    "reset-before-response": "reset",
    "client-gone": "silence",
    "timeout": "silence",
}
_BAD_GATEWAY = 502
"""In the place of what is no status of an answer."""
_PRINTABLE = re.compile(r"[\t -~\xa0-\xff]*")


class TimedPiece(NamedTuple):
    """A piece of a body, and when it came; None for "with the one before"."""

    time_ms: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """``status`` is None where no head is sent. ``asked_ms`` is when the call was recorded to begin.

    ``ready_file`` is to be made once the body is through.
    """

    status: int | None
    headers: tuple[tuple[str, str], ...]
    body: Body
    asked_ms: int | None = None
    ready_file: Path | None = None


class Body:
    """The pieces of an answer, to be taken once; then ``end`` tells how the connection goes on."""

    def __init__(self, pieces: Iterable[TimedPiece] = (), end: End = "complete") -> None:
        self._pieces = pieces
        self.end: End = end

    def __iter__(self) -> Iterator[TimedPiece]:
        return iter(self._pieces)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a client wants its answer. ``model`` and ``id`` name an answer whose recording does not.

    Without ``usage`` a stream does not tell what the call took: clients of OpenAI that did not ask for it are not
    prepared for an event without choices.
    """

    dialect: ProviderDialect
    stream: bool = True
    usage: bool = True
    model: str = ""
    id: str = ""


def of_exchange(exchange: Exchange) -> Answer:
    """The answer that was kept: the same bytes, and the recorded end."""
    end, status = _ENDS[exchange.end], exchange.status
    if status is None:
        body = Body(end="silence" if end == "silence" else "reset")
        return Answer(None, (), body, exchange.began_ms)
    head = TimedPiece(exchange.head_ms, b"")
    pieces = (TimedPiece(time_ms, piece) for time_ms, piece in exchange.timed_body())
    sendable = status if 200 <= status <= 599 else _BAD_GATEWAY
    return Answer(sendable, sound(exchange.headers), Body(chain([head], pieces), end), exchange.began_ms)


def serves(exchange: Exchange, path: str, stream: bool) -> bool:
    """Whether a client that asks at ``path``, for a stream or not, is answered as somebody was in ``exchange``."""
    kept_path = exchange.path.partition("?")[0].rstrip("/")
    if not kept_path.endswith(path):
        return False
    try:
        asked = parse_payload(exchange.request)
    except ValueError:
        return stream
    return (isinstance(asked, dict) and asked.get("stream") is True) == stream


def of_chunks(
    chunks: Iterable[TimedChunk],
    wanted: Wanted,
    *,
    asked_ms: int | None = None,
    synthesised: bool = False,
) -> Answer:
    """The answer that streams ``chunks``, which are taken as they are needed.

    ``asked_ms`` is when the call was recorded to begin.
    """
    taken = iter(chunks)
    first = next(taken, None)
    if first is None:
        return Answer(None, (), Body(end="silence"), asked_ms)
    if isinstance(first.chunk, FinishChunk):
        early = _before_the_stream(first.time_ms, first.chunk, wanted.dialect)
        if early is not None:
            return Answer(early.status, early.headers, early.body, asked_ms)
    marks = (SYNTHESISED,) if synthesised else ()
    heard = _Heard(chain([first], taken), keeps_usage=wanted.usage or not wanted.stream)
    if wanted.stream:
        return Answer(200, (*STREAM_HEADERS, *marks), _Stream(heard, wanted), asked_ms)
    whole = _whole(heard, wanted)
    return Answer(whole.status, (*whole.headers, *marks), whole.body, asked_ms)


def of_entry(entry: Entry, wanted: Wanted, folder: Path) -> Answer:
    """The answer that an entry of a script asks for, its placeholders filled in.

    A failure before any chunk is told by a status, unless it is one of the connection. Files are meant from ``folder``.
    """
    match entry:
        case Chunks(chunks=chunks):
            ready = None
        case Throw(chunks=chunks, message=message, code=code):
            failure = Failure(message=message, code=code)
            if not chunks and code not in _TOLD_BY_STREAMS:
                failure = Failure(message=message, code=code, status=wanted.dialect.error(failure).status)
            chunks, ready = (*chunks, FinishChunk(FinishError(failure=failure))), None
        case Hang(ready_file=name):
            chunks, ready = PARTIAL, None if name is None else folder / name
    answer = of_chunks((TimedChunk(0, chunk) for chunk in chunks), wanted)
    return dataclasses.replace(answer, ready_file=ready)


def of_failure(failure: Failure, dialect: ProviderDialect, time_ms: int | None = None) -> Answer:
    """The answer of HTTP that tells of ``failure``, with its own status where it has one that is no success."""
    told = dialect.error(failure)
    status = failure.status if failure.status is not None and 300 <= failure.status <= 599 else told.status
    return of_json(status, told.body, tuple(told.headers.items()), time_ms)


def of_json(
    status: int, body: Any, headers: tuple[tuple[str, str], ...] = (), time_ms: int | None = None
) -> Answer:
    """The answer that is one JSON value."""
    piece = TimedPiece(time_ms, json_text.dumps(body))
    size = ("content-length", str(len(piece.data)))
    return Answer(status, (*JSON_HEADERS, size, *sound(headers)), Body([piece]))


def sound(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers that can be sent: what a log holds may be anything."""
    return tuple(
        (name, value.strip(" \t")) for name, value in headers if _PRINTABLE.fullmatch(value) is not None
    )


class _Heard:
    """Chunks on their way to an encoder: when each came, and the last one."""

    def __init__(self, chunks: Iterable[TimedChunk], *, keeps_usage: bool) -> None:
        self._chunks = chunks
        self._keeps_usage = keeps_usage
        self.times = array("q")
        self.last: Chunk | None = None

    def __iter__(self) -> Iterator[Chunk]:
        for time_ms, chunk in self._chunks:
            if isinstance(chunk, UsageChunk) and not self._keeps_usage:
                continue
            self.times.append(time_ms)
            self.last = chunk
            yield chunk

    @property
    def failure(self) -> Failure | None:
        """The failure that ended them."""
        return _failure(self.last)

    @property
    def end(self) -> End:
        """How the connection ends with them."""
        if not isinstance(self.last, FinishChunk) or isinstance(self.last.reason, FinishAborted):
            return "silence"
        code = self.failure.code if self.failure is not None else ""
        return "reset" if code == "TRANSPORT" else "silence" if code in _SILENT else "complete"


class _Stream(Body):
    """The events of an answer."""

    def __init__(self, heard: _Heard, wanted: Wanted) -> None:
        super().__init__()
        self._heard = heard
        self._wanted = wanted

    def __iter__(self) -> Iterator[TimedPiece]:
        heard, wanted = self._heard, self._wanted
        silent = True
        for taken, event in wanted.dialect.encode(heard, model=wanted.model, id=wanted.id):
            silent = False
            yield TimedPiece(heard.times[taken - 1], encode_event(event))
        failure = heard.failure
        if failure is not None and failure.status is not None:
            # One of HTTP, and yet chunks came before it: no format tells that in its stream.
            yield TimedPiece(heard.times[-1], encode_event(wanted.dialect.error_event(failure)))
        elif silent:
            yield TimedPiece(heard.times[-1], _SIGN_OF_LIFE)
        self.end = heard.end


def _before_the_stream(time_ms: int, finish: FinishChunk, dialect: ProviderDialect) -> Answer | None:
    """The answer to a call of which nothing came but its failure; None for one that a stream tells."""
    failure = _failure(finish)
    if failure is None:
        return None
    if isinstance(finish.reason, FinishAborted) or failure.code in _SILENT:
        return Answer(None, (), Body(end="silence"))
    if failure.code == "TRANSPORT":
        return Answer(None, (), Body([TimedPiece(time_ms, b"")], "reset"))
    if failure.status is None:
        return None
    if failure.code == "EMPTY_RESPONSE" and 200 <= failure.status <= 299:
        return Answer(failure.status, (("content-length", "0"),), Body([TimedPiece(time_ms, b"")]))
    return of_failure(failure, dialect, time_ms)


def _whole(heard: _Heard, wanted: Wanted) -> Answer:
    """The answer as one object, or what becomes of its failure."""
    try:
        whole = wanted.dialect.encode_whole(heard, model=wanted.model, id=wanted.id)
    except AdapterError as error:
        time_ms = heard.times[-1]
        if heard.end == "complete" and error.code != "STREAM_CLOSED":
            return of_failure(error.failure, wanted.dialect, time_ms)
        return Answer(
            None, (), Body([TimedPiece(time_ms, b"")], "silence" if heard.end == "silence" else "reset")
        )
    return of_json(200, whole, time_ms=heard.times[-1])


def _failure(chunk: Chunk | None) -> Failure | None:
    match chunk:
        case FinishChunk(reason=FinishError(failure=failure) | FinishAborted(failure=failure)):
            return failure
        case _:
            return None
