"""Checksums of rows: what the hash chain does not cover, they do.

The chain covers headers and lines. Everything else in a row (paths, times, keys, counts, the compressed
spelling of a body) is covered by ``check``, 8 bytes of BLAKE2b over the table's name and all other columns in
their order. It finds accidents, not forgeries: kept heads find those.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from sqlalchemy import Table

from playhead.eventstore.sql import schema

_pack = msgspec.msgpack.Encoder().encode

SIZE = 8


def checked_columns(table: Table) -> tuple[str, ...]:
    """The columns that the check of ``table`` covers, in order."""
    return tuple(column.name for column in table.columns if column.name != "check")


COLUMNS = {
    table.name: checked_columns(table)
    for table in (
        schema.session,
        schema.commit_log,
        schema.segment,
        schema.artifact,
        schema.artifact_part,
        schema.exchange,
    )
}


def row_check(table: str, values: Sequence[Any]) -> bytes:
    """The check of a row whose other columns hold ``values``, in column order."""
    digest = blake2b(table.encode(), digest_size=SIZE)
    for value in values:
        digest.update(_packed(value))
    return digest.digest()


def _packed(value: object) -> bytes:
    if isinstance(value, bytes):
        return b"\xc6%d:" % len(value) + value
    try:
        return _pack(value)
    except UnicodeEncodeError:
        # Text that is not UTF-8, which no store wrote: whatever this gives, the check will not fit.
        return str(value).encode("utf-8", "surrogateescape")
