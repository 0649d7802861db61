"""White space as JavaScript counts it: what its ``trim`` and ``\\s`` take.

It has the byte order mark and the line separators, and not the separators U+001C to U+001F and U+0085 that Python's
``str.split`` takes.
"""

from __future__ import annotations

import re

BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
RUN = f"[{BLANKS}]+"
"""The pattern of a run of blanks."""

_RUN = re.compile(RUN)


def trim(text: str) -> str:
    """``text`` without blanks at its ends."""
    return text.strip(BLANKS)


def collapse(text: str) -> str:
    """``text`` with every run of blanks as one space."""
    return _RUN.sub(" ", text)


def words(text: str) -> list[str]:
    """The pieces of ``text`` between blanks."""
    return [word for word in _RUN.split(text) if word]
