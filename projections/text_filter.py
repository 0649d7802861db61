"""A literal search: case and the kind of white space do not matter, everything else does.

Case is folded letter by letter (Unicode simple case folding), so that ``ß`` does not match ``SS``. A run of blanks in
the filter matches any run of blanks. Folding keeps the length of a text, so a place found is a place in the original.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from playhead.eventstore.errors import UsageError
from playhead.projections.blanks import RUN, collapse, trim, words

SNIPPET_CHARS = 240
"""The usual length of a snippet in code points."""


class Hits(NamedTuple):
    """How often a text matches, and where it does first."""

    times: int
    first: int


class TextFilter:
    """Looks for one text. Raises ``UsageError`` for a text of blanks only."""

    def __init__(self, text: str) -> None:
        wanted = words(text)
        if not wanted:
            raise UsageError("the text to look for is empty")
        self._pattern = re.compile(RUN.join(re.escape(fold_case(word)) for word in wanted))

    def matches(self, text: str) -> bool:
        """Whether ``text`` holds what is looked for."""
        return self._pattern.search(fold_case(text)) is not None

    def hits(self, text: str) -> Hits | None:
        """How often and where ``text`` holds it; matches do not overlap. None where it does not."""
        places = [found.start() for found in self._pattern.finditer(fold_case(text))]
        return Hits(len(places), places[0]) if places else None


def fold_case(text: str) -> str:
    """``text`` with letters that differ in case only made the same, letter by letter."""
    return text.lower() if text.isascii() else text.translate(_foldings())


@cache
def _foldings() -> dict[int, str]:
    """Code point -> what it folds to, for those that fold to another single one."""
    table = {}
    for code in range(0x20000):
        letter = chr(code)
        folded = letter.casefold()
        if len(folded) != 1:  # what has a full folding only has its simple one in the lower case
            folded = letter.lower()
        if len(folded) == 1 and folded != letter:
            table[code] = folded
    return table


def snippet(text: str, at: int | None = None, max_chars: int = SNIPPET_CHARS) -> str:
    """At most ``max_chars`` code points of ``text`` on one line, the place ``at`` about a third in.

    An ellipsis stands where something is left out.
    """
    line = trim(collapse(text))
    if len(line) <= max_chars:
        return line
    found = len(collapse(text[:at]).lstrip()) if at is not None else 0
    start = max(0, found - max_chars // 3)
    if start == 0 or max_chars < 3:
        return line[: max(max_chars - 1, 0)] + "…"
    if start + max_chars - 1 >= len(line):
        return "…" + line[len(line) - max_chars + 1 :]
    return "…" + line[start : start + max_chars - 2] + "…"
