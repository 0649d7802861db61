"""Stores on SQLite and PostgreSQL: the only place besides the migrations that knows SQL."""

from playhead.eventstore.sql.store import SqlStore, open_store

__all__ = ["SqlStore", "open_store"]
