"""The event of a session that holds a text best.

Better is: the more often it holds it, then the shorter its text, then the later, then the higher its seq.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from playhead.eventstore.recorded import Recorded
from playhead.projections import search_text
from playhead.projections.text_filter import SNIPPET_CHARS, TextFilter, snippet


@dataclass(frozen=True, slots=True)
class Match:
    """The best event of a session, in which the text is found ``times``; ``events`` of the session hold it."""

    seq: int
    type: str
    time_ms: int
    times: int
    events: int
    chars: int
    snippet: str

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Lower is better."""
        return (-self.times, self.chars, -self.time_ms, -self.seq)


def best_match(
    events: Iterable[Recorded], wanted: TextFilter, max_chars: int = SNIPPET_CHARS
) -> Match | None:
    """The best of ``events``; None where none of them holds the text."""
    best: tuple[tuple[int, int, int, int], Recorded, str, int] | None = None
    found = 0
    for event in events:
        text = search_text.of(event)
        hits = wanted.hits(text) if text else None
        if hits is None:
            continue
        found += 1
        rank = (-hits.times, len(text), -event.time_ms, -event.seq)
        if best is None or rank < best[0]:
            best = (rank, event, text, hits.first)
    if best is None:
        return None
    rank, event, text, first = best
    return Match(
        event.seq, event.type, event.time_ms, -rank[0], found, len(text), snippet(text, first, max_chars)
    )
