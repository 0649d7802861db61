"""The verification of the database itself: its pages, and that every cell holds what its column is for.

SQLite keeps a value of any type in any column, and its functions on text turn bytes into text: whoever changes a line
by hand leaves text where bytes were. Nothing can be read from such a row, so that these checks come before all others;
where one finds something, the rest of the store waits until that is put right. PostgreSQL lets neither happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Column, LargeBinary, Table, Text

from playhead.eventstore.sql import schema
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.problem import Problem

_TABLES = (
    schema.store,
    schema.session,
    schema.commit_log,
    schema.event_type,
    schema.event,
    schema.segment,
    schema.artifact,
    schema.artifact_part,
    schema.exchange,
)
_OWNER = {schema.session.name: "id"}
_LINES = {schema.event.name: ("line_no", "line_no + 1"), schema.segment.name: ("line0", "line0 + lines")}
"""Where a table has lines: the first of a row, and the one behind its last."""

_MOST = 20
"""So many damages of pages are told; each row of a damaged one is another."""


class _Kind(NamedTuple):
    """What a column may hold: the name that SQLite has for it, and ours."""

    stored: str
    word: str


_WORDS = {"blob": "bytes", "text": "text", "integer": "a number", "real": "a fraction", "null": "nothing"}


def check_pages(link: Link) -> Iterator[Problem]:
    """What the database says of damages to its file."""
    if link.postgres:
        return
    for (told,) in link.all(f"PRAGMA integrity_check({_MOST})"):
        if told != "ok":
            for line in str(told).splitlines():
                yield Problem("database", f"the file of the database is damaged: {line}")


def check_cells(link: Link) -> Iterator[Problem]:
    """Cells that hold what their column is not for, and the row without which there is no store."""
    if link.one("SELECT 1 FROM store WHERE id = 1") is None:
        yield Problem("database", "the row of the table store, which counts what is there, is missing")
    if link.postgres:
        return
    for table in _TABLES:
        wrong = " OR ".join(map(_wrong, table.columns))
        if link.one(f'SELECT 1 FROM "{table.name}" WHERE {wrong} LIMIT 1') is not None:
            for column in table.columns:
                yield from _of_column(link, table, column)


def _of_column(link: Link, table: Table, column: Column[Any]) -> Iterator[Problem]:
    """The problems of one column, one for each session and type that it holds."""
    owner = _OWNER.get(table.name, "session_id" if "session_id" in table.columns else "NULL")
    first, behind = _LINES.get(table.name, ("NULL", "NULL"))
    found = link.all(
        f'SELECT {owner}, typeof("{column.name}"), count(*), min({first}), max({behind}) FROM "{table.name}" '
        f"WHERE {_wrong(column)} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    for row_id, stored, count, line, end in found:
        name, generation = _named(link, row_id)
        rows = "a row" if count == 1 else f"{count} rows"
        message = (
            f"{rows} of the table {table.name} had {_WORDS[stored]} put into the column {column.name}, "
            f"which holds {_kind(column).word}"
        )
        lines = (line + 2, end + 2) if isinstance(line, int) and isinstance(end, int) else (None, None)
        yield Problem("cell-type", message, name, generation, *lines)


def _named(link: Link, row_id: object) -> tuple[str | None, int | None]:
    """Id and generation of the session in this row, as far as it tells them."""
    found = link.one("SELECT key, generation FROM session WHERE id = ?", (row_id,))
    key, generation = found or (None, None)
    return (
        unescape(key) if isinstance(key, str) else None,
        generation if isinstance(generation, int) else None,
    )


def _kind(column: Column[Any]) -> _Kind:
    if isinstance(column.type, LargeBinary):
        return _Kind("blob", "bytes")
    if isinstance(column.type, Text):
        return _Kind("text", "text")
    return _Kind("integer", "numbers")


def _wrong(column: Column[Any]) -> str:
    """The condition for a cell of ``column`` that holds something else."""
    allowed = [_kind(column).stored]
    if column.nullable:
        allowed.append("null")
    return f'typeof("{column.name}") NOT IN ({", ".join(repr(kind) for kind in allowed)})'
