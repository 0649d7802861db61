"""Answers to SQL that a user wrote; whatever it says, nothing is changed.

One query at a time: ``SELECT``, ``WITH``, ``VALUES`` or ``EXPLAIN``. SQLite opens the file read-only, and asks for each
thing that a statement would do whether it may; it has the view ``fact`` (``fact_view.py``). PostgreSQL runs it as a
cursor in a read-only transaction; there the facts are in the table ``read_event``, once it has been made. Rows come
as they are asked for, so that an answer of any size takes little memory.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playhead.eventstore.errors import PlayheadError, StoreUnavailable, UsageError
from playhead.eventstore.sql import fact_view
from playhead.eventstore.sql.engine import BUSY_TIMEOUT_MS, Database

if TYPE_CHECKING:
    import psycopg

QUERIES = ("select", "with", "values", "explain")
"""How a query may begin."""

_ONLY_QUERIES = "only queries are answered, nothing is changed"
_BEGINNING = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([a-z]*)", re.DOTALL | re.IGNORECASE)


class QueryTimedOut(PlayheadError):
    """The answer took longer than the caller wanted to wait."""

    code = "query-timed-out"

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(f"the query was stopped: it took longer than {timeout_s:g} s")


class NoSuchTable(UsageError):
    """The query names a ``table`` that is not there."""

    code = "no-such-table"

    def __init__(self, message: str, table: str) -> None:
        self.table = table
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Answer:
    """The names of the columns, and the rows in the order of the query; they can be read once."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def answer(database: Database, sql: str, *, timeout_s: float | None = None) -> Iterator[Answer]:
    """The answer to the query ``sql``; its rows can be read as long as the context lasts.

    Raises ``UsageError`` for what is no query or a wrong one, with the place, and ``NoSuchTable``; ``QueryTimedOut``;
    ``CorruptLog`` when facts that it needs cannot be decoded. Values are None, bool, int, float, str, bytes, or what
    the driver of PostgreSQL makes of other types.
    """
    keyword = _keyword(sql)
    if database.engine.dialect.name == "postgresql":
        with _on_postgres(database, sql, keyword, timeout_s) as found:
            yield found
        return
    if database.file is None:
        raise UsageError("SQL needs a store in a file or on a server, not one in memory")
    with _on_sqlite(database.file, sql, keyword, timeout_s) as found:
        yield found


def _keyword(sql: str) -> str:
    """The word that ``sql`` begins with, in lower case. Raises ``UsageError`` when it does not begin a query."""
    if "\0" in sql or not _is_unicode(sql):
        raise UsageError("the query is not text: it has bytes that are no UTF-8, or NUL")
    found = _BEGINNING.match(sql)
    keyword = found[1].lower() if found else ""
    if keyword not in QUERIES:
        begins = f"begins with {keyword.upper()}" if keyword else "is empty or begins with no word"
        raise UsageError(
            f"{_ONLY_QUERIES}; this one {begins}, "
            f"and a query begins with {', '.join(map(str.upper, QUERIES[:-1]))} or {QUERIES[-1].upper()}"
        )
    return keyword


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_NO_TABLE = re.compile(r"""no such table: (?:\w+\.)?(\w+)|relation "(?:\w+\.)?(\w+)" does not exist""")


def _placed(sql: str, offset: int | None, message: str) -> UsageError:
    """The error of a query, with the place of its character ``offset`` where that is known."""
    message = " ".join(message.split())
    missing = _NO_TABLE.fullmatch(message)
    if offset is not None:
        before = sql[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
        message = f"line {line}, column {column}: {message}"
    return UsageError(message) if missing is None else NoSuchTable(message, missing[1] or missing[2])


# SQLite

_TICK = 20_000
"""So many steps of SQLite's machine between two looks at the clock and at signals."""

_DESCRIBING = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"}
)
"""Pragmas that only describe; SQLite has tables of the same names with ``pragma_`` in front."""

_HARMLESS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_REACHING_OUT = frozenset({"load_extension", "fts3_tokenizer"})
_CALLERS_FAULT = frozenset({"SQLITE_ERROR", "SQLITE_TOOBIG", "SQLITE_MISMATCH"})


