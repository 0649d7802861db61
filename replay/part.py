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
from playhead.replay.turn_calls import Entry, turn_entries


@dataclass(frozen=True, slots=True)
class Part:
    """The events of ``session`` with ``from_seq <= seq < to_seq``, and a ``Foldable`` of all before ``to_seq``.

    ``entry`` is where a fold of its calls begins; None for the beginning of the log.
    """

    session: Foldable
    from_seq: int = 0
    to_seq: int | None = None
    entry: Entry | None = None

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
    numbers = []
    entries = turn_entries(whole)
    for entry in entries:
        if entry.turn is None:
            continue
        numbers.append(entry.turn)
        if turn is None and entry.turn >= wanted:
            return Part(session, entry.from_seq - 1, whole.to_seq, entry)
        if entry.turn == turn:
            next_entry = next(entries, None)
            to_seq = whole.to_seq if next_entry is None else next_entry.from_seq - 1
            return Part(session, entry.from_seq - 1, to_seq, entry)
    there = f"its turns are {min(numbers)} to {max(numbers)}" if numbers else "it has no turns"
    raise UsageError(f"session {session.header.id!r} has no turn {wanted}: {there}")
