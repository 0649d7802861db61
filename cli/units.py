"""Numbers as people read them: times in local time, sizes, counts."""

from __future__ import annotations

from datetime import datetime


def when(time_ms: int | None, *, precise: bool = False) -> str:
    """``2026-05-04 13:02:11`` in local time, with milliseconds if ``precise``; "-" for no time.

    A time that no calendar holds is given as its number of milliseconds.
    """
    if time_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ms // 1000).replace(microsecond=time_ms % 1000 * 1000)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds" if precise else "seconds")


def duration(span_ms: int | None) -> str:
    """``40 ms``, ``1.5 s``, ``12 s``, ``2 min 3 s``, ``5 h 1 min``, ``3 d 4 h``; "-" for a time nobody knows."""
    if span_ms is None:
        return "-"
    if span_ms < 1000:
        return f"{span_ms} ms"
    if span_ms < 9950:
        return f"{span_ms / 1000:.1f} s"
    seconds = round(span_ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        large, small, big, little = 60, 1, "min", "s"
    elif seconds < 86_400:
        large, small, big, little = 3600, 60, "h", "min"
    else:
        large, small, big, little = 86_400, 3600, "d", "h"
    rest = seconds % large // small
    return f"{seconds // large} {big} {rest} {little}" if rest else f"{seconds // large} {big}"


def size(size_bytes: int) -> str:
    """``999 B``, ``1.5 kB``, ``23 MB``: decimal units, two digits at least."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    value, unit = size_bytes / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def count(number: int, noun: str, nouns: str | None = None) -> str:
    """``1 session``, ``1,234 events``, ``2 discrepancies`` where ``nouns`` says so."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
