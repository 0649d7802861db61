"""Text that any database keeps: what a text column cannot hold is written as ``~XXXX``.

NUL and lone surrogates cannot be stored, ``~`` is the escape itself; all three become ``~`` and four
upper-case hex digits. The mapping is one to one.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\0~\ud800-\udfff]")
_ESCAPE = re.compile("~([0-9A-F]{4})")


def escape(text: str) -> str:
    """``text`` as it stands in a column."""
    return _UNSAFE.sub(lambda unit: f"~{ord(unit.group()):04X}", text)


def unescape(stored: str) -> str:
    """The text that ``escape`` turned into ``stored``."""
    return _ESCAPE.sub(lambda unit: chr(int(unit.group(1), 16)), stored)


def escape_optional(text: str | None) -> str | None:
    """``escape`` of a text that may be absent."""
    return None if text is None else escape(text)
