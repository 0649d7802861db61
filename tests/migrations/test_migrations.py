"""Revisions on both engines: up, down, and equal to the declared tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sources import header
from sqlalchemy import inspect
from stores import ENGINES, store_address

from playhead.eventstore.errors import StoreOutdated, StoreUnavailable
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store, schema
from playhead.eventstore.sql.engine import Database, store_url
from playhead.eventstore.sql.upgrading import migrate

SCRIPTS = "playhead:migrations"

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def described(address: str) -> dict[str, object]:
    """Everything an inspector tells of the tables at ``address``, but for Alembic's own."""
    database = Database(store_url(address))
    try:
        inspector = inspect(database.engine)
        return {
            table: {
                "columns": [
                    (column["name"], str(column["type"]), column["nullable"], column["default"])
                    for column in inspector.get_columns(table)
                ],
                "key": inspector.get_pk_constraint(table)["constrained_columns"],
                "foreign": sorted(
                    (key["constrained_columns"], key["referred_table"], key["referred_columns"])
                    for key in inspector.get_foreign_keys(table)
                ),
                "unique": sorted(key["column_names"] for key in inspector.get_unique_constraints(table)),
                "indexes": sorted(
                    (index["name"], index["column_names"]) for index in inspector.get_indexes(table)
                ),
                "options": inspector.get_table_options(table),
            }
            for table in inspector.get_table_names()
            if table != "alembic_version"
        }
    finally:
        database.close()


def emptied(address: str) -> None:
    """A database at ``address`` that Alembic may begin with."""
    open_store(address).close()
    migrate(address, SCRIPTS, revision="base")


def test_migrating_from_empty_gives_the_declared_tables(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as declared, store_address(engine, tmp_path) as migrated:
        open_store(declared).close()
        emptied(migrated)
        assert described(migrated) == {}
        migrate(migrated, SCRIPTS, revision=schema.REVISION)
        assert described(migrated) == described(declared)
        database = Database(store_url(migrated))
        with database.read() as link:
            context = MigrationContext.configure(link.connection, opts={"compare_type": True})
            assert compare_metadata(context, schema.metadata) == []
        database.close()


def test_going_back_behind_exchanges_drops_them_and_keeps_the_log(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address:
        with open_store(address) as store:
            session = store.create(header("s"))
            session.append([NewEvent("x/note", {"n": 1})])
            session.keep_exchange(Exchange("openai-chat", "/chat/completions", b"{}", "timeout", 1, 2))
            heads = store.heads()
        assert migrate(address, SCRIPTS, revision="0002") == (schema.REVISION, "0002")
        with pytest.raises(StoreOutdated):
            open_store(address)
        assert migrate(address, SCRIPTS) == ("0002", schema.REVISION)
        with open_store(address) as store:
            assert store.heads() == heads
            assert list(store.session("s").exchanges()) == []
            assert store.verify() == []


def test_the_declared_revision_is_the_newest_script(engine: str, tmp_path: Path) -> None:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    assert ScriptDirectory.from_config(config).get_current_head() == schema.REVISION
    with store_address(engine, tmp_path) as address:
        open_store(address).close()
        assert migrate(address, SCRIPTS) == (schema.REVISION, schema.REVISION)


def test_an_outdated_store_is_refused_with_the_command_that_helps(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address:
        open_store(address).close()
        database = Database(store_url(address))
        for revision, hint in (("0000", "playhead store upgrade"), ("9999", "newer Playhead")):
            with database.write() as link:
                link.run("UPDATE alembic_version SET version_num = ?", (revision,))
            with pytest.raises(StoreOutdated, match=hint):
                open_store(address)
            with pytest.raises(StoreUnavailable, match="does not know"):
                migrate(address, SCRIPTS)
        database.close()


def test_what_is_no_store_is_left_alone(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address:
        with pytest.raises(StoreUnavailable, match="no store"):
            open_store(address, create=False)
        database = Database(store_url(address))
        with database.write() as link:
            link.run("CREATE TABLE session (somebody TEXT)")
        with pytest.raises(StoreUnavailable, match="not Playhead's"):
            open_store(address)
        with pytest.raises(StoreUnavailable, match="no store"):
            migrate(address, SCRIPTS)
        database.close()
