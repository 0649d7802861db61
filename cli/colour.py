"""Colour for people: on a terminal that shows it, unless ``NO_COLOR`` is set."""

from __future__ import annotations

import os

from playhead.cli import output

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


def wanted() -> bool:
    """Whether stdout may be coloured."""
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return output.on_terminal() and not dumb and not os.environ.get("NO_COLOR")


def paint(text: str, style: str) -> str:
    """``text`` in a style (words such as ``bold red``) where colour is wanted, else as it is."""
    if not text or not style or not wanted():
        return text
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"
