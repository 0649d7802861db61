"""A database of dsh's SQLite backend as sources: one per session, and the files as bytes.

::

    application id 1146308688, user_version 15 or 17
    sessions(id, version, created_at, cwd, parent_session, seed_length, origin, delegation_depth,
             agent_preset, incarnation, revision)      an absent member of the header is NULL
    events(session_id, seq, type, time, data, source_event_seqs, surface_op, ignorable)

Opening a database, even for reading, writes beside it. So the database and what belongs to it (``-wal`` or
``-journal``) are copied first, and a second copy is opened. Each session becomes a log of format 0; its path
is that of the database with the folder name of the session below it. Source: docs/formats.md, "SQLite".
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from types import TracebackType
from typing import Any, Self

from playhead.adapters.dsh import paths
from playhead.adapters.dsh.dialects import dialect_name
from playhead.adapters.dsh.discover import APPLICATION_ID
from playhead.adapters.dsh.sqlite_rows import COLUMNS, Row, Text, line_of
from playhead.eventstore.errors import NotALog
from playhead.eventstore.findings import Finding
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.source import FileShape

SCHEMAS = (15, 17)
"""The values of ``user_version`` whose tables are known."""

CONTENT_COMPANIONS = ("-wal", "-journal")
"""What, beside a database, holds a part of its content."""

_HEADER_COLUMNS = (
    "id",
    "version",
    "created_at",
    "cwd",
    "parent_session",
    "seed_length",
    "origin",
    "delegation_depth",
    "agent_preset",
)
_BLOCK_BYTES = 1 << 20
_COPY_ATTEMPTS = 5


class Database:
    """A copy of a database and of what belongs to it. Close it, or use it as a context manager.

    ``files`` are the copies by the ending of their names: ``""`` for the database itself, ``"-wal"``,
    ``"-journal"``. Raises ``NotALog`` of kind ``unreadable``, or ``changed`` when it never rested.
    """

    def __init__(self, file: str, root: str, path: str) -> None:
        self.root = root
        self.path = path
        self._folder = tempfile.TemporaryDirectory(prefix="playhead-")
        self._connection: sqlite3.Connection | None = None
        try:
            self.files = _copied(file, self._folder.name)
        except BaseException:
            self.close()
            raise

    def sessions(self) -> Iterator[DatabaseSession | Refused]:
        """The sessions in the order in which they were stored; those without a usable header are refused.

        Raises ``NotALog``: ``not-dsh-database``, ``unknown-schema``, or ``bad-database`` for a damaged one.
        """
        try:
            connection = self._opened()
            rows = connection.execute(
                f"SELECT rowid, {', '.join(_HEADER_COLUMNS)} FROM sessions ORDER BY rowid"
            ).fetchall()
        except sqlite3.Error as error:
            raise NotALog("bad-database", f"the database cannot be read: {error}") from error
        for rowid, *columns in rows:
            header: dict[str, Any] = dict(zip(_HEADER_COLUMNS, map(_value, columns), strict=True))
            try:
                read = _header(header)
            except NotALog as refusal:
                yield Refused(f"{self.path}/~{rowid}", refusal)
                continue
            path = f"{self.path}/{paths.session_segment(read.id)}"
            yield DatabaseSession(connection, rowid, self.root, path, self.path, read)

    def findings(self) -> list[Finding]:
        """What is wrong with the database beside its sessions: events that belong to none."""
        try:
            count = self._opened().execute(
                "SELECT count(*) FROM events WHERE session_id NOT IN (SELECT id FROM sessions)"
            )
            orphans = count.fetchone()[0]
        except sqlite3.Error as error:
            return [Finding("bad-database", f"the database cannot be read: {error}")]
        if not orphans:
            return []
        return [Finding("orphan-rows", f"{orphans} events belong to a session that is not in the database")]

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            reading = os.path.join(self._folder.name, "reading")
            for ending, copy in self.files.items():
                shutil.copyfile(copy, reading + ending)
            connection = sqlite3.connect(reading, isolation_level=None)
            try:
                connection.text_factory = Text
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA cell_size_check = ON")
                _check_schema(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Refused:
    """A session of a database whose header cannot be used, and why."""

    def __init__(self, path: str, refusal: NotALog) -> None:
        self.path = path
        self.refusal = refusal


class DatabaseSession:
    """A ``LogSource`` for one session of a database. It has no file of its own: its shape has no bytes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        rowid: int,
        root: str,
        path: str,
        container: str,
        header: SessionHeader,
    ) -> None:
        self.root = root
        self.path = path
        self.container: str | None = container
        self.header = header
        self.header_line = header.line()
        self.dialect = dialect_name(header)
        self.shape = FileShape("sqlite")
        self._connection = connection
        self._rowid = rowid

    def rows(self) -> Iterator[Row]:
        """The stored rows, by seq, as they are. Raises ``sqlite3.Error`` where the database is damaged."""
        query = (
            f"SELECT {', '.join(COLUMNS)} FROM events"
            " WHERE session_id = (SELECT id FROM sessions WHERE rowid = ?) ORDER BY seq"
        )
        with closing(self._connection.execute(query, (self._rowid,))) as cursor:
            for row in cursor:
                yield Row(*row)

    def begins_with(self, size_bytes: int, sha256: bytes) -> bool:  # noqa: ARG002 - see LogSource
        """False: there is no file of this log alone."""
        return False

    def blocks(self) -> Iterator[bytes]:
        """The lines of the session, each ended by LF, about 1 MiB of them at a time."""
        shape = self.shape = FileShape("sqlite")
        ready: list[bytes] = []
        ready_bytes = 0
        line_no = 1
        try:
            for row in self.rows():
                line, problem = line_of(row)
                line_no += 1
                if problem is not None:
                    seq = row.seq if isinstance(row.seq, int) else None
                    message = f"row {row.seq!r}: {problem}"
                    shape.findings.append(Finding("bad-row", message, line=line_no, seq=seq))
                ready.append(line)
                ready_bytes += len(line)
                if ready_bytes >= _BLOCK_BYTES:
                    yield b"\n".join(ready) + b"\n"
                    ready, ready_bytes = [], 0
        except sqlite3.Error as error:
            message = f"the database is damaged, the rows behind the last line are lost: {error}"
            shape.findings.append(Finding("bad-database", message, line=line_no))
        if ready:
            yield b"\n".join(ready) + b"\n"


