"""Text that comes in pieces, laid out as it comes: safe to print, indented, wrapped at blanks.

A terminal shows each piece at once. A word that turns out too long for its line is rubbed out there and written again
on the next one, where the terminal can do that; else it is broken. Blanks and line ends wait for what follows them, so
that none are left at the end. Half of a character that was split over two pieces waits for the other half.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

from playhead.cli.colour import paint
from playhead.cli.safe_text import safe
from playhead.eventstore import json_text

_TOKENS = re.compile(r"\n| +|[^\n ]+")
_TAB = "    "
_NARROWEST = 20
_WIDEST_CHARACTER = 2


class Flow:
    """One paragraph after the other. Every method gives what to write to the terminal next.

    ``width`` is how many cells a line may have; None does not wrap. ``rubs_out`` says that the cursor can be moved.
    """

    def __init__(self, width: int | None = None, *, rubs_out: bool = False) -> None:
        self.resize(width)
        self._rubs_out = rubs_out
        self._lead = self._style = ""
        self._forget()

    def resize(self, width: int | None) -> None:
        """Wrap at ``width`` from now on."""
        self._width = None if width is None else max(width, _NARROWEST)

    def _forget(self) -> None:
        self._cells = 0  # how far the line is written
        self._hanging = ""  # what the lines begin with that go on with this one
        self._word = ""  # what of the last word stands on this line
        self._blanks = self._half = ""
        self._breaks = 0
        self._empty = True
        self._returned = False

    def begin(self, lead: str, style: str = "", *, first: str = "", painted: str = "") -> str:
        """Begin a paragraph in ``style``, whose lines begin with ``lead``.

        ``first``, where it is given, is written at once, in the looks of ``painted``, and text goes on behind it. Else
        nothing is written before there is text.
        """
        ended = self.end()
        self._lead, self._style = lead, style
        if not first:
            return ended
        self._cells, self._hanging, self._empty = cell_len(first), lead, False
        return ended + painted

    def feed(self, text: str) -> str:
        """Go on with ``text``."""
        text = json_text.whole(self._half + text)
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if self._half:
            text = text[:-1]
        if self._returned:
            text = text.removeprefix("\n")
        if text:
            self._returned = text.endswith("\r")
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", _TAB)
        return "".join(self._taken(token) for token in _TOKENS.findall(text))

    def end(self) -> str:
        """End the paragraph, and its line."""
        rest = self._written(safe(self._half)) if self._half else ""
        ended = rest + ("\n" if self._cells else "")
        self._forget()
        return ended

    def _taken(self, token: str) -> str:
        if token == "\n":
            self._breaks += not self._empty
            self._blanks = ""
            return ""
        if token[0] == " ":
            self._blanks += token
            return ""
        return self._written(safe(token))

    def _written(self, word: str) -> str:
        """What puts ``word``, or a piece of one, behind what stands there."""
        out = ""
        if not self._cells or self._breaks:
            out = self._broken()
        elif self._blanks and self._fits(self._blanks + word):
            out, self._word = self._put(self._blanks), ""
        elif self._blanks:
            out = "\n" + self._new_line()
        elif not self._fits(word) and self._cells > cell_len(self._hanging):
            kept = cell_len(self._word)
            if not kept or (self._rubs_out and kept * 2 <= self._room(self._hanging)):
                out = (f"\x1b[{kept}D\x1b[K" if kept else "") + "\n"
                word = self._word + word
                out += self._new_line()
        self._blanks, self._empty = "", False
        while not self._fits(word):
            room = self._room("") - self._cells
            piece = chop_cells(word, room)[0] if room >= _WIDEST_CHARACTER else ""
            word = word[len(piece) :]
            out += self._put(piece) + "\n" + self._new_line()
        self._word += word
        return out + self._put(word)

    def _broken(self) -> str:
        """The line ends that wait, and the front of a line that begins as the text wants it."""
        between = paint(self._lead.rstrip(), self._style) + "\n"
        out = "\n" + between * (self._breaks - 1) if self._breaks else ""
        self._breaks = 0
        most = len(self._blanks) if self._width is None else self._room(self._lead) // 2
        self._hanging = self._lead + self._blanks[:most]
        return out + self._new_line()

    def _new_line(self) -> str:
        self._cells, self._word = cell_len(self._hanging), ""
        return paint(self._hanging, self._style) if self._hanging.strip() else self._hanging

    def _put(self, text: str) -> str:
        self._cells += cell_len(text)
        return paint(text, self._style)

    def _room(self, lead: str) -> int:
        """The cells behind ``lead``."""
        return 0 if self._width is None else self._width - cell_len(lead)

    def _fits(self, text: str) -> bool:
        return self._width is None or self._cells + cell_len(text) <= self._width
