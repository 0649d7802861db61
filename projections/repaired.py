"""A session as it stands after a crash repair: cut after one event if asked, with the events that close it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import Foldable, closing_events


@dataclass(frozen=True)
class Repaired:
    """A foldable view of ``session``, which ends at ``end_seq`` (exclusive) where that is given.

    Else it ends where the session does when the view is first read.
    """

    session: Foldable
    end_seq: int | None = None

    @cached_property
    def _end_seq(self) -> int:
        last = self.session.next_seq
        return last if self.end_seq is None else min(self.end_seq, last)

    @cached_property
    def _closers(self) -> list[Recorded]:
        return closing_events(self.session, self._end_seq)

    @property
    def header(self) -> SessionHeader:
        return self.session.header

    @property
    def next_seq(self) -> Seq:
        return Seq(self._closers[-1].seq + 1 if self._closers else self._end_seq)

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        """The events of the session and then those of the repair, within the range."""
        end_seq = self.next_seq if to_seq is None else to_seq
        yield from self.session.events(from_seq, min(end_seq, self._end_seq), deltas=deltas, without=without)
        for event in self._closers:
            if from_seq <= event.seq < end_seq and event.type not in without:
                yield event
