"""What read tables and checkpoints of a store hold, for comparing."""

from __future__ import annotations

from typing import Any

from playhead.eventstore.sql import SqlStore, builds


def rows(store: SqlStore, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows that the view ``table`` shows, in the order of sessions and seqs; all columns, or those named."""
    names = ", ".join(f'"{name}"' for name in columns) or "*"
    with store.database.read() as link:
        return [
            tuple(row)
            for row in link.all(f'SELECT {names} FROM "{table}" ORDER BY session_id, seq, position')
        ]


def columns(store: SqlStore, table: str) -> list[str]:
    """The columns of a view, in order."""
    from sqlalchemy import inspect

    with store.database.read() as link:
        return [column["name"] for column in inspect(link.connection).get_columns(table)]


def everything(store: SqlStore, name: str) -> dict[str, Any]:
    """All that the live build of a projection holds: rows of its tables, checkpoints, position."""
    with store.database.read() as link:
        (build,) = [build for build in builds.of_name(link, name) if build.status == builds.LIVE]
        ids = [id for (id,) in link.all("SELECT id FROM session ORDER BY id")]
        held: dict[str, Any] = {"checkpoints": {id: builds.checkpoint(link, build.id, id) for id in ids}}
    held["position"] = build.position
    for table in build.tables:
        held[table] = sorted(rows(store, table), key=repr)
    return held


def tables(store: SqlStore) -> set[str]:
    """The names of all tables that hold rows of read models."""
    from sqlalchemy import inspect

    with store.database.read() as link:
        return {name for name in inspect(link.connection).get_table_names() if name.startswith("read_")}
