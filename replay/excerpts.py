"""Two JSON values side by side, each cut to the place where they part."""

from __future__ import annotations

from typing import Any

from playhead.eventstore import json_text

_BEFORE, _BEHIND = 24, 40
"""How many characters are shown before and behind the place."""


def spelled(value: Any) -> str:
    """``value`` as JSON text; ``nothing`` for what is not there."""
    return "nothing" if value is None else json_text.dumps(value).decode("utf-8", "replace")


def difference(one: str, other: str) -> tuple[str, str]:
    """Both texts around the first place where they differ; what is left out is marked by an ellipsis."""
    differing = (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    at = next(differing, min(len(one), len(other)))
    return _around(one, at), _around(other, at)


def _around(text: str, at: int) -> str:
    start, end = max(0, at - _BEFORE), at + _BEHIND
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