def _copied(file: str, folder: str) -> dict[str, str]:
    """Copies, which fit each other, of a database and what belongs to it."""
    for _ in range(_COPY_ATTEMPTS):
        before = _state(file)
        if before[""] is None:
            raise NotALog("unreadable", "the database is gone")
        copies: dict[str, str] = {}
        try:
            for ending in ("", *CONTENT_COMPANIONS):
                if before[ending] is not None:
                    copies[ending] = os.path.join(folder, f"kept{ending}")
                    shutil.copyfile(file + ending, copies[ending])
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NotALog("unreadable", error.strerror or str(error)) from error
        if before == _state(file):
            return copies
    raise NotALog("changed", "the database is written all the time; import it again when it rests")


def _state(file: str) -> dict[str, tuple[int, int, int] | None]:
    """What tells whether a database was written: inode, size and time of each of its files, if there."""
    state: dict[str, tuple[int, int, int] | None] = {}
    for ending in ("", *CONTENT_COMPANIONS):
        try:
            status = os.stat(file + ending)
        except OSError:
            state[ending] = None
        else:
            state[ending] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return state


def _check_schema(connection: sqlite3.Connection) -> None:
    """Raise ``NotALog`` unless the tables are those of a known schema of dsh."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise NotALog("not-dsh-database", f"a SQLite database, but not of dsh: application id {application}")
    schema = connection.execute("PRAGMA user_version").fetchone()[0]
    if schema not in SCHEMAS:
        known = " and ".join(map(str, SCHEMAS))
        raise NotALog("unknown-schema", f"schema {schema} of a dsh database; known are {known}")
    for table, columns in (("sessions", _HEADER_COLUMNS), ("events", ("session_id", *COLUMNS))):
        kind = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        if kind is None or kind[0] != b"table":
            raise NotALog("unknown-schema", f"there is no table {table}")
        found = {bytes(row[1]).decode() for row in connection.execute(f"PRAGMA table_info({table})")}
        missing = [column for column in columns if column not in found]
        if missing:
            raise NotALog("unknown-schema", f"the table {table} has no column {missing[0]!r}")


def _value(value: Any) -> Any:
    """A column of a header: text decoded, lone surrogates kept where they were stored as such."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace")


def _header(columns: dict[str, Any]) -> SessionHeader:
    """The header of a session row. Raises ``NotALog`` when it is none that a log could have."""
    version = columns["version"]
    if not isinstance(version, int) or not isinstance(columns["id"], str) or not columns["id"]:
        raise NotALog("bad-header", "the session has no id or no version")
    if any(isinstance(value, bytes | float) for value in columns.values()):
        raise NotALog("bad-header", "the session has a column that is neither text nor a whole number")
    header = SessionHeader(
        id=SessionId(columns["id"]),
        created_ms=columns["created_at"],
        version=version,
        cwd=columns["cwd"],
        parent=columns["parent_session"],
        seed_length=columns["seed_length"],
        origin=columns["origin"],
        delegation_depth=columns["delegation_depth"],
        agent_preset=columns["agent_preset"],
    )
    return SessionHeader.parse(header.line())
