"""The tables of a store. ``migrations/`` makes the same from empty; a test compares the two.

An ``event`` row is the append-only line. A finished stretch of rows is sealed: one ``segment`` row takes their
place. ``commit_log`` gives every fact its position: its rows tile ``1..store.pos``. ``artifact`` says how a
source file is rebuilt from lines; ``artifact_part`` holds bytes that no line has. ``projection`` lists the builds
of read tables, ``projection_state`` holds how far each session is folded into one: both can be made again from the
log, as can the read tables themselves, which ``read_models.py`` makes. ``exchange`` holds the bytes of model calls,
beside the log.

Integers are signed 64 bits. Text columns hold escaped text (``columns.escape``), JSON and hashes are bytes.
``check`` is the checksum of a row (``row_check.py``).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISION = "0003"
"""The newest Alembic revision: what this release writes."""

FORMAT = 1
"""The meaning of the stored bytes (codecs, chain, checks); raised when an older release could not read them."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_Id = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in a column that is exactly INTEGER."""

store = Table(
    "store",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("store_uuid", Text, nullable=False),
    Column("pos", BigInteger, nullable=False),
    Column("sessions", BigInteger, nullable=False),
    Column("artifacts", BigInteger, nullable=False),
    Column("exchanges", BigInteger, nullable=False, server_default=text("0")),
)

session = Table(
    "session",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("key", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("dialect", Text, nullable=False),
    Column("header", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("cwd", Text),
    Column("parent_key", Text),
    Column("seed_length", BigInteger),
    Column("origin", Text),
    Column("delegation_depth", BigInteger),
    Column("next_seq", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("first_ms", BigInteger),
    Column("last_ms", BigInteger),
    Column("chain", LargeBinary, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("sealed_lines", BigInteger, nullable=False),
    Column("artifacts", BigInteger, nullable=False),
    Column("findings", LargeBinary),
    Column("idem", Text),
    Column("check", LargeBinary, nullable=False),
    UniqueConstraint("key", "generation"),
)

commit_log = Table(
    "commit_log",
    metadata,
    Column("pos0", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", BigInteger, ForeignKey("session.id"), nullable=False),
    Column("seq0", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("idem", Text),
    Column("check", LargeBinary, nullable=False),
    UniqueConstraint("session_id", "idem"),
)
Index(None, commit_log.c.session_id, commit_log.c.seq0)

event_type = Table(
    "type",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

event = Table(
    "event",
    metadata,
    Column("session_id", BigInteger, ForeignKey("session.id"), primary_key=True, autoincrement=False),
    Column("line_no", BigInteger, primary_key=True, autoincrement=False),
    Column("seq0", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("type_id", BigInteger, ForeignKey("type.id"), nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("line", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

segment = Table(
    "segment",
    metadata,
    Column("session_id", BigInteger, ForeignKey("session.id"), primary_key=True, autoincrement=False),
    Column("line0", BigInteger, primary_key=True, autoincrement=False),
    Column("lines", BigInteger, nullable=False),
    Column("seq0", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("t0", BigInteger),
    Column("t1", BigInteger),
    Column("types", LargeBinary, nullable=False),
    Column("codec", Integer, nullable=False),
    Column("raw_len", BigInteger, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("check", LargeBinary, nullable=False),
)

artifact = Table(
    "artifact",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("session_id", BigInteger, ForeignKey("session.id"), index=True),
    Column("root", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("layout", Text, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("check", LargeBinary, nullable=False),
    UniqueConstraint("root", "path", "version"),
)

artifact_part = Table(
    "artifact_part",
    metadata,
    Column("artifact_id", BigInteger, ForeignKey("artifact.id"), primary_key=True, autoincrement=False),
    Column("part_no", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Column("check", LargeBinary, nullable=False),
)

exchange = Table(
    "exchange",
    metadata,
    Column("session_id", BigInteger, ForeignKey("session.id"), primary_key=True, autoincrement=False),
    Column("exchange_no", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", BigInteger),
    Column("step", BigInteger),
    Column("number", BigInteger),
    Column("seq", BigInteger),
    Column("dialect", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("began_ms", BigInteger, nullable=False),
    Column("head_ms", BigInteger),
    Column("ended_ms", BigInteger, nullable=False),
    Column("ending", Text, nullable=False),
    Column("status", BigInteger),
    Column("request_headers", LargeBinary, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("headers", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("body_len", BigInteger, nullable=False),
    Column("whole", Integer, nullable=False),
    Column("pieces", LargeBinary, nullable=False),
    Column("check", LargeBinary, nullable=False),
)

projection = Table(
    "projection",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, index=True),
    Column("version", BigInteger, nullable=False),
    Column("shape", Text, nullable=False),
    Column("tables", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    sqlite_autoincrement=True,  # a number is never used again: it is part of table names
)

projection_state = Table(
    "projection_state",
    metadata,
    Column("build_id", BigInteger, ForeignKey("projection.id"), primary_key=True, autoincrement=False),
    Column("session_id", BigInteger, ForeignKey("session.id"), primary_key=True, autoincrement=False),
    Column("next_seq", BigInteger, nullable=False),
    Column("state", LargeBinary),
    Column("unknown", LargeBinary),
    Column("problem", Text),
)
