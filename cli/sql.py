"""``playhead sql``: a question to the store in SQL."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from csv import writer as csv_writer
from decimal import Decimal
from itertools import islice
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from playhead.cli import output, place, table
from playhead.cli.app import DONE, command
from playhead.eventstore import json_text
from playhead.eventstore.errors import UsageError

Rows = Iterable[Sequence[Any]]

_PAGE = 200
"""So many rows are aligned with each other."""

_NARROWEST = 36
"""No cell is cut to less: an id fits."""


@command("sql")
def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A query; - reads it from standard input.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object per row and line.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Comma-separated, the names of the columns first.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="Stop when the answer takes longer.")
    ] = None,
    store: place.StoreOption = None,
) -> int:
    """Answer one SQL query on the read tables and on the facts; nothing is ever changed.

    The tables are described in docs/read-models.md; `playhead project` fills them.
    """
    from playhead.eventstore.sql import querying

    if json and csv:
        raise UsageError("--json and --csv are two forms: choose one")
    if query == "-":
        query = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    show = _show_json if json else _show_csv if csv else _show_table
    try:
        with (
            place.open_store(store) as held,
            querying.answer(held.database, query, timeout_s=timeout) as answer,
        ):
            show(answer.columns, answer.rows)
    except querying.NoSuchTable as error:
        raise UsageError(f"{error}{_how_to_make(error.table)}") from error
    return DONE


def _how_to_make(table: str) -> str:
    """What makes a table that is not there, where it is one that can be made."""
    from playhead.projections import registry

    if table.lower() == "fact":
        return "; the view of the facts is on SQLite: `playhead project events` makes the table read_event"
    for projection in registry.every():
        if table.lower() in (each.name for each in projection.tables):
            named = f" {projection.name}" if projection.on_request else ""
            return f"; `playhead project{named}` makes it"
    return ""


def _show_json(columns: Sequence[str], rows: Rows) -> None:
    names = _different(columns)
    for row in rows:
        output.json_line(dict(zip(names, map(_plain, row), strict=True)))


def _different(columns: Sequence[str]) -> list[str]:
    """The names, with a number behind one that was there before, so that no member of an object is lost."""
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def _show_csv(columns: Sequence[str], rows: Rows) -> None:
    line = io.StringIO()
    write = csv_writer(line, lineterminator="\n").writerow

    def put(cells: Sequence[str]) -> None:
        write(cells)
        output.data(line.getvalue().encode("utf-8", "backslashreplace"))
        line.seek(0)
        line.truncate()

    put(columns)
    for row in rows:
        put([_text(value) for value in row])


def _show_table(columns: Sequence[str], rows: Rows) -> None:
    """Pages of aligned rows with headings for a person, one tab-separated line per row for a program."""
    coming: Iterator[Sequence[Any]] = iter(rows)
    page = list(islice(coming, _PAGE))
    if not page and output.on_terminal():
        table.show(columns, [])
    widest = max(_NARROWEST, get_terminal_size().columns // 3) if output.on_terminal() else None
    while page:
        numbers = [all(_is_number(row[at]) for row in page) for at in range(len(columns))]
        headings = [
            table.NUMBER + name if number else name for name, number in zip(columns, numbers, strict=True)
        ]
        table.show(headings, ([*(_cut(cell, widest) for cell in row[:-1]), _text(row[-1])] for row in page))
        page = list(islice(coming, _PAGE))


def _cut(value: Any, widest: int | None) -> str:
    text = _text(value)
    return text if widest is None or len(text) <= widest else text[: widest - 1] + "…"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def _text(value: Any) -> str:
    """A value as text; "" for NULL, bytes as an SQL literal, whatever has no text of its own as JSON."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"x'{value.hex()}'"
        case list() | dict():
            return json_text.dumps(_plain(value)).decode()
        case Decimal():
            return str(_plain(value))
        case _:
            return str(value)


def _plain(value: Any) -> Any:
    """A value of a database as a JSON value."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            if not value.is_finite():
                return str(value)
            return int(value) if value == value.to_integral_value() else float(value)
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case _:
            return _text(value)
