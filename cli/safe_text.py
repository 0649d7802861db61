"""Text from a log, made safe to print.

Ids, paths and messages come from files that anybody may have written. Printed as they are, control characters
could move the cursor or forge lines, and marks of writing direction could hide what stands there.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(unit: re.Match[str]) -> str:
    text = unit.group()
    return _SHORT.get(text) or (f"\\x{ord(text):02x}" if ord(text) < 0x100 else f"\\u{ord(text):04x}")


def safe(text: str, limit: int | None = None) -> str:
    """``text`` on one line, controls and lone surrogates as escapes, cut to ``limit`` characters if given."""
    shown = _UNSAFE.sub(_escape, text if limit is None else text[: limit + 1])
    return shown if limit is None or len(shown) <= limit else shown[: max(limit - 1, 0)] + "…"
