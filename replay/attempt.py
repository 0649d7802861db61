"""A model call with its chunks: one thing, whichever way a log lays it down.

Boundaries, outcome and usage come from the fold of ``projections/attempt_fold.py``, which reads no deltas; chunks and
request are read when somebody asks, and then only the events of that call. How a call is found without reading the
whole log is told in ``turn_calls.py``, how its chunks lie in a log in ``stream.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from playhead.eventstore import chunk_rows
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import STEP, SUMMARY, CallFailure, Outcome
from playhead.projections.attempt import Attempt as Call
from playhead.projections.folding import Foldable
from playhead.projections.inherited import Inherited, inherited_part
from playhead.projections.requests import Request, request_before
from playhead.replay import stream
from playhead.replay.stream import Piece, StreamProblem
from playhead.replay.timed_chunk import TimedChunk
from playhead.replay.turn_calls import Entry, TurnCalls, first_entry, turn_at, turn_entries, turns_from

Ending: TypeAlias = Literal["finish", "error", "cut", "cancelled", "crashed", "open", "silence"]
"""How the stream of a call ends for who listens; see ``Attempt.ending``."""

BROKEN_CONNECTION = frozenset({"TRANSPORT", "STREAM_CLOSED", "TIMEOUT"})
"""The failure codes which say that the connection ended or stalled, not that the provider said no."""

_ENDINGS: Mapping[Outcome, Ending] = {
    "finished": "finish",
    "failed": "error",
    "cancelled": "cancelled",
    "crashed": "crashed",
    "open": "open",
    "unanswered": "silence",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model call of ``session``. ``call`` says when it was, of whom, how it ended and what it took."""

    session: Foldable
    call: Call
    turn_calls: TurnCalls = field(default=TurnCalls(()), repr=False, compare=False)
    inherited: Inherited = field(default=Inherited(), repr=False, compare=False)

    # Where and how

    @property
    def turn(self) -> int | None:
        return self.call.turn

    @property
    def step(self) -> int | None:
        return self.call.step

    @property
    def number(self) -> int:
        """Which call of its step it is, from 1; 0 for the summary of a compaction."""
        return self.call.number

    @property
    def seq(self) -> int:
        """The event that first shows it, and its name within the session."""
        return self.call.seq

    @property
    def outcome(self) -> Outcome:
        """How it ended, or that the log does not say."""
        return self.call.outcome

    @property
    def failure(self) -> CallFailure | None:
        """Why it failed; None unless it did."""
        return self.call.failure

    @property
    def provider(self) -> str | None:
        return self.call.provider

    @property
    def model(self) -> str | None:
        return self.call.model

    @property
    def is_summary(self) -> bool:
        """True for the call that wrote the summary of a compaction."""
        return self.call.kind == SUMMARY

    @property
    def is_inherited(self) -> bool:
        """True for a call that the parent made, in the part of the log that a fork took over."""
        return self.inherited.covers(self.call.seq)

    @property
    def ending(self) -> Ending:
        """How its stream ends for who listens.

        ``finish``: it said so. ``error``: the provider said no, before or in the stream. ``cut``: the connection
        broke, closed early or stalled. ``cancelled`` and ``crashed``: the listener went away. ``open``: the log does
        not say yet. ``silence``: nothing ever came.
        """
        if self.call.failure is not None and self.call.failure.code in BROKEN_CONNECTION:
            return "cut"
        return _ENDINGS[self.call.outcome]

    # Retries

    @property
    def retries(self) -> tuple[Attempt, ...]:
        """Every call of the same step in order, this one among them: each was made because the one before failed."""
        steps = [call for call in self.turn_calls.calls if call.kind == STEP]
        if self.call not in steps:
            return (self,)
        first = steps.index(self.call) - self.number + 1
        chain = [call for number, call in enumerate(steps[first:], 1) if call.number == number]
        return tuple(replace(self, call=call) for call in chain)

    @property
    def retried_by(self) -> Attempt | None:
        """The call that was made again in its place."""
        return next((other for other in self.retries if other.number == self.number + 1), None)

    @property
    def retry_of(self) -> Attempt | None:
        """The failed call in whose place this one was made."""
        return next((other for other in self.retries if other.number == self.number - 1), None)

    # The events of the call

    @property
    def from_seq(self) -> int:
        """The seq from which on its chunks can lie, or that of the event that holds its stream."""
        return self.turn_calls.begins.get(self.seq, self.call.from_seq)

    @property
    def to_seq(self) -> int | None:
        """The seq behind its chunks or the event that holds them; None where they may still come."""
        in_events = self.seq in self.turn_calls.begins
        return self.call.message_seq if in_events and self.call.message_seq is not None else self.call.to_seq

    def covers(self, seq: int) -> bool:
        """Whether the event ``seq`` is its first, its message, or lies among its chunks."""
        behind = self.to_seq is not None and seq >= self.to_seq
        return seq in (self.seq, self.call.message_seq) or (self.from_seq <= seq and not behind)

    # Chunks

    @property
    def has_chunks(self) -> bool:
        """False for the summary of a compaction, whose stream is in no log, and where nothing came."""
        return not self.is_summary and self.call.outcome != "unanswered"

    def chunks(self, *, strict: bool = False) -> Iterator[TimedChunk]:
        """The chunks in stream order, each with its time. Only the events of the call are read.

        What is no chunk of the call is left out, see ``problems``; ``strict`` raises ``CorruptLog`` for it.
        """
        return self._sound((piece for _, piece in self._pieces()), strict)

    def synthesised_chunks(self, *, strict: bool = False) -> Iterator[TimedChunk]:
        """Chunks that were never recorded: what the call of a summary would have streamed; none for other calls.

        They give the recorded output and usage, not the recorded stream; whoever serves them must say so.
        """
        for event in self.session.events(self.seq, self.seq + 1) if self.is_summary else ():
            yield from self._sound(stream.summary_chunks(event), strict)

    def problems(self) -> Iterator[StreamProblem]:
        """What lies in the stream and is no chunk of the call: malformed, or of another step."""
        for _, piece in self._pieces():
            if isinstance(piece, StreamProblem):
                yield piece

    def _sound(self, pieces: Iterable[Piece], strict: bool) -> Iterator[TimedChunk]:
        for piece in pieces:
            if isinstance(piece, TimedChunk):
                yield piece
            elif strict:
                raise CorruptLog(self.session.header.id, f"seq {piece.seq}: {piece.message}", seq=piece.seq)

    def source_seqs(self) -> tuple[int, ...]:
        """The seqs of the events that hold its chunks: one each, or the one event that holds its stream."""
        return tuple(
            dict.fromkeys(event.seq for event, piece in self._pieces() if isinstance(piece, TimedChunk))
        )

    def _pieces(self) -> Iterator[tuple[Recorded, Piece]]:
        if not self.has_chunks:
            return
        call = self.call
        place = (call.turn, call.step)
        for event in self.session.events(self.from_seq, self.to_seq, without=stream.not_in_streams()):
            if event.type == chunk_rows.EVENT_TYPE:
                yield event, stream.chunk_of(event, place)
            elif event.seq == call.seq:
                for piece in stream.embedded_chunks(event):
                    yield event, piece

    def message(self) -> Recorded | None:
        """The ``assistant/message`` that it became; None where it became none."""
        seq = self.call.message_seq
        return None if seq is None else next(iter(self.session.events(seq, seq + 1)), None)

    # Request

    def request(self) -> Request:
        """What the model was sent: header, system prompt, tools and messages, as the log tells it."""
        return request_before(self.session, self.call.seq)


