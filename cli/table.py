"""A table: aligned with headings for a person, one tab-separated line per row for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from shutil import get_terminal_size

from rich.cells import cell_len, set_cell_size

from playhead.cli import output
from playhead.cli.safe_text import safe

NUMBER = ">"
"""Put before a heading: its column is aligned to the right."""

_GAP = 2
_LEAST = 12


def show(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write the rows to stdout; cells may hold any text. See ``lines`` for a terminal."""
    if output.on_terminal():
        for line in lines(headings, rows):
            output.line(line)
        return
    for row in rows:
        output.line("\t".join(map(safe, row)))


def lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The headings and the rows, aligned for a terminal: one line each.

    The last column is cut to what room there is, to 12 cells at least; no other is cut.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    numbers = [heading.startswith(NUMBER) for heading in headings]
    cells.insert(0, [heading.removeprefix(NUMBER) for heading in headings])
    widths = [max(map(cell_len, column)) for column in zip_longest(*cells, fillvalue="")]
    room = get_terminal_size().columns - sum(widths[:-1]) - _GAP * (len(widths) - 1)
    for row in cells:
        *front, last = row
        aligned = [
            " " * (width - cell_len(cell)) + cell if number else cell + " " * (width - cell_len(cell))
            for cell, width, number in zip(front, widths, numbers, strict=False)
        ]
        if numbers[-1]:
            last = " " * (widths[-1] - cell_len(last)) + last
        yield (" " * _GAP).join([*aligned, _cut(last, max(room, _LEAST))])


def _cut(cell: str, cells: int) -> str:
    """``cell`` in at most ``cells`` terminal cells."""
    return cell if cell_len(cell) <= cells else set_cell_size(cell, cells - 1).rstrip() + "…"
