"""Text of many lines, made safe to print and wrapped to the width of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

from playhead.cli.safe_text import safe
from playhead.eventstore import json_text

_BREAK = re.compile("\r\n|\n|\r")
_TAB = "    "


def split(text: str) -> list[str]:
    """The lines of ``text``, each safe to print; tabs are four blanks, blank lines at the ends are left out."""
    lines = [
        safe(line.replace("\t", _TAB)).rstrip() for line in _BREAK.split(json_text.whole(text).strip("\r\n"))
    ]
    return lines if any(lines) else []


def wrap(line: str, cells: int | None) -> Iterator[str]:
    """``line`` in pieces of at most ``cells`` terminal cells, broken at a blank where one is near the end.

    What follows the first piece is indented as the line is, up to half the width. None does not wrap.
    """
    if cells is None or cell_len(line) <= cells:
        yield line
        return
    indent = line[: min(len(line) - len(line.lstrip()), cells // 2)]
    rest, lead = line, ""
    while cell_len(lead + rest) > cells:
        room = cells - len(lead)
        piece = chop_cells(rest, room)[0]
        at = piece.rfind(" ")
        if rest[len(piece) : len(piece) + 1] == " ":
            at = len(piece)
        if at < len(piece) // 2:
            at = len(piece)
        yield (lead + rest[:at]).rstrip()
        rest, lead = rest[at:].lstrip(), indent
    if rest:
        yield lead + rest


def clip(line: str, cells: int | None) -> str:
    """``line`` in at most ``cells`` terminal cells, with an ellipsis where it is cut."""
    if cells is None or cell_len(line) <= cells:
        return line
    return chop_cells(line, max(cells - 1, 1))[0].rstrip() + "…"


def clipped(text: str, cells: int | None = None) -> str:
    """``text`` on one line, safe to print, its blanks collapsed, cut as ``clip`` does."""
    return clip(safe(" ".join(json_text.whole(text).split())), cells)