def attempts(session: Foldable, *, from_turn: int | None = None) -> Iterator[Attempt]:
    """Every model call of ``session`` in order, those that failed or were cut off among them.

    They come turn by turn, as each turn ends. ``from_turn`` begins at the first ``turn/start`` that has this number or
    a higher one, and passes over what lies before.
    """
    entry = first_entry(session)
    if from_turn is not None:
        later = (
            there for there in turn_entries(session) if there.turn is not None and there.turn >= from_turn
        )
        found = next(later, None)
        if found is None:
            return
        entry = found
    yield from attempts_from(session, entry)


def attempts_from(session: Foldable, entry: Entry) -> Iterator[Attempt]:
    """The same from ``entry`` on, for who has looked it up."""
    yield from _attempts(session, turns_from(session, entry))


def attempt_of(session: Foldable, turn: int, step: int, number: int | None = None) -> Attempt | None:
    """The call of this turn, step and number; without ``number`` the last of the step. None where there is none.

    A turn is looked up by the number in its ``turn/start``. Where the call is not there, because the log is not in
    order or has no such call, the whole log is read.
    """
    for entry in turn_entries(session):
        if entry.turn == turn:
            found = _pick(_attempts(session, turn_at(session, entry)), turn, step, number)
            if found is not None:
                return found
    return _pick(attempts(session), turn, step, number)


def attempt_at(session: Foldable, seq: int) -> Attempt | None:
    """The call whose chunks, stream or message the event ``seq`` is, or in whose stream it lies; None for others.

    Only the turn of the event is read.
    """
    entry = first_entry(session)
    for later in turn_entries(session, seq + 1):
        entry = later
    found = _attempts(session, turn_at(session, entry))
    return next((attempt for attempt in found if attempt.covers(seq)), None)


def _attempts(session: Foldable, turns: Iterable[TurnCalls]) -> Iterator[Attempt]:
    inherited = inherited_part(session)
    for turn in turns:
        for call in turn.calls:
            yield Attempt(session, call, turn, inherited)


def _pick(found: Iterable[Attempt], turn: int, step: int, number: int | None) -> Attempt | None:
    """The call of this place and number among ``found``, else the last of the first step that is there."""
    for attempt in found:
        if (attempt.turn, attempt.step) == (turn, step) and not attempt.is_summary:
            if number is None:
                return attempt.retries[-1]
            if attempt.number == number:
                return attempt
    return None