@contextmanager
def _on_sqlite(file: Path, sql: str, keyword: str, timeout_s: float | None) -> Iterator[Answer]:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def is_over() -> bool:
        return deadline is not None and time.monotonic() > deadline

    with closing(_read_only(file)) as connection:
        lists = fact_view.FactLists(connection, ())
        try:
            fact_view.create(connection)
            plan = sql if keyword == "explain" else f"EXPLAIN {sql}"
            used = fact_view.columns_used(connection, plan, _may)
            fact_view.create(connection, used)
            lists = fact_view.FactLists(connection, used)
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(_may)
            connection.set_progress_handler(is_over, _TICK)
            cursor = connection.execute(sql)
            columns = tuple(column[0] for column in cursor.description or ())
            yield Answer(columns, cursor)
        except sqlite3.Warning as error:  # Python 3.11: several statements
            raise UsageError(str(error)) from error
        except sqlite3.Error as error:
            if lists.failure is not None:
                raise lists.failure from error
            if timeout_s is not None and is_over():
                raise QueryTimedOut(timeout_s) from error
            raise _sqlite_error(file, sql, error) from error


def _read_only(file: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
        )
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{file}: {error}") from error
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return connection


def _may(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Whether a statement may do this: read, and call functions."""
    if action in _HARMLESS or (action == sqlite3.SQLITE_FUNCTION and second not in _REACHING_OUT):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in _DESCRIBING:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _sqlite_error(file: Path, sql: str, error: sqlite3.Error) -> BaseException:
    """What an error of SQLite means here. An interrupted query was interrupted by Ctrl-C."""
    name = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    if name == "SQLITE_INTERRUPT":
        return KeyboardInterrupt()
    if name == "SQLITE_AUTH" or str(error) == "not authorized":
        return UsageError(_ONLY_QUERIES)
    if name in _CALLERS_FAULT:
        return _placed(sql, _offset(sql, str(error)), str(error))
    return StoreUnavailable(f"{file}: {error}")


_NAMED = re.compile(r'near "(.+)": syntax error|(?:no such \w+|ambiguous column name): (.+)', re.DOTALL)


def _offset(sql: str, message: str) -> int | None:
    """Where in ``sql`` the thing stands that ``message`` is about; SQLite tells its name, but not the place."""
    if message == "incomplete input":
        return len(sql)
    found = _NAMED.fullmatch(message)
    if found is None:
        return None
    token = found[1] or found[2]
    places = [place.start() for place in re.finditer(rf"(?<!\w){re.escape(token)}(?!\w)", sql, re.IGNORECASE)]
    if found[1] and len(places) > 1:
        places = [place for place in places if _stops_at(sql[: place + len(token)], message)]
    return places[0] if places else None


def _stops_at(beginning: str, message: str) -> bool:
    """True when the parser says the same of a beginning of the query: it has come to the place."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(f"EXPLAIN {beginning}")
        except sqlite3.Error as error:
            return str(error) == message
    return False


# PostgreSQL

_DECLARE = "DECLARE playhead_answer NO SCROLL CURSOR FOR "
_FETCH = b"FETCH 500 FROM playhead_answer"


@contextmanager
def _on_postgres(database: Database, sql: str, keyword: str, timeout_s: float | None) -> Iterator[Answer]:
    import psycopg
    from psycopg.types.string import TextLoader

    with database.read() as link:
        connection: psycopg.Connection[Any] = link.connection.connection.driver_connection  # type: ignore[assignment]
        cursor = connection.cursor()
        for json_type in ("json", "jsonb"):
            cursor.adapters.register_loader(json_type, TextLoader)
        prefix = "" if keyword == "explain" else _DECLARE
        timeout_ms = 0 if timeout_s is None else max(1, int(timeout_s * 1000))
        try:
            cursor.execute(b"SET TRANSACTION READ ONLY")
            cursor.execute(b"SET LOCAL statement_timeout = %d" % timeout_ms)
            # Prepared, so that the server takes one statement and no more.
            cursor.execute((prefix + sql).encode(), prepare=True)
            if prefix:
                cursor.execute(_FETCH)
            columns = tuple(column.name for column in cursor.description or ())
            yield Answer(columns, _fetched(cursor, bool(prefix)))
        except psycopg.Error as error:
            raise _postgres_error(database, sql, len(prefix), error, timeout_s) from error


def _fetched(cursor: psycopg.Cursor[Any], declared: bool) -> Iterator[tuple[Any, ...]]:
    """The rows that the cursor holds, and then those that are still on the server."""
    while rows := cursor.fetchall():
        yield from rows
        if not declared:
            return
        cursor.execute(_FETCH)


def _postgres_error(
    database: Database, sql: str, prefix: int, error: psycopg.Error, timeout_s: float | None
) -> PlayheadError:
    """What an error of PostgreSQL means here."""
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error)
    if state == "57014" and timeout_s is not None:
        return QueryTimedOut(timeout_s)
    if not state or state[:2] in ("08", "53", "57", "58", "XX"):
        return StoreUnavailable(f"{database.name}: {message}")
    place = error.diag.statement_position
    return _placed(sql, None if place is None else max(0, int(place) - 1 - prefix), message)
