"""What wakes a subscription of a SQL store.

Commits of this process ring a bell. Those of other processes show on SQLite in ``PRAGMA data_version``, which is
looked at every few milliseconds, and on PostgreSQL by ``NOTIFY``, which a transaction sends with its commit. All of
them are hints: the truth is what a pull finds.
"""

from __future__ import annotations

import time
from typing import Any, cast

from playhead.eventstore.feed import Bell, Wake
from playhead.eventstore.sql.engine import Database, Link, is_memory

CHANNEL = "playhead_committed"
POLL_S = 0.005


def wake_of(database: Database) -> Wake:
    """A wake for one subscription of this store."""
    if database.engine.dialect.name == "postgresql":
        return Listening(database)
    if is_memory(database.url):
        return database.bell.ear()
    return DataVersion(database, database.bell)


def announce(link: Link) -> None:
    """Tell other processes of this commit, when it happens."""
    if link.postgres:
        link.run(f"NOTIFY {CHANNEL}")


class DataVersion:
    """Watches a SQLite file for commits of others, and the bell for our own."""

    def __init__(self, database: Database, bell: Bell) -> None:
        self._ear = bell.ear()
        self._connection: Any = database.engine.raw_connection()
        self._version = self._look()

    def wait(self, timeout_s: float) -> None:
        """See ``feed.Wake.wait``."""
        until = time.monotonic() + timeout_s
        while (left_s := until - time.monotonic()) > 0:
            before = time.monotonic()
            nap_s = min(POLL_S, left_s)
            self._ear.wait(nap_s)
            if time.monotonic() - before < nap_s:
                return  # the bell rang
            version = self._look()
            if version != self._version:
                self._version = version
                return

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _look(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


class Listening:
    """Hears what PostgreSQL notifies of; a connection of its own listens."""

    def __init__(self, database: Database) -> None:
        held = database.engine.raw_connection()
        self._connection = cast("Any", held.driver_connection)
        held.detach()  # nobody else may get a connection that listens
        self._connection.autocommit = True
        self._connection.execute(f"LISTEN {CHANNEL}")

    def wait(self, timeout_s: float) -> None:
        """See ``feed.Wake.wait``."""
        for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
            return

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
