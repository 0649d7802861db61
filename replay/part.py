"""A part of a session: from one turn on, a single turn or a range of them, or what was there after an event.

A part ends before ``to_seq``, for whoever reads it: what comes later is not there yet, so that a call which was still
streaming then is ``open``. What lies before ``from_seq`` is there, because it has made the state in which the part
begins; it is not played.
"""

from __future__ import annotations

import math
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
    session: Foldable,
    *,
    from_turn: int | None = None,
    to_turn: int | None = None,
    turn: int | None = None,
    at: int | None = None,
) -> Part:
    """The part from ``from_turn`` to ``to_turn``, or ``turn`` alone; not beyond the event ``at``.

    A turn begins with its ``turn/start``, and what follows it up to the next belongs to it. The part begins at the
    first turn with a number that fits, and ends before the first one behind it with a higher number. Raises
    ``UsageError`` where there is no such turn.
    """
    end = None if at is None else at + 1
    if turn is not None:
        from_turn = to_turn = turn
    if from_turn is None and to_turn is None:
        return Part(session, to_seq=end)
    lowest, highest = from_turn or 0, math.inf if to_turn is None else to_turn
    begun: Entry | None = None
    numbers = []
    for entry in turn_entries(Part(session, to_seq=end)):
        if begun is not None:
            if turn is not None or (entry.turn is not None and entry.turn > highest):
                return Part(session, begun.from_seq - 1, entry.from_seq - 1, begun)
        elif entry.turn is not None:
            numbers.append(entry.turn)
            if lowest <= entry.turn <= highest:
                begun = entry
                if to_turn is None:
                    break
    if begun is not None:
        return Part(session, begun.from_seq - 1, end, begun)
    wanted = lowest if lowest == highest or to_turn is None else f"from {lowest} to {to_turn}"
    up_to = "" if at is None else f" up to seq {at}"
    raise UsageError(f"session {session.header.id!r} has no turn {wanted}{up_to}: {_told(numbers)}")


def _told(turns: list[int]) -> str:
    """Which turns there are."""
    if not turns:
        return "it has no turns there"
    first, last = min(turns), max(turns)
    return f"its only turn is {first}" if first == last else f"its turns are {first} to {last}"
