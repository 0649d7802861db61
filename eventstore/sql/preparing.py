"""Making sure that a database holds a store that this release can use."""

from __future__ import annotations

import uuid

from sqlalchemy import inspect

from playhead.eventstore.errors import StoreOutdated, StoreUnavailable
from playhead.eventstore.sql import schema
from playhead.eventstore.sql.engine import Database, Link

_MAKING_A_STORE = 0x706C61796865  # any number that other programs in the database do not lock


def prepare(database: Database, create: bool) -> None:
    """Make sure that a current store is there; ``create`` makes a missing one.

    Raises ``StoreUnavailable`` or ``StoreOutdated`` otherwise, and says which command helps.
    """
    file = database.file
    if file is not None and not file.exists():
        if not create:
            raise StoreUnavailable(f"there is no store at {file}; `playhead import` makes one")
        if not file.parent.is_dir():
            try:
                file.parent.mkdir(parents=True, mode=0o700)
            except OSError as error:
                raise StoreUnavailable(f"cannot make the folder {file.parent}: {error.strerror}") from error
    with database.read() as link:
        tables = set(inspect(link.connection).get_table_names())
        revision = None
        if "alembic_version" in tables:
            found = link.one("SELECT version_num FROM alembic_version")
            revision = found[0] if found else None
        if revision == schema.REVISION:
            return
        if revision is not None:
            hint = (
                "`playhead store upgrade` brings it up to date"
                if _older(revision)
                else "use a newer Playhead"
            )
            raise StoreOutdated(
                f"the store {database.name} has schema {revision}, this release needs {schema.REVISION}: {hint}"
            )
        if tables & set(schema.metadata.tables):
            raise StoreUnavailable(f"{database.name} holds tables of the same names that are not Playhead's")
    if tables and database.file is not None:
        raise StoreUnavailable(f"{database.name} is a SQLite database, but not a Playhead store")
    if not create:
        raise StoreUnavailable(f"{database.name} holds no store; `playhead import` makes one")
    with database.write() as link:
        if link.postgres:
            link.run("SELECT pg_advisory_xact_lock(?)", (_MAKING_A_STORE,))
        if "alembic_version" in inspect(link.connection).get_table_names():
            return  # another process was first
        schema.metadata.create_all(link.connection)
        link.run("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        link.run("INSERT INTO alembic_version (version_num) VALUES (?)", (schema.REVISION,))
        _begin(link)


def _older(revision: str) -> bool:
    return revision < schema.REVISION


def _begin(link: Link) -> None:
    """Write the one row of a new store."""
    link.run(
        "INSERT INTO store (id, format, store_uuid, pos, sessions, artifacts) VALUES (1, ?, ?, 0, 0, 0)",
        (schema.FORMAT, str(uuid.uuid4())),
    )
