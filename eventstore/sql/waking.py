"""What wakes the subscriptions of a SQL store.

Commits of this process ring the bell of its database. Those of other processes show on SQLite in ``PRAGMA
data_version``, which is looked at every few milliseconds, and on PostgreSQL by ``NOTIFY``, which a transaction sends
with its commit. One thread with one connection watches for all subscriptions of a store, as long as there are any, and
rings the bell. All of this is hints: the truth is what a pull finds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from playhead.eventstore.sql.engine import Database, Link, is_memory

log = logging.getLogger("playhead.eventstore")

CHANNEL = "playhead_committed"
POLL_S = 0.005
_LISTEN_S = 0.2
_AGAIN_S = 0.25


def announce(link: Link) -> None:
    """Tell other processes of this commit, when it happens."""
    if link.postgres:
        link.run(f"NOTIFY {CHANNEL}")


class Watch:
    """Rings the bell of ``database`` for commits of other processes, as long as anybody follows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._followers = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self) -> Callable[[], None]:
        """See ``feed.Follow``. Raises ``StoreUnavailable``."""
        if is_memory(self._database.url):
            return lambda: None
        with self._lock:
            if self._followers == 0:
                self._begin(self._sentry())
            self._followers += 1
        return self._leave

    def close(self) -> None:
        """Watch no longer, whoever follows."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _leave(self) -> None:
        with self._lock:
            self._followers -= 1
            if self._followers == 0:
                self._stop.set()

    def _sentry(self) -> Sentry:
        postgres = self._database.engine.dialect.name == "postgresql"
        return Listening(self._database) if postgres else DataVersion(self._database)

    def _begin(self, sentry: Sentry) -> None:
        self._stop = stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(sentry, stop), name="playhead-watch", daemon=True
        )
        self._thread.start()

    def _run(self, sentry: Sentry | None, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if sentry is None:
                    sentry = self._sentry()
                    self._database.bell.ring()  # something may have come while nobody watched
                if sentry.heard(stop):
                    self._database.bell.ring()
            except Exception as error:
                log.warning("%s: commits of others are not heard: %s", self._database.name, error)
                if sentry is not None:
                    sentry.close()
                sentry = None
                self._database.bell.ring()  # whoever reads now learns what is wrong with the database
                stop.wait(_AGAIN_S)
        if sentry is not None:
            sentry.close()


class Sentry(Protocol):
    """One connection that notices commits from when it was made on."""

    def heard(self, stop: threading.Event) -> bool:
        """Wait a moment, at most until ``stop``; whether something was committed."""
        ...

    def close(self) -> None: ...


class DataVersion:
    """Notices that a SQLite file was committed to."""

    def __init__(self, database: Database) -> None:
        self._connection = database.own_connection()
        self._version = self._look()

    def heard(self, stop: threading.Event) -> bool:
        """See ``Sentry.heard``."""
        stop.wait(POLL_S)
        before, self._version = self._version, self._look()
        return self._version != before

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _look(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


class Listening:
    """Hears what PostgreSQL notifies of."""

    def __init__(self, database: Database) -> None:
        self._connection = database.own_connection()
        self._connection.autocommit = True
        self._connection.execute(f"LISTEN {CHANNEL}")

    def heard(self, stop: threading.Event) -> bool:  # noqa: ARG002 - a wait is short
        """See ``Sentry.heard``."""
        return any(True for _ in self._connection.notifies(timeout=_LISTEN_S, stop_after=1))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
