"""The read tables of a build: made, filled, shown and dropped.

A build has tables of its own, ``read_message__v2_b7`` for version 2 and build 7. Readers use the view
``read_message``, which shows the table of the live build; ``show`` switches it. On PostgreSQL a view whose columns
stay is replaced, so that grants and views of others on top of it survive; one whose columns change is made anew.

``json`` columns are of type ``json`` on PostgreSQL, text on SQLite; ``->`` and ``->>`` read both. No column is
declared as a foreign key: what a row refers to stands in logs, and logs break rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from playhead.eventstore.read_table import COMMON_COLUMNS, Column, ReadTable, Row, fitted, fitted_text
from playhead.eventstore.sql import commits, session_row
from playhead.eventstore.sql.builds import LIVE, Build
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.session_row import SessionRow

_ROWS_AT_ONCE = 1000
_PATIENCE_MS = 10_000
_TYPES = {
    True: {"int": "BIGINT", "real": "DOUBLE PRECISION", "text": "TEXT", "bool": "BOOLEAN", "json": "JSON"},
    False: {"int": "INTEGER", "real": "REAL", "text": "TEXT", "bool": "BOOLEAN", "json": "TEXT"},
}


def physical(table: str, build: Build) -> str:
    """The name of the table that holds the rows of ``table`` in this build."""
    return f"{table}__v{build.version}_b{build.id}"


def all_columns(table: ReadTable) -> tuple[Column, ...]:
    """The columns of the table in order, the common ones in front."""
    return (*COMMON_COLUMNS, *table.columns)


# Tables and views


def create(link: Link, build: Build, tables: Iterable[ReadTable]) -> None:
    """Make the tables of a new build, empty."""
    kinds = _TYPES[link.postgres]
    for table in tables:
        name = physical(table.name, build)
        columns = ", ".join(
            f'"{column.name}" {kinds[column.kind]}{"" if column.optional else " NOT NULL"}'
            for column in all_columns(table)
        )
        link.run(f'CREATE TABLE "{name}" ({columns})')
        key = ", ".join(f'"{column}"' for column in dict.fromkeys(("session_id", *table.key)))
        link.run(f'CREATE INDEX "{name}_key" ON "{name}" ({key})')
        link.run(f'CREATE INDEX "{name}_session" ON "{name}" (session)')


def stands(link: Link, build: Build) -> bool:
    """Whether the tables of a build are there, and the views of a live one; anybody may have dropped some."""
    names = {physical(table, build) for table in build.tables}
    if build.status == LIVE:
        names.update(build.tables)
    there = link.all(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = current_schema()"
        if link.postgres
        else "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    )
    return names <= {name for (name,) in there}


def drop(link: Link, build: Build) -> None:
    """Drop the tables of a build that no view shows."""
    _be_patient(link)
    for table in build.tables:
        link.run(f'DROP TABLE IF EXISTS "{physical(table, build)}"')


def show(link: Link, build: Build, tables: Sequence[ReadTable], before: Iterable[Build]) -> None:
    """Let the views show the tables of ``build``; views that only ``before`` has are dropped.

    Raises ``StoreUnavailable`` when a reader on PostgreSQL keeps a view open all the time.
    """
    _be_patient(link)
    for gone in sorted({name for other in before for name in other.tables} - set(build.tables)):
        link.run(f'DROP VIEW IF EXISTS "{gone}"')
    for table in tables:
        columns = all_columns(table)
        names = ", ".join(f'"{column.name}"' for column in columns)
        replaced = link.postgres and _shown(link, table.name) == [column.name for column in columns]
        if not replaced:
            link.run(f'DROP VIEW IF EXISTS "{table.name}"')
        link.run(
            f'CREATE {"OR REPLACE " if replaced else ""}VIEW "{table.name}" ({names}) AS '
            f'SELECT {names} FROM "{physical(table.name, build)}"'
        )
        if link.postgres:
            _describe(link, table)


def _be_patient(link: Link) -> None:
    """Wait for readers that have the table open, but not so long that other readers line up behind us."""
    if link.postgres:
        link.run(f"SET LOCAL lock_timeout = '{_PATIENCE_MS}ms'")


def _shown(link: Link, view: str) -> list[str]:
    """The columns of a view on PostgreSQL, in order; empty where there is none."""
    found = link.all(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position",
        (view,),
    )
    return [name for (name,) in found]


def _describe(link: Link, table: ReadTable) -> None:
    """Let PostgreSQL tell what the view and its columns mean."""
    link.run(f'COMMENT ON VIEW "{table.name}" IS {_quoted(table.meaning)}')
    for column in all_columns(table):
        link.run(f'COMMENT ON COLUMN "{table.name}"."{column.name}" IS {_quoted(column.meaning)}')


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Rows


class Subject(NamedTuple):
    """Whose rows are written."""

    session_id: int
    session: str
    generation: int
    plain: bool


def subject(link: Link, session_id: int) -> tuple[Subject, list[SessionRow]]:
    """The session as its rows name it, and all generations of its id."""
    row = session_row.load(link, session_id)
    same = session_row.of_key(link, row.key)
    return (
        Subject(row.id, fitted_text(row.session)[0], row.generation, session_row.plain(same).id == row.id),
        same,
    )


def write(
    link: Link,
    build: Build,
    tables: Sequence[ReadTable],
    of: Subject,
    rows: Iterable[Row],
    *,
    from_seq: int,
    incomplete: bool,
) -> None:
    """Put ``rows`` in the place of the session's; in tables that are appended to, of those from ``from_seq`` on.

    Raises ``ValueError`` for a row that does not fit its table.
    """
    for table in tables:
        kept = f" AND seq >= {int(from_seq)}" if table.appended and from_seq > 0 else ""
        link.run(f'DELETE FROM "{physical(table.name, build)}" WHERE session_id = ?{kept}', (of.session_id,))
    shapes = {table.name: _Shape(table, physical(table.name, build)) for table in tables}
    rows = iter(rows)
    while page := list(islice(rows, _ROWS_AT_ONCE)):
        positions = _positions(link, of.session_id, {row.seq for row in page})
        values: dict[str, list[tuple[Any, ...]]] = {}
        for row in page:
            shape = shapes.get(row.table)
            if shape is None:
                raise ValueError(f"{build.name} has no table {row.table}")
            values.setdefault(row.table, []).append(shape.values(of, row, positions.get(row.seq), incomplete))
        for name, found in values.items():
            link.many(shapes[name].insert, found)


class _Shape:
    """How rows of a table become values."""

    def __init__(self, table: ReadTable, name: str) -> None:
        self._columns = [(column, column.name in table.key) for column in table.columns]
        self._name = table.name
        names = ", ".join(f'"{column.name}"' for column in all_columns(table))
        places = ", ".join("?" * len(all_columns(table)))
        self.insert = f'INSERT INTO "{name}" ({names}) VALUES ({places})'

    def values(self, of: Subject, row: Row, position: int | None, incomplete: bool) -> tuple[Any, ...]:
        if len(row.values) != len(self._columns):
            raise ValueError(f"{self._name}: {len(row.values)} values for {len(self._columns)} columns")
        lossy = False
        held = []
        for (column, in_key), value in zip(self._columns, row.values, strict=True):
            kept, changed = fitted(column, value, in_key=in_key)
            lossy |= changed
            held.append(kept)
        return (*of, row.seq, position, incomplete, lossy, *held)


def _positions(link: Link, session_id: int, seqs: set[int]) -> dict[int, int]:
    """The positions of ``seqs``; those that the commit log does not know are left out."""
    found: dict[int, int] = {}
    page: list[commits.Commit] = []
    at = 0
    for seq in sorted(seqs):
        while at < len(page) and page[at].seq0 + page[at].n <= seq:
            at += 1
        if at == len(page):
            page, at = commits.page_of_session(link, session_id, seq), 0
        if at < len(page) and page[at].seq0 <= seq:
            found[seq] = page[at].pos0 + seq - page[at].seq0
    return found


def mark_incomplete(
    link: Link, build: Build, tables: Iterable[ReadTable], session_id: int, incomplete: bool
) -> None:
    """Set ``incomplete`` on all rows of a session."""
    for table in tables:
        link.run(
            f'UPDATE "{physical(table.name, build)}" SET incomplete = ? WHERE session_id = ?',
            (incomplete, session_id),
        )


def mark_plain(link: Link, build: Build, tables: Iterable[ReadTable], generations: list[SessionRow]) -> None:
    """Set ``plain`` on the rows of all generations of an id, as it is now."""
    plain = session_row.plain(generations).id
    for table in tables:
        name = physical(table.name, build)
        for row in generations:
            is_plain = row.id == plain
            link.run(
                f'UPDATE "{name}" SET plain = ? WHERE session_id = ? AND plain <> ?',
                (is_plain, row.id, is_plain),
            )


def count(link: Link, build: Build) -> int:
    """How many rows the tables of a build have."""
    return sum(int(link.one(f'SELECT count(*) FROM "{physical(name, build)}"')[0]) for name in build.tables)
