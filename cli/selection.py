"""Which events of a log a command shows: a range, types, times, a text, a place on the surface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from playhead.eventstore import envelope
from playhead.projections import search_text, surface
from playhead.projections.event_trace import Placements
from playhead.projections.folding import fold
from playhead.projections.text_filter import TextFilter

if TYPE_CHECKING:
    from playhead.eventstore.recorded import Recorded
    from playhead.eventstore.sql.sql_session import SqlSession


class Place(StrEnum):
    """Where an event stands."""

    current = "current"
    shadowed = "shadowed"
    log_only = "log-only"


@dataclass(frozen=True)
class Selection:
    """What was asked for; None asks for nothing. Seqs are half-open, times inclusive."""

    from_seq: int = 0
    to_seq: int | None = None
    types: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    text: TextFilter | None = None
    place: Place | None = None

    @property
    def is_everything(self) -> bool:
        """True when nothing was asked for."""
        return self == Selection()

    @property
    def read_types(self) -> frozenset[str] | None:
        """The types that can be among the events; None for any."""
        types = self.types
        for possible in (
            search_text.TYPES if self.text is not None else None,
            surface.TYPES if self.place in (Place.current, Place.shadowed) else None,
        ):
            if possible is not None:
                types = possible if types is None else types & possible
        return types

    def of(self, log: SqlSession) -> Selected:
        """The events of ``log`` that fit."""
        seqs = None
        if self.text is not None:
            seqs = frozenset(
                event.seq
                for event in log.events(self.from_seq, self.to_seq, deltas=False)
                if self.text.matches(search_text.of(event))
            )
        placements = None if self.place is None else Placements(fold(log, surface.surface).state)
        return Selected(self, log, seqs, placements)


@dataclass(frozen=True)
class Selected:
    """The events of a log that fit; ``seqs`` are those that hold the text."""

    wanted: Selection
    log: SqlSession
    seqs: frozenset[int] | None
    placements: Placements | None

    def facts(self) -> Iterator[Recorded]:
        """The stored facts."""
        wanted = self.wanted
        return self._fitting(self.log.read(wanted.from_seq, wanted.to_seq, types=wanted.read_types))

    def logical(self) -> Iterator[Recorded]:
        """The logical events."""
        wanted = self.wanted
        types = wanted.read_types
        events = self.log.events(wanted.from_seq, wanted.to_seq)
        return self._fitting(event for event in events if types is None or event.type in types)

    def _fitting(self, events: Iterable[Recorded]) -> Iterator[Recorded]:
        return (event for event in events if self._takes(event.seq, event.time_ms))

    def _takes(self, seq: int, time_ms: int) -> bool:
        wanted = self.wanted
        return (
            (wanted.since_ms is None or time_ms >= wanted.since_ms)
            and (wanted.until_ms is None or time_ms <= wanted.until_ms)
            and (self.seqs is None or seq in self.seqs)
            and (self.placements is None or self.placements.of(seq) == wanted.place)
        )

    def lines(self) -> Iterator[bytes]:
        """The stored lines with a fact that fits; all of them, those without facts too, when nothing was asked for."""
        if self.wanted.is_everything:
            yield from self.log.lines()
            return
        fits = self._fits_line()
        for line in self.log.lines():
            if fits(line):
                yield line

    def _fits_line(self) -> Callable[[bytes], bool]:
        wanted = self.wanted

        def fits(line: bytes) -> bool:
            view = envelope.view(line)
            in_range = view.seq0 + view.n > wanted.from_seq and (
                wanted.to_seq is None or view.seq0 < wanted.to_seq
            )
            if view.n == 0 or not in_range or (wanted.types is not None and view.type not in wanted.types):
                return False
            return any(
                self._takes(fact.seq, fact.time_ms)
                for fact in envelope.facts(line, self.log.id)
                if fact.seq >= wanted.from_seq and (wanted.to_seq is None or fact.seq < wanted.to_seq)
            )

        return fits
