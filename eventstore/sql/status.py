"""Figures about a store."""

from __future__ import annotations

from typing import Any

from playhead.eventstore.sql import schema
from playhead.eventstore.sql.engine import Database, Link, is_memory


def status(link: Link, database: Database) -> dict[str, Any]:
    """Schema, identity, counts, and sizes in bytes."""
    store = link.one("SELECT format, store_uuid, pos, sessions, artifacts, exchanges FROM store WHERE id = 1")
    lines, sealed, events = link.one(
        "SELECT coalesce(sum(lines), 0), coalesce(sum(sealed_lines), 0), coalesce(sum(events), 0) FROM session"
    )
    segment_count, raw, body = link.one(
        "SELECT count(*), coalesce(sum(raw_len), 0), coalesce(sum(length(body)), 0) FROM segment"
    )
    exchange_bytes = link.one("SELECT coalesce(sum(length(request) + length(body)), 0) FROM exchange")[0]
    size = _size(link, database)
    return {
        "store": database.name,
        "uuid": store[1],
        "schema": schema.REVISION,
        "format": store[0],
        "position": store[2],
        "sessions": store[3],
        "files": store[4],
        "events": int(events),
        "lines": int(lines),
        "unsealed_lines": int(lines - sealed),
        "segments": segment_count,
        "segment_bytes": int(body),
        "line_bytes": int(raw),
        "exchanges": store[5],
        "exchange_bytes": int(exchange_bytes),
        "size_bytes": size,
    }


def _size(link: Link, database: Database) -> int | None:
    if link.postgres:
        return int(link.one("SELECT pg_database_size(current_database())")[0])
    if is_memory(database.url):
        return None
    pages, page_bytes = link.one("PRAGMA page_count")[0], link.one("PRAGMA page_size")[0]
    return int(pages) * int(page_bytes)
