"""A session as a run of moments, in the order in which somebody who watched it would have seen them.

A moment is a model call that begins, a chunk of it, the end of it, or an event of another kind that was asked for. One
pass over the events gives all of them, in either layout of streams. The order is that of the log, with one exception.
Where a stream lies inside the event that it became (format 2 and later), what happened while it streamed stands in the
log before it. Such an event comes between the chunks again, by its time: but only one that no call waits for, such as a
command or a title (the types in ``_BEFORE_THE_CALL`` are what a call follows from), and only where its time lies within
the stream. A clock that went back moves nothing.

The wait in front of a moment is *idle* unless it lies within a stream: between its first chunk and its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from playhead.eventstore import chunk_rows
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.replay import stream
from playhead.replay.attempt import Attempt, attempts_from
from playhead.replay.part import Part
from playhead.replay.timed_chunk import TimedChunk
from playhead.replay.turn_calls import first_entry

_EMBEDS = 2
"""The first log format in which streams lie inside events."""

_LONGEST_HOLD = 1000
"""So many events wait at most for a stream that they may belong into."""

_BEFORE_THE_CALL = (
    "turn/",
    "step/",
    "user/",
    "system/",
    "developer/",
    "assistant/",
    "tool/",
    "llm/",
    "compaction/",
    "session/end-seed",
)
"""What events begin with that never happen while a model answers the call that they belong to."""


_OF_TOOLS = "tool/"
"""What events begin with that lie between an answer and the end of its step: no request goes out right behind one."""


@dataclass(frozen=True, slots=True)
class Began:
    """A model is called. ``time_ms`` is when the request went out, as near as the log tells."""

    attempt: Attempt
    time_ms: int | None
    idle: bool = True


@dataclass(frozen=True, slots=True)
class Came:
    """A chunk of the answer came."""

    attempt: Attempt
    time_ms: int
    chunk: Chunk
    idle: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """No more comes; ``attempt`` says how it ended. ``chunks`` had come."""

    attempt: Attempt
    time_ms: int | None
    chunks: int
    idle: bool


@dataclass(frozen=True, slots=True)
class Happened:
    """Something else, which was asked for."""

    event: Recorded
    time_ms: int
    idle: bool


CallMoment: TypeAlias = Began | Came | Ended
Moment: TypeAlias = CallMoment | Happened


def is_idle(moment: Moment) -> bool:
    """Whether the gap before ``moment`` belongs to no stream; to hand to ``play``."""
    return moment.idle


def moments(part: Part, shown: Callable[[Recorded], bool]) -> Iterator[Moment]:
    """The moments of ``part`` in order: all of its model calls, and the events for which ``shown`` is true."""
    return _moments(part, shown, frozenset())


def call_moments(part: Part) -> Iterator[CallMoment]:
    """Those of model calls alone. What tools did is not even read."""
    without = {type for type in event_types if type.startswith(_OF_TOOLS)}
    found = _moments(part, lambda _event: False, without)
    return (moment for moment in found if not isinstance(moment, Happened))


def _moments(part: Part, shown: Callable[[Recorded], bool], without: Collection[str]) -> Iterator[Moment]:
    run = _Run(part, shown)
    for event in part.events(part.from_seq, without=without):
        yield from run.after(event)
    yield from run.end()


class _Playing:
    """A model call whose events are being passed."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._place = (attempt.turn, attempt.step)
        self._began = False
        self._chunks = 0
        self._last_ms: int | None = None

    @property
    def streams(self) -> bool:
        """Whether a chunk has come."""
        return self._chunks > 0

    def over_at(self, seq: int) -> bool:
        """Whether the event ``seq``, and what follows, is no part of it."""
        return self.attempt.to_seq is not None and self.attempt.to_seq <= seq

    def embeds(self, event: Recorded) -> bool:
        """Whether ``event`` is the one that the whole call became."""
        return event.seq == self.attempt.seq and event.type in stream.EMBEDDED

    def pieces(self, event: Recorded) -> list[TimedChunk]:
        """The chunks that ``event`` adds."""
        if not self.attempt.has_chunks:
            return []
        found: Iterable[stream.Piece] = ()
        if event.type == chunk_rows.EVENT_TYPE:
            found = (stream.chunk_of(event, self._place),)
        elif self.embeds(event):
            found = stream.embedded_chunks(event)
        return [piece for piece in found if isinstance(piece, TimedChunk)]

    def begin(self, before_ms: int | None) -> Iterator[Moment]:
        """The beginning, once. ``before_ms`` is the time of the event before."""
        if not self._began:
            self._began = True
            self._last_ms = _asked_ms(self.attempt, before_ms)
            yield Began(self.attempt, self._last_ms)

    def take(self, chunk: TimedChunk) -> Came:
        """The moment of ``chunk``."""
        came = Came(self.attempt, chunk.time_ms, chunk.chunk, idle=not self.streams)
        self._chunks += 1
        self._last_ms = chunk.time_ms
        return came

    def end(self) -> Ended:
        """The end."""
        ended_ms = self.attempt.call.ended_ms
        if ended_ms is None or (self._last_ms is not None and ended_ms < self._last_ms):
            ended_ms = self._last_ms
        return Ended(self.attempt, ended_ms, self._chunks, idle=not self.streams)


