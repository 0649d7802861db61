"""Titles of sessions: how a text becomes one, and what stands in where nobody gave one.

A title is one line without terminal escapes, control characters and marks of direction or of no width. It is cut
between code points to a number of bytes in UTF-8.
"""

from __future__ import annotations

import re
from typing import Any

from playhead.eventstore import members
from playhead.projections.blanks import collapse, trim, words
from playhead.projections.provenance import is_prompt

TITLE_BYTES = 80
"""The longest title."""

FALLBACK_WORDS = 5
FALLBACK_BYTES = 40
"""How much of the first prompt stands in for a title."""

_ESCAPES = re.compile(
    "(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c|$|(?=\x1b))"  # OSC, ended or not
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    "|\x1b[ -/]*[0-~]?",  # any other escape
    re.DOTALL,
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


def normalize(text: str, max_bytes: int = TITLE_BYTES) -> str:
    """``text`` as a title of at most ``max_bytes``; "" when nothing is left."""
    seen = _INVISIBLE.sub("", _ESCAPES.sub("", text))
    return trim(_cut(trim(collapse(seen)), max_bytes))


def fallback(text: str, max_words: int = FALLBACK_WORDS, max_bytes: int = FALLBACK_BYTES) -> str:
    """The first words of a prompt as a title; "" when nothing of it can be seen."""
    return normalize(" ".join(words(normalize(text, len(text) * 4))[:max_words]), max_bytes)


def prompt_text(message: dict[str, Any]) -> str | None:
    """The text of a message that a person wrote and that has something to be seen; None for any other."""
    if not is_prompt(message.get("source")):
        return None
    blocks = members.objects(message, "content")
    text = "\n".join(members.text(block, "text") or "" for block in blocks if block.get("type") == "text")
    return text if normalize(text) else None


def _cut(text: str, max_bytes: int) -> str:
    """The longest beginning of ``text`` that takes at most ``max_bytes`` in UTF-8."""
    raw = text.encode("utf-8", "surrogatepass")
    end = min(len(raw), max_bytes)
    while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end].decode("utf-8", "surrogatepass")
