"""The moments of a session while it happens, one event after the other.

The same that ``replay/moments.py`` finds in a log, as far as they can be told at once. How a call ended is told when
the log tells it: a success with its message, a failure with the retry or the end of its step, and what was cancelled
with the end of its turn. A wait before a retry counts as over: whether it will be is not known yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from playhead.cli.replay_items import TYPES
from playhead.eventstore import chunk_rows
from playhead.eventstore.recorded import Recorded
from playhead.projections import attempt_fold
from playhead.projections.attempt import Attempt as Call
from playhead.projections.attempt_fold import HANDLES, Attempts
from playhead.projections.folding import Foldable
from playhead.replay import stream
from playhead.replay.attempt import Attempt
from playhead.replay.moments import Began, Came, Ended, Happened, Moment
from playhead.replay.timed_chunk import TimedChunk

_ENDS = frozenset({"assistant/message", "llm/retry", "step/end", "turn/end"})
"""What settles how a call ended, if anything does."""


class LiveMoments:
    """Knows which model call of ``session`` is under way."""

    def __init__(self, session: Foldable) -> None:
        self._session = session
        self._state = attempt_fold.begin(session.header)
        self._seq: int | None = None  # the call that is shown
        self._chunks = 0

    @property
    def calls(self) -> Attempts:
        """Every call so far."""
        return self._state

    @property
    def latest(self) -> Call | None:
        """The call that is made, waited for, or was made last."""
        state = self._state
        recent = replace(state, turns=state.turns[-1:])
        return next(iter(deque(attempt_fold.calls(recent), maxlen=1)), None)

    def learn(self, event: Recorded) -> None:
        """Take in an event that happened before."""
        if event.type in HANDLES:
            self._state = attempt_fold.after(self._state, event)

    def after(self, event: Recorded) -> Iterator[Moment]:
        """The moments that ``event`` brings."""
        self.learn(event)
        if event.type == chunk_rows.EVENT_TYPE:
            yield from self._chunk(event)
        elif event.type in _ENDS:
            yield from self._ended(event)
        if event.type in TYPES:
            yield Happened(event, event.time_ms, idle=False)

    def _chunk(self, event: Recorded) -> Iterator[Moment]:
        call = self.latest
        if call is None:
            return
        if self._seq is None:
            self._seq, self._chunks = call.seq, 0
            yield Began(Attempt(self._session, call), event.time_ms)
        piece = stream.chunk_of(event, (call.turn, call.step))
        if isinstance(piece, TimedChunk):
            self._chunks += 1
            yield Came(Attempt(self._session, call), event.time_ms, piece.chunk, idle=False)

    def _ended(self, event: Recorded) -> Iterator[Moment]:
        call = self.latest
        if call is None or call.to_seq is None:
            return
        if self._seq is None:
            if event.type != "turn/end" or call.outcome != "unanswered" or call.turn != self._turn_of(event):
                return
            yield Began(Attempt(self._session, call), event.time_ms)
        elif call.outcome == "open":
            return  # the end of the turn says what became of it
        if call.retry is not None:
            call = replace(call, retry=replace(call.retry, started_ms=event.time_ms))
        chunks, self._seq, self._chunks = self._chunks, None, 0
        yield Ended(Attempt(self._session, call), event.time_ms, chunks, idle=False)

    def _turn_of(self, event: Recorded) -> object:
        return event.json.get("turn")
