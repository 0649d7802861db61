"""Where an event stands and what it came from: on the surface or off it, what replaced it, what cites it.

The surface is the ordered list of events that the model sees. An event is ``current`` when it is on it, ``shadowed``
when a replacement took it off, and ``log-only`` when it never was there. A replacement whose range is not on the
surface changes nothing, and is itself ``log-only``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from playhead.eventstore.recorded import Recorded, Replace

Placement = Literal["current", "shadowed", "log-only"]


@dataclass(frozen=True, slots=True)
class EventTrace:
    """All seqs. ``replacement_chain`` leads from the immediate replacement to the one that is current.

    ``replaced`` is what this event took off the surface itself, ``sources`` what it cites, as recorded, and
    ``derived`` the later events that cite it.
    """

    seq: int
    placement: Placement
    replacement_chain: tuple[int, ...]
    replaced: tuple[int, ...]
    sources: tuple[int, ...]
    derived: tuple[int, ...]

    @property
    def replaced_by(self) -> int | None:
        """The immediate replacement."""
        return self.replacement_chain[0] if self.replacement_chain else None


class Placements:
    """The surface of a log and what it replaced, as far as the events fed go."""

    def __init__(self, events: Iterable[Recorded] = ()) -> None:
        self._current: list[int] = []
        self._replaced_by: dict[int, int] = {}
        self._replaced: dict[int, Sequence[int]] = {}
        for event in events:
            self.feed(event)

    def feed(self, event: Recorded) -> None:
        """Take the next event of the log."""
        match event.surface_op:
            case "append":
                self._current.append(event.seq)
            case Replace(start, end):
                try:
                    first = self._current.index(start)
                    behind = self._current.index(end, first) + 1
                except ValueError:
                    return
                gone = self._current[first:behind]
                self._current[first:behind] = [event.seq]
                self._replaced[event.seq] = gone
                self._replaced_by.update(dict.fromkeys(gone, event.seq))

    def of(self, seq: int) -> Placement:
        """Where the event ``seq`` stands."""
        if seq in self._replaced_by:
            return "shadowed"
        return "current" if seq in self._current else "log-only"

    def chain(self, seq: int) -> tuple[int, ...]:
        """What replaced ``seq``, what replaced that, and so on."""
        chain = []
        while (by := self._replaced_by.get(seq)) is not None:
            chain.append(by)
            seq = by
        return tuple(chain)

    def replaced(self, seq: int) -> tuple[int, ...]:
        """What ``seq`` took off the surface itself, in the order of the surface."""
        return tuple(self._replaced.get(seq, ()))


def trace(events: Iterable[Recorded], seq: int) -> EventTrace | None:
    """The trace of the event ``seq`` in a log; None where the log has no such event.

    ``events`` is the whole log, in order. Token deltas may be left out, except the one that is traced.
    """
    placements = Placements()
    found = False
    sources: tuple[int, ...] = ()
    derived = []
    for event in events:
        placements.feed(event)
        if event.seq == seq:
            found = True
            sources = tuple(event.source_seqs or ())
        elif event.source_seqs and seq in event.source_seqs:
            derived.append(event.seq)
    if not found:
        return None
    return EventTrace(
        seq, placements.of(seq), placements.chain(seq), placements.replaced(seq), sources, tuple(derived)
    )
