"""Text that streams into a place where only whole lines can go: the lines, and the one that is not whole yet.

What is fed is text as ``replay_flow.py`` gives it: styles as SGR sequences, and words that are rubbed out by moving the
cursor back and erasing to the end of the line.
"""

from __future__ import annotations

import re

_RUBBED_OUT = re.compile(r"\x1b\[(\d+)D\x1b\[K")
_STYLE = re.compile(r"\x1b\[[\d;]*m")
_PARTS = re.compile(r"\x1b\[[\d;]*m|.", re.DOTALL)


class Tail:
    """Collects lines; ``line`` is the present one."""

    def __init__(self) -> None:
        self.line = ""
        self._whole: list[str] = []

    def feed(self, text: str) -> None:
        """Go on with ``text``."""
        at = 0
        for rubbed in _RUBBED_OUT.finditer(text):
            self._put(text[at : rubbed.start()])
            self.line = _without_last(self.line, int(rubbed[1]))
            at = rubbed.end()
        self._put(text[at:])

    def insert(self, line: str) -> None:
        """Put a whole line, given without its end, in front of the present one."""
        self._whole.append(line + "\n")

    @property
    def has_lines(self) -> bool:
        """Whether there are whole lines to take."""
        return bool(self._whole)

    def lines(self) -> str:
        """The whole lines that came since the last time, with their ends."""
        taken, self._whole = "".join(self._whole), []
        return taken

    def _put(self, text: str) -> None:
        *whole, self.line = (self.line + text).split("\n")
        self._whole += (line + "\n" for line in whole)


def _without_last(line: str, cells: int) -> str:
    """``line`` without what takes its last ``cells`` cells; styles stay."""
    from rich.cells import cell_len

    parts = _PARTS.findall(line)
    kept: list[str] = []
    while parts:
        part = parts.pop()
        if cells > 0 and not _STYLE.fullmatch(part):
            cells -= cell_len(part)
        else:
            kept.append(part)
    return "".join(reversed(kept))