class _Run:
    """A pass over the events: the calls that it is in, and the events that wait for a stream."""

    def __init__(self, part: Part, shown: Callable[[Recorded], bool]) -> None:
        self._shown = shown
        self._holds = part.header.version >= _EMBEDS
        self._turns = _turns(attempts_from(part, part.entry or first_entry(part)))
        self._coming: deque[Attempt] = deque()
        self._playing: list[_Playing] = []
        self._held: deque[Recorded] = deque()
        self._last_ms: int | None = None

    def after(self, event: Recorded) -> Iterator[Moment]:
        """The moments that ``event`` brings, and those that were waiting for it."""
        if not self._coming and not self._playing:
            self._coming.extend(next(self._turns, ()))
        while self._coming and self._coming[0].from_seq <= event.seq:
            self._playing.append(_Playing(self._coming.popleft()))
        embedded = any(playing.embeds(event) for playing in self._playing)
        waits_for_no_call = not event.type.startswith(_BEFORE_THE_CALL)
        if not waits_for_no_call and not embedded:
            yield from self._released()
        for playing in tuple(self._playing):
            yield from self._passed(playing, event)
        if self._shown(event):
            if self._holds and waits_for_no_call:
                self._held.append(event)
            else:
                yield self._happened(event)
        if len(self._held) > _LONGEST_HOLD:
            yield self._happened(self._held.popleft())
        for playing in tuple(self._playing):
            if playing.over_at(event.seq + 1):
                yield from self._ended(playing)
        self._last_ms = event.time_ms

    def end(self) -> Iterator[Moment]:
        """The moments that are left where the events end."""
        yield from self._released()
        for playing in self._playing:
            yield from playing.begin(self._last_ms)
            yield playing.end()

    def _passed(self, playing: _Playing, event: Recorded) -> Iterator[Moment]:
        """What ``event`` means for a call that has begun by then."""
        chunks = playing.pieces(event)
        if playing.embeds(event):
            yield from self._interleaved(playing, chunks, event.time_ms)
        else:
            for chunk in chunks:
                yield from playing.begin(self._last_ms)
                yield playing.take(chunk)
        if event.seq >= playing.attempt.seq:
            yield from playing.begin(self._last_ms)
        if playing.embeds(event):
            yield from self._ended(playing)

    def _ended(self, playing: _Playing) -> Iterator[Moment]:
        self._playing.remove(playing)
        yield playing.end()

    def _interleaved(self, playing: _Playing, chunks: list[TimedChunk], end_ms: int) -> Iterator[Moment]:
        """The chunks of an embedded stream, and what happened meanwhile, by their times."""
        start_ms = chunks[0].time_ms if chunks else None
        while self._held and not (start_ms is not None and start_ms <= self._held[0].time_ms <= end_ms):
            yield self._happened(self._held.popleft())
        for chunk in chunks:
            while self._held and playing.streams and self._held[0].time_ms < chunk.time_ms:
                yield self._happened(self._held.popleft(), idle=False)
            yield from playing.begin(self._last_ms)
            yield playing.take(chunk)
        while self._held:
            yield self._happened(self._held.popleft(), idle=False)

    def _released(self) -> Iterator[Moment]:
        """What waited, now that no stream came that it belongs into."""
        while self._held:
            yield self._happened(self._held.popleft())

    def _happened(self, event: Recorded, *, idle: bool | None = None) -> Happened:
        within = any(playing.streams for playing in self._playing)
        return Happened(event, event.time_ms, not within if idle is None else idle)


def _turns(found: Iterator[Attempt]) -> Iterator[list[Attempt]]:
    """The calls of one turn after the other, in the order of where their events begin.

    They come in the order in which they end, which differs where one holds another.
    """
    for first in found:
        turn = [first, *islice(found, len(first.turn_calls.calls) - 1)]
        yield sorted(turn, key=lambda attempt: attempt.from_seq)


def _asked_ms(attempt: Attempt, before_ms: int | None) -> int | None:
    """When the request went out: not before the step or the retry was begun, nor before what the log tells first."""
    started_ms = attempt.call.started_ms
    known = (attempt.call.asked_ms, before_ms)
    before = [time for time in known if time is not None and (started_ms is None or time <= started_ms)]
    return max(before, default=started_ms)
