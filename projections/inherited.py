"""Where the part of a log ends that the session took over from its parent.

Up to format 1 the header counts the inherited events. From format 2 on a seeded session has a ``session/end-seed
{inherited: true}`` behind them, and the last one counts: an earlier one is the parent's own, inherited as well.
"""

from __future__ import annotations

from typing import Self

import msgspec

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.projections.folding import Foldable

MARKER = "session/end-seed"
"""The type of the events to hand to ``Inherited.after``."""


class Inherited(msgspec.Struct, frozen=True, rename="camel"):
    """Events before ``to_seq`` are the parent's. ``by_marker`` says that a marker in the log may move it."""

    to_seq: int = 0
    by_marker: bool = False

    @classmethod
    def of(cls, header: SessionHeader) -> Self:
        """What is known before the first event."""
        return cls(header.seed_length or 0, bool(header.is_seeded) and header.version >= 2)

    def after(self, event: Recorded) -> Inherited:
        """The same with what ``event`` says; the same object where it says nothing."""
        if not self.by_marker or members.of(event).get("inherited") is not True:
            return self
        return Inherited(event.seq, by_marker=True)

    def covers(self, seq: int) -> bool:
        """Whether the event at ``seq`` is the parent's."""
        return seq < self.to_seq


def inherited_part(session: Foldable) -> Inherited:
    """What ``session`` took over from its parent; its log is looked through only where a marker may say it."""
    part = Inherited.of(session.header)
    if part.by_marker:
        for event in session.events(deltas=False, without=frozenset(event_types) - {MARKER}):
            if event.type == MARKER:
                part = part.after(event)
    return part
