"""Bringing a store to another schema revision, with Alembic.

The revisions lie in a package that the caller names (``playhead:migrations``): nothing here imports it.
"""

from __future__ import annotations

from sqlalchemy import inspect

from playhead.eventstore.errors import StoreUnavailable
from playhead.eventstore.sql.engine import Database, store_url


def migrate(address: str, scripts: str, *, revision: str = "head") -> tuple[str | None, str | None]:
    """Bring the store at ``address`` to ``revision``, in one transaction; its revisions before and after.

    ``scripts`` is Alembic's script location. An older ``revision`` downgrades; ``base`` leaves no tables.
    Raises ``StoreUnavailable`` where there is no store.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    database = Database(store_url(address))
    if database.file is not None and not database.file.exists():
        raise StoreUnavailable(f"there is no store at {database.file}; `playhead import` makes one")
    config = Config()
    config.set_main_option("script_location", scripts)
    try:
        with database.write() as link:
            if "alembic_version" not in inspect(link.connection).get_table_names() and revision == "head":
                raise StoreUnavailable(f"{database.name} holds no store; `playhead import` makes one")
            before = MigrationContext.configure(link.connection).get_current_revision()
            known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
            if before is not None and before not in known:
                raise StoreUnavailable(
                    f"{database.name} has schema {before}, which this release does not know: use a newer Playhead"
                )
            config.attributes["connection"] = link.connection
            older = revision == "base" or (before is not None and revision != "head" and revision < before)
            (command.downgrade if older else command.upgrade)(config, revision)
            after = MigrationContext.configure(link.connection).get_current_revision()
    finally:
        database.close()
    return before, after
