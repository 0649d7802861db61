"""A session as it stands after a crash repair: cut after one event if asked, with the events that close it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import Foldable, with_closers


@dataclass(frozen=True, slots=True)
class Repaired:
    """A foldable view of ``session``, which ends at ``end_seq`` (exclusive) where that is given."""

    session: Foldable
    end_seq: int | None = None

    @property
    def header(self) -> SessionHeader:
        return self.session.header

    def events(
        self, from_seq: int = 0, to_seq: int | None = None, *, deltas: bool = True
    ) -> Iterator[Recorded]:
        """The events of the session and then those of the repair, within the range."""
        stored = self.session.events(from_seq, self.end_seq, deltas=deltas)
        for event in with_closers(self.session, stored, self.end_seq):
            if to_seq is not None and event.seq >= to_seq:
                return
            if event.seq >= from_seq:
                yield event
