"""Two texts as one, with what differs marked: ``[-gone-]{+new+}``, in colour without the brackets.

Of a long text that is the same on both sides only the ends are kept. Text is safe to print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from playhead.cli import colour
from playhead.cli.colour import paint
from playhead.cli.safe_text import safe
from playhead.eventstore import json_text

if TYPE_CHECKING:
    from playhead.replay.diff_words import WordChange

AROUND = 60
"""So many characters are kept before and behind what differs."""

LONGEST = 400
"""So many characters of what differs are shown."""

_CUT = "…"
_FIRST_WORD = re.compile(r"\S{1,20}(?=\s)")
_LAST_WORD = re.compile(r"(?<=\s)\S{1,20}\Z")
"""What is left of a word where a text is cut."""


class Piece(NamedTuple):
    """A part of the text: in both (``=``), gone (``-``) or new (``+``)."""

    sign: str
    text: str


def pieces(a: str, words: Iterable[WordChange], *, full: bool) -> list[Piece]:
    """The text ``a`` and what another one has in place of ``words``, as pieces. ``full`` shortens nothing."""
    found: list[Piece] = []
    at = 0
    for change in words:
        found.append(Piece("=", _kept(a[at : change.a_at], first=at == 0, full=full)))
        found += [Piece("-", _shortened(change.a, full)), Piece("+", _shortened(change.b, full))]
        at = change.a_at + len(change.a)
    rest = a[at:]
    found.append(Piece("=", rest if full or len(rest) <= AROUND + 1 else _head(rest) + _CUT))
    return [piece for piece in found if piece.text]


def replaced(a: str | None, b: str | None, *, full: bool) -> list[Piece]:
    """One value and the one in its place; None for none."""
    found = [Piece(sign, _shortened(text, full)) for sign, text in (("-", a), ("+", b)) if text is not None]
    return [piece if piece.text else piece._replace(text='""') for piece in found]


def lines(found: Iterable[Piece]) -> Iterator[str]:
    """The pieces as lines of text, marked, as long as they are. A line break that differs is shown as well."""
    line = ""
    for sign, text in found:
        *breaking, last = json_text.whole(text).split("\n")
        for part in breaking:
            yield (line + _marked(sign, part if sign == "=" else part + "\n")).rstrip()
            line = ""
        line += _marked(sign, last)
    if line:
        yield line


def _marked(sign: str, text: str) -> str:
    shown = safe(text)
    if sign == "=" or not shown:
        return shown
    if colour.wanted():
        return paint(shown, "red" if sign == "-" else "green")
    return f"[-{shown}-]" if sign == "-" else "{+" + shown + "+}"


def _kept(text: str, *, first: bool, full: bool) -> str:
    """The ends of a text that is the same on both sides; of one before the first difference only its end."""
    room = AROUND if first else 2 * AROUND
    if full or len(text) <= room + 1:
        return text
    return ("" if first else _head(text)) + _CUT + _tail(text)


def _head(text: str) -> str:
    """The beginning of a text, up to a blank where one is near."""
    cut = _LAST_WORD.search(text[:AROUND])
    return text[: AROUND if cut is None else cut.start()]


def _tail(text: str) -> str:
    """The end of a text, from a blank on where one is near."""
    cut = _FIRST_WORD.match(text[-AROUND:])
    return text[-AROUND + (0 if cut is None else cut.end()) :]


def _shortened(text: str, full: bool) -> str:
    if full or len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}{_CUT} ({len(text) - LONGEST:,} more characters)"
