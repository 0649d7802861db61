"""The trace of one event, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playhead.cli import output, units
from playhead.cli.safe_text import safe
from playhead.projections.event_trace import EventTrace


def show(trace: EventTrace) -> None:
    """A few lines: what the event is, where it stands, what replaced it, what it cites and what cites it."""
    event = trace.event
    output.line(f"seq {event.seq}  {units.when(event.time_ms, precise=True)}  {safe(event.type)}")
    chain = " -> ".join(map(str, trace.replacement_chain))
    for name, value in (
        ("placement", trace.placement),
        ("replaced by", chain),
        ("replaces", ranges(trace.replaced)),
        ("sources", ranges(trace.sources)),
        ("cited by", ranges(trace.derived)),
    ):
        output.line(f"{name:<12} {value or '-'}")


def ranges(seqs: Sequence[int]) -> str:
    """``3, 8-18``: seqs in their order, neighbours that count up joined."""
    runs: list[list[int]] = []
    for seq in seqs:
        if runs and seq == runs[-1][-1] + 1:
            runs[-1][1:] = [seq]
        else:
            runs.append([seq])
    return ", ".join("-".join(map(str, run)) for run in runs)


def as_json(trace: EventTrace) -> dict[str, Any]:
    """The trace as one JSON object."""
    return {
        "seq": trace.event.seq,
        "type": trace.event.type,
        "time": trace.event.time_ms,
        "surface": trace.placement,
        "replacedBy": trace.replaced_by,
        "replacementChain": list(trace.replacement_chain),
        "replacedEventSeqs": list(trace.replaced),
        "sourceEventSeqs": list(trace.sources),
        "derivedEventSeqs": list(trace.derived),
    }
