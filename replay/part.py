"""A part of a session: from one turn on, a single turn, or what was there after an event.

A part ends before ``to_seq``, for whoever reads it: what comes later is not there yet, so that a call which was still
streaming then is ``open``. What lies before ``from_seq`` is there, because it has made the state in which the part
begins; it is not played.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import Foldable
from playhead.replay.turn_calls import turn_entries


@dataclass(frozen=True, slots=True)
class Part:
    """The events of ``session`` with ``from_seq <= seq < to_seq``, and a ``Foldable`` of all before ``to_seq``.

    ``from_turn`` is the number of the turn with which it begins; None for the whole.
    """

    session: Foldable
    from_seq: int = 0
    to_seq: int | None = None
    from_turn: int | None = None

    @property
    def header(self) -> SessionHeader:
        return self.session.header

    @property
    def next_seq(self) -> Seq:
        """The seq behind the last event of the part."""
        end = self.session.next_seq
        return end if self.to_seq is None else min(end, Seq(self.to_seq))

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        """The events of the session in this range, as far as the part goes."""
        ends = [seq for seq in (to_seq, self.to_seq) if seq is not None]
        return self.session.events(from_seq, min(ends, default=None), deltas=deltas, without=without)


def part(
    session: Foldable, *, from_turn: int | None = None, turn: int | None = None, at: int | None = None
) -> Part:
    """The part from ``from_turn`` on, or ``turn`` alone and what follows up to the next; not beyond the event ``at``.

    A turn begins with its ``turn/start``. ``from_turn`` is the first with this number or a higher one. Raises
    ``UsageError`` where there is no such turn.
    """
    whole = Part(session, to_seq=None if at is None else at + 1)
    wanted = from_turn if turn is None else turn
    if wanted is None:
        return whole
    begins = None
    numbers = []
    for entry in turn_entries(whole):
        start = entry.from_seq - 1
        if begins is not None:
            return Part(session, begins, start, turn)
        if entry.turn is None:
            continue
        numbers.append(entry.turn)
        if turn is None and entry.turn >= wanted:
            return Part(session, start, whole.to_seq, from_turn)
        if entry.turn == turn:
            begins = start
    if begins is not None:
        return Part(session, begins, whole.to_seq, turn)
    there = f"its turns are {min(numbers)} to {max(numbers)}" if numbers else "it has no turns"
    raise UsageError(f"session {session.header.id!r} has no turn {wanted}: {there}")
