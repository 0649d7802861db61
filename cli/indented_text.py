"""Text below a heading: indented, wrapped to the width of a terminal, long things cut to their first lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from playhead.cli import units
from playhead.cli.colour import paint
from playhead.cli.paragraphs import clip, clipped, split, wrap
from playhead.cli.transcript_words import mark_words
from playhead.projections.transcript_items import Mark

INDENT = 2
"""So many blanks stand before what is said below a heading."""

RESULT_LINES = 5
"""So many lines are shown of what a tool gave back."""

SUMMARY_LINES = 4
"""So many of what a compaction made of the messages before it."""

_NARROWEST = 20
_UNWRAPPED = 500


@dataclass(frozen=True, slots=True)
class IndentedText:
    """Makes lines. ``width`` is that of the terminal, None where lines are not wrapped; ``full`` cuts nothing."""

    width: int | None
    full: bool

    def room(self, indent: int) -> int | None:
        """The cells behind the indent; None where they are not counted."""
        return None if self.width is None else max(self.width - indent, _NARROWEST)

    def most(self, indent: int, lines: int = 1) -> int:
        """The cells that something cut to so many lines may take."""
        room = self.room(indent)
        return _UNWRAPPED if room is None else room * lines

    def wrapped(self, line: str, indent: int, style: str = "") -> Iterator[str]:
        """One line, safe to print, in pieces."""
        for piece in wrap(line, self.room(indent)):
            yield " " * indent + paint(piece, style) if piece else ""

    def block(self, text: str, style: str) -> Iterator[str]:
        """Any text as one paragraph."""
        return self.wrapped(clipped(text), INDENT, style)

    def text(self, text: str, style: str = "") -> Iterator[str]:
        """Any text with its line breaks."""
        for line in split(text):
            yield from self.wrapped(line, INDENT, style)

    def cut(self, text: str, indent: int, limit: int) -> Iterator[str]:
        """Its first lines, ``limit`` of them, and how much more there is."""
        lines = split(text)
        shown = lines if self.full else lines[:limit]
        cut = [line if self.full else clip(line, self.most(indent, limit)) for line in shown]
        for line in cut:
            yield from self.wrapped(line, indent, "dim")
        if cut != lines:
            more = units.count(len(lines) - len(shown), "more line") + ", " if len(shown) < len(lines) else ""
            yield from self.wrapped(f"… {more}{len(text):,} characters in all", indent, "dim")

    def mark(self, mark: Mark) -> Iterator[str]:
        """A mark: what it is, and below it what more there is to say."""
        first, *rest = mark_words(mark)
        yield from self.wrapped(first, INDENT, "red" if mark.is_error else "dim")
        for line in rest:
            yield from self.wrapped(line, INDENT + 2, "dim")
