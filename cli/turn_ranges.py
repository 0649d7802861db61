"""Turns chosen by number: the option ``--turn``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from playhead.eventstore.errors import UsageError

LAST = 2**53
"""The end of a range that has none: no turn has a higher number."""

TurnOption = Annotated[
    list[str] | None,
    typer.Option(metavar="N", help="Only this turn, or a range such as 2-5, 4- or -3; repeatable."),
]


def ranges(words: Iterable[str]) -> list[range]:
    """The turns that were asked for. Raises ``UsageError`` for what is neither a number nor a range."""
    found = []
    for word in words:
        first, dash, last = word.partition("-")
        numbers = [part for part in (first, last) if part]
        if not numbers or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in numbers):
            raise UsageError(f"--turn {word}: give a number, or a range such as 2-5, 4- or -3")
        start = int(first) if first else 0
        end = (int(last) if last else LAST) if dash else start
        if end < start:
            raise UsageError(f"--turn {word} runs backwards")
        found.append(range(start, end + 1))
    return found
