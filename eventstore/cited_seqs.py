"""Where the data of an event names other events by seq, and how that follows when events are numbered anew.

====================================================== =============================================
``session/title``, ``session/title-llm-request``       ``messageSeqs``
``compaction/summary``, ``compaction/prune``           ``shadowedSeqs``, ``shadowedRange``
``command/done``                                       ``sourceEventSeq``
``developer/message``                                  ``headerSeq``
====================================================== =============================================

The range of a compaction is the first and the last of its list. Sources and surface operations belong to the envelope
and are not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CITING = {
    "session/title": ("messageSeqs",),
    "session/title-llm-request": ("messageSeqs",),
    "compaction/summary": ("shadowedSeqs", "shadowedRange"),
    "compaction/prune": ("shadowedSeqs", "shadowedRange"),
    "command/done": ("sourceEventSeq",),
    "developer/message": ("headerSeq",),
}
"""The members of ``data`` that hold seqs, by event type."""

SeqOf = Callable[[int], int | None]
"""The new seq of an old one; None for an event that is not there any more."""


def renumbered(type: str, data: Any, seq_of: SeqOf) -> Any:
    """``data`` with every seq that it cites as the new one; the same object where it cites none.

    A seq without a new one is left out: of a list, of a range whose list has none left, or with its member.
    """
    cited = [key for key in CITING.get(type, ()) if isinstance(data, dict) and key in data]
    if not cited:
        return data
    moved = dict(data)
    for key in cited:
        value = data[key]
        if isinstance(value, list):
            moved[key] = _seqs(value, seq_of)
        elif isinstance(value, dict):
            ends = _range(value, seq_of, moved.get("shadowedSeqs"))
            if ends is None:
                del moved[key]
            else:
                moved[key] = ends
        elif _is_seq(value):
            seq = seq_of(value)
            if seq is None:
                del moved[key]
            else:
                moved[key] = seq
    return moved


def _is_seq(value: Any) -> bool:
    return type(value) is int and value >= 0


def _seqs(values: list[Any], seq_of: SeqOf) -> list[Any]:
    moved = [seq_of(value) if _is_seq(value) else value for value in values]
    return [seq for seq in moved if seq is not None]


def _range(ends: dict[str, Any], seq_of: SeqOf, seqs: Any) -> dict[str, Any] | None:
    """The range with its ends as they are now; an end that is gone gives way to the first or last of ``seqs``."""
    moved = {key: seq_of(value) if _is_seq(value) else value for key, value in ends.items()}
    if None not in moved.values():
        return moved
    if not isinstance(seqs, list) or not seqs:
        return None
    return moved | {"start": seqs[0], "end": seqs[-1]}
