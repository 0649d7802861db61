"""Writes sessions as a database of dsh's SQLite backend, schema 15 or 17.

For examples and tests: dsh itself has left this backend. Rows are as in ``sqlite_rows.py``:

========= ==================================================================================================
schema 15 one row per event, sources as a JSON list
schema 17 runs of deltas in packed rows, sources as varints, data of 4 KiB and more compressed where it pays
========= ==================================================================================================

What differs from a database that dsh made: the journal mode is not WAL and pages are smaller; the bytes 96 to
99 of the file, where SQLite leaves its own version, are 0, so that the bytes depend on the content alone as far
as SQLite lets them; and the text of the schema has other blanks. dsh compares that text, so it may refuse such a
database. Source: docs/formats.md, "SQLite".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import zstandard

from playhead.adapters.dsh.conversion import Json
from playhead.adapters.dsh.discover import APPLICATION_ID
from playhead.adapters.dsh.sqlite import SCHEMAS
from playhead.eventstore import chunk_rows, json_text, source_seqs
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded

COMPRESSED_FROM_BYTES = 4096
"""The shortest data text that schema 17 tries to compress."""

_LIBRARY_VERSION = slice(96, 100)
_PAGE_BYTES = 1024  # dsh leaves SQLite its 4096; small sessions make small files this way


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session to store: the header of a native session, and its events in the batches they came in."""

    header: SessionHeader
    batches: Sequence[Sequence[Recorded]]


def write_database(schema: int, sessions: Iterable[StoredSession], store_id: UUID) -> bytes:
    """The database file with ``sessions``; the ids of their lifecycles follow from ``store_id``.

    Raises ``UsageError`` for a schema other than 15 and 17, and for a session of another format than 0.
    """
    if schema not in SCHEMAS:
        raise UsageError(f"schema {schema}; known are {' and '.join(map(str, SCHEMAS))}")
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_TABLES[schema])
        database.execute("INSERT INTO persistence_state VALUES (1, ?)", (str(store_id),))
        for session in sessions:
            _store(database, schema, session, store_id)
        database.commit()
        file = bytearray(database.serialize())
    file[_LIBRARY_VERSION] = bytes(4)
    return bytes(file)


def _store(database: sqlite3.Connection, schema: int, session: StoredSession, store_id: UUID) -> None:
    header = session.header
    if header.version != 0:
        raise UsageError(f"session {header.id!r} has format {header.version}; a database holds format 0")
    database.execute(
        f"INSERT INTO sessions VALUES ({', '.join('?' * 11)})",
        (
            header.id,
            header.version,
            header.created_ms,
            header.cwd,
            header.parent,
            header.seed_length,
            header.origin,
            header.delegation_depth,
            header.agent_preset,
            str(uuid5(store_id, header.id)),
            len(session.batches),
        ),
    )
    make_rows = _rows_15 if schema == 15 else _rows_17
    rows = ((header.id, *row) for batch in session.batches for row in make_rows(batch))
    database.executemany(f"INSERT INTO events VALUES ({', '.join('?' * 8)})", rows)


_Columns = tuple[Any, ...]


def _rows_15(batch: Sequence[Recorded]) -> Iterator[_Columns]:
    for event in (recorded.envelope() for recorded in batch):
        sources = event.get("sourceEventSeqs")
        yield (
            *_columns(event, _text(event["data"])),
            None if sources is None else _text(sources),
            *_last_columns(event),
        )


def _rows_17(batch: Sequence[Recorded]) -> Iterator[_Columns]:
    for event in chunk_rows.pack((recorded.envelope() for recorded in batch), chunk_rows.SQLITE):
        data = _compressed(json_text.dumps(event["data"]))
        if event["type"] in chunk_rows.TAGS:
            yield event["seq0"], event["type"], event["time0"], data, None, None, 0
            continue
        sources = event.get("sourceEventSeqs")
        yield (
            *_columns(event, data),
            None if sources is None else source_seqs.encode_varints(sources),
            *_last_columns(event),
        )


def _columns(event: Json, data: str | bytes) -> _Columns:
    return event["seq"], event["type"], event["time"], data


def _last_columns(event: Json) -> _Columns:
    op = event.get("surfaceOp")
    return None if op is None else _text(op), 1 if event.get("ignorable") else None


def _text(value: Any) -> str:
    return json_text.dumps(value).decode()


def _compressed(text: bytes) -> str | bytes:
    """The text as a frame where it is long enough and becomes shorter; else as it is."""
    if len(text) >= COMPRESSED_FROM_BYTES:
        frame = zstandard.ZstdCompressor(level=3).compress(text)
        if len(frame) < len(text):
            return frame
    return text.decode()


_SESSIONS = f"""
PRAGMA page_size = {_PAGE_BYTES};
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE persistence_state (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  store_id TEXT NOT NULL
) STRICT;
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  cwd TEXT,
  parent_session TEXT,
  seed_length INTEGER,
  origin TEXT,
  delegation_depth INTEGER,
  agent_preset TEXT,
  incarnation TEXT NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
"""
_TABLES = {
    15: f"""{_SESSIONS}
PRAGMA user_version = 15;
CREATE TABLE events (
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  time INTEGER NOT NULL,
  data TEXT NOT NULL,
  source_event_seqs TEXT,
  surface_op TEXT,
  ignorable INTEGER,
  PRIMARY KEY (session_id, seq)
) STRICT;
""",
    17: f"""{_SESSIONS}
PRAGMA user_version = 17;
CREATE TABLE events (
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  time INTEGER NOT NULL,
  data ANY NOT NULL,
  source_event_seqs ANY,
  surface_op TEXT,
  ignorable INTEGER CHECK (ignorable IS NULL OR ignorable IN (0, 1)),
  PRIMARY KEY (session_id, seq)
) STRICT;
""",
}
