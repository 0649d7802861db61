"""Where an event stands and what it came from: on the surface or off it, what replaced it, what cites it.

An event is ``current`` when it is on the surface, ``shadowed`` when a replacement took it off, and ``log-only`` when it
never was there, because it has no place on it or breaks a rule of it (``surface.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from playhead.eventstore.recorded import Recorded
from playhead.projections import surface
from playhead.projections.surface import Surface

Placement = Literal["current", "shadowed", "log-only"]


@dataclass(frozen=True, slots=True)
class EventTrace:
    """All seqs. ``replacement_chain`` leads from the immediate replacement to the last one.

    ``replaced`` is what this event took off the surface itself, ``sources`` what it cites, as recorded, and
    ``derived`` the later events that cite it.
    """

    event: Recorded
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
    """Where the events of a log stand, given its surface."""

    def __init__(self, state: Surface) -> None:
        self._current = frozenset(state.seqs)
        self._replaced = {made.seq: made.shadowed for made in state.replacements}
        self._replaced_by = {gone: made.seq for made in state.replacements for gone in made.shadowed}

    def of(self, seq: int) -> Placement:
        """Where the event ``seq`` stands."""
        if seq in self._current:
            return "current"
        return "shadowed" if seq in self._replaced_by else "log-only"

    def chain(self, seq: int) -> tuple[int, ...]:
        """What replaced ``seq``, what replaced that, and so on."""
        chain: list[int] = []
        while (by := self._replaced_by.get(seq)) is not None and by not in chain:
            chain.append(by)
            seq = by
        return tuple(chain)

    def replaced(self, seq: int) -> tuple[int, ...]:
        """What ``seq`` took off the surface itself, in the order of the surface."""
        return self._replaced.get(seq, ())


def trace(events: Iterable[Recorded], seq: int) -> EventTrace | None:
    """The trace of the event ``seq`` in a log; None where the log has no such event.

    ``events`` is the whole log, in order. Token deltas may be left out, except the one that is traced.
    """
    state = Surface()
    found: Recorded | None = None
    derived = []
    for event in events:
        state = surface.apply(state, event)
        if event.seq == seq:
            found = found or event
        elif event.source_seqs and seq in event.source_seqs:
            derived.append(event.seq)
    if found is None:
        return None
    placements = Placements(state)
    return EventTrace(
        found,
        placements.of(seq),
        placements.chain(seq),
        placements.replaced(seq),
        tuple(found.source_seqs or ()),
        tuple(derived),
    )
