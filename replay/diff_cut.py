"""A session as it was after one of its events."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import Foldable


@dataclass(frozen=True, slots=True)
class Cut:
    """A foldable view of ``session`` that ends at ``end_seq`` (exclusive)."""

    session: Foldable
    end_seq: int

    @property
    def header(self) -> SessionHeader:
        return self.session.header

    @property
    def next_seq(self) -> Seq:
        return Seq(min(self.end_seq, self.session.next_seq))

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        """The events of the session within the range and before the cut."""
        end_seq = self.end_seq if to_seq is None else min(to_seq, self.end_seq)
        return self.session.events(from_seq, end_seq, deltas=deltas, without=without)
