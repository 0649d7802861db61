"""How long something took, where both ends are known and the clock ran forward between them."""

from __future__ import annotations


def span(start_ms: int | None, end_ms: int | None) -> int | None:
    """Milliseconds from ``start_ms`` to ``end_ms``; None for what nobody knows."""
    if start_ms is None or end_ms is None or end_ms < start_ms:
        return None
    return end_ms - start_ms
