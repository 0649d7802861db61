"""Engines and transactions: SQLite and PostgreSQL through one door.

SQL on hot paths is driver SQL with ``?`` for parameters; ``Link`` spells them for the engine in use. A write
transaction takes the write lock of SQLite at once (``BEGIN IMMEDIATE``), so it never fails halfway for want of
it. Foreign errors become ours here, and nowhere else.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, CursorResult, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool

from playhead.eventstore.errors import StoreUnavailable, UsageError
from playhead.eventstore.feed import Bell

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for another one before it gives up."""

_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]+)?")


def store_url(address: str) -> URL:
    """The URL of a store address: a URL, or the path of a SQLite file. Raises ``UsageError`` for any other.

    The URL of a SQLite store may say how many seconds to wait for another writer: ``sqlite:///FILE?timeout=5``.
    """
    if "://" not in address:
        return URL.create("sqlite", database=address)
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise UsageError(f"{address!r} is not a store address: {error}") from None
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise UsageError(f"{address!r}: a store is SQLite (sqlite:///file) or PostgreSQL (postgresql://...)")
    _require_known_options(address, url)
    return url.set(drivername="sqlite")


def _require_known_options(address: str, url: URL) -> None:
    for name, value in url.query.items():
        if name != "timeout":
            raise UsageError(f"{address!r}: a SQLite store has no option {name!r}; there is timeout=SECONDS")
        if not isinstance(value, str) or not _SECONDS.fullmatch(value):
            raise UsageError(f"{address!r}: timeout takes a number of seconds")


def make_engine(url: URL) -> Engine:
    """An engine with our settings; nothing is opened yet."""
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        return create_engine(url, pool_size=8, max_overflow=24)
    except ImportError as error:  # also where psycopg is there and its libpq is not
        raise StoreUnavailable(
            f"PostgreSQL needs psycopg, which cannot be loaded ({error}); pip install 'playhead[postgres]'"
        ) from error


def is_memory(url: URL) -> bool:
    """True for a SQLite store that lives and dies with its engine."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def _sqlite(url: URL) -> Engine:
    url = url.update_query_dict({"timeout": url.query.get("timeout", str(BUSY_TIMEOUT_MS / 1000))})
    options: dict[str, Any] = {"connect_args": {"check_same_thread": False}}
    if is_memory(url):
        options["poolclass"] = StaticPool
    engine = create_engine(url, **options)

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where we say, not where sqlite3 guesses
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("playhead_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@lru_cache(maxsize=512)
def _pyformat(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


class Link:
    """One open transaction, with driver SQL spelled for its engine."""

    __slots__ = ("_postgres", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._postgres = connection.dialect.name == "postgresql"

    @property
    def postgres(self) -> bool:
        return self._postgres

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; the number of rows it touched."""
        return self.connection.exec_driver_sql(self._spell(sql), tuple(values)).rowcount

    def many(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        """Execute a statement once per row."""
        if rows:
            self.connection.exec_driver_sql(self._spell(sql), rows)

    def all(self, sql: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """All rows of a query."""
        return self.connection.exec_driver_sql(self._spell(sql), tuple(values)).fetchall()

    def each(self, sql: str, values: Sequence[Any] = ()) -> CursorResult[Any]:
        """The rows of a query one by one; use it in ``with``. Where the engine can, it works only as far as is read."""
        return self.connection.exec_driver_sql(self._spell(sql), tuple(values))

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first row of a query, or None."""
        return self.connection.exec_driver_sql(self._spell(sql), tuple(values)).fetchone()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """What an error inside takes back, and no more; the transaction can go on behind it.

        Raises ``StoreUnavailable`` where the engine cannot go on at all.
        """
        try:
            with self.connection.begin_nested():
                yield
        except OperationalError as error:
            raise StoreUnavailable(_reason(error)) from error

    def _spell(self, sql: str) -> str:
        return _pyformat(sql) if self._postgres else sql


Reads = Callable[[], AbstractContextManager[Link]]
"""Gives a transaction to read in: ``Database.read`` a new one each time, ``held`` an open one."""


def held(link: Link) -> Reads:
    """Reads that all happen in the transaction of ``link``, and so see one state."""
    return lambda: nullcontext(link)


class Database:
    """An engine, and the two kinds of transaction."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.engine = make_engine(url)
        self.bell = Bell()
        # SQLite admits one writer; waiting here costs less than waiting in its busy loop. An in-memory store
        # has one connection, which threads must not share inside a transaction.
        self._writers = threading.RLock()
        self._readers: threading.RLock | None = self._writers if is_memory(url) else None
        self._is_gone = False

    @contextmanager
    def write(self) -> Iterator[Link]:
        """A transaction that writes: all of it, or nothing."""
        sqlite = self.engine.dialect.name == "sqlite"
        if sqlite:
            self._writers.acquire()
        try:
            with (
                self._mapped(),
                self.engine.connect().execution_options(playhead_writes=True) as connection,
                connection.begin(),
            ):
                yield Link(connection)
            self.bell.ring()
        finally:
            if sqlite:
                self._writers.release()

    @contextmanager
    def read(self) -> Iterator[Link]:
        """A transaction that reads. On SQLite it sees one state; on PostgreSQL each statement sees its moment's."""
        if self._readers:
            self._readers.acquire()
        try:
            with (
                self._mapped(),
                self.engine.connect().execution_options(playhead_writes=False) as connection,
                connection.begin(),
            ):
                yield Link(connection)
        finally:
            if self._readers:
                self._readers.release()

    @contextmanager
    def snapshot(self) -> Iterator[Link]:
        """A transaction in which every statement sees the state as of the first."""
        with self.read() as link:
            if link.postgres:
                link.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield link

    def own_connection(self) -> Any:
        """A connection of the driver that is no part of the pool; who asks for it closes it."""
        with self._mapped():
            held = self.engine.raw_connection()
            connection = held.driver_connection
            held.detach()
            return connection

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            reason = "it was closed, and is gone" if self._is_gone else _reason(error)
            raise StoreUnavailable(f"{self.name}: {reason}") from error
        except DBAPIError as error:
            if "file is not a database" in str(error) or "malformed" in str(error):
                raise StoreUnavailable(f"{self.name}: {_reason(error)}") from error
            raise

    @property
    def name(self) -> str:
        """The store's address without its password."""
        if self.url.get_backend_name() == "sqlite":
            return "the in-memory store" if is_memory(self.url) else str(self.url.database)
        return self.url.render_as_string(hide_password=True)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite store that has one."""
        if self.url.get_backend_name() != "sqlite" or is_memory(self.url):
            return None
        return Path(str(self.url.database))

    def close(self) -> None:
        """Give all connections back. One in memory is gone with this."""
        self._is_gone = is_memory(self.url)
        self.engine.dispose()


def _reason(error: DBAPIError) -> str:
    text = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
    if "locked" in text:
        return "another process holds the store's write lock; try again when it has finished"
    if "lock timeout" in text:
        return "another program keeps what we need to change open; try again when it has finished"
    if "malformed" in text or "not a database" in text:
        return f"{text}; take the store from a copy, or import the logs into a new one"
    if "disk is full" in text or "No space" in text:
        return "the disk is full; nothing of this transaction was kept"
    return text
