"""Rows of dsh's SQLite backend, as lines of a format 0 log.

A row has the columns ``seq, type, time, data, source_event_seqs, surface_op, ignorable``.

* ``data`` is the JSON text of the event's data, or that text as one Zstandard frame in a blob.
* ``source_event_seqs`` is NULL without sources, else the varint blob of ``source_seqs`` (schema 17) or a JSON
  list (schema 15).
* ``surface_op`` is JSON text or NULL.
* ``ignorable`` is 1 or NULL; 0 marks a packed row: ``type`` is a chunk tag, ``seq`` and ``time`` are its seq0
  and time0, the two columns before are NULL, 3 to 1024 members, at most 1 MiB of data.

The line holds the stored texts verbatim, but for LF and CR, which are blanks in JSON and become spaces. A row
that does not decode becomes a line that is no event and keeps all its columns under ``undecodableRow``, blobs
in base64. Source: docs/formats.md, "SQLite".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import zstandard

from playhead.eventstore import chunk_rows, json_text, source_seqs
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.ids import is_safe_integer

COLUMNS = ("seq", "type", "time", "data", "source_event_seqs", "surface_op", "ignorable")
_LINE_BREAKS = bytes.maketrans(b"\n\r", b"  ")
_MAX_PACKED_BYTES = 1 << 20


class Text(bytes):
    """A TEXT value as its bytes; a plain ``bytes`` is a BLOB."""

    __slots__ = ()


class Row(NamedTuple):
    """One stored row, as the database gives it."""

    seq: Any
    type: Any
    time: Any
    data: Any
    source_event_seqs: Any
    surface_op: Any
    ignorable: Any


class MalformedRow(ValueError):
    """A row that dsh would not read; the message names the column."""


class Line(NamedTuple):
    """The line of a row, without line end; ``problem`` says what is wrong with the row, if anything."""

    line: bytes
    problem: str | None


def line_of(row: Row) -> Line:
    """The line that ``row`` stands for, whatever is in it. Raises nothing."""
    try:
        type_text = _text(row.type, "type")
        numbers = _integer(row.seq, "seq"), _integer(row.time, "time")
        ignorable = None if row.ignorable is None else _integer(row.ignorable, "ignorable")
        data = _data(row.data)
    except MalformedRow as error:
        return Line(_undecodable(row), str(error))
    packed = ignorable == 0 and type_text in chunk_rows.TAGS
    parts = [
        b'{"type":',
        json_text.dumps(type_text),
        b',"seq0":%d,"time0":%d,"data":' % numbers if packed else b',"seq":%d,"time":%d,"data":' % numbers,
        data.translate(_LINE_BREAKS),
    ]
    if ignorable is not None and not packed:
        parts.append(b',"ignorable":' + (b"true" if ignorable == 1 else b"%d" % ignorable))
    if row.source_event_seqs is not None:
        parts.append(b',"sourceEventSeqs":' + _kept_sources(row.source_event_seqs))
    if row.surface_op is not None:
        parts.append(b',"surfaceOp":' + _kept_json(row.surface_op))
    parts.append(b"}")
    problem = None
    try:
        record_of(row)
    except MalformedRow as error:
        problem = str(error)
    return Line(b"".join(parts), problem)


def record_of(row: Row) -> dict[str, Any]:
    """The event or chunk row stored in ``row``, as strictly as dsh reads it. Raises ``MalformedRow``."""
    if not is_safe_integer(row.seq) or row.seq < 0:
        raise MalformedRow("seq is not a whole number from 0")
    if not is_safe_integer(row.time):
        raise MalformedRow("time is not a whole number")
    type_text = _text(row.type, "type")
    data_text = _data(row.data)
    data = json_text.parse(data_text)
    if row.ignorable == 0:
        return _packed(row, type_text, data, len(data_text))
    if row.ignorable not in (None, 1):
        raise MalformedRow("ignorable is neither 0, 1 nor NULL")
    record = {"type": type_text, "seq": row.seq, "time": row.time, "data": data}
    if row.ignorable == 1:
        record["ignorable"] = True
    if row.source_event_seqs is not None:
        record["sourceEventSeqs"] = _sources(row.source_event_seqs)
    if row.surface_op is not None:
        record["surfaceOp"] = _json(row.surface_op, "surface_op")
    return record


def _packed(row: Row, type_text: str, data: Any, size_bytes: int) -> dict[str, Any]:
    if type_text not in chunk_rows.TAGS:
        raise MalformedRow(f"ignorable is 0, but {type_text!r} is no chunk row")
    if row.source_event_seqs is not None or row.surface_op is not None:
        raise MalformedRow("a chunk row has sources or a surface operation")
    if size_bytes > _MAX_PACKED_BYTES:
        raise MalformedRow(f"a chunk row has {size_bytes} bytes of data, more than {_MAX_PACKED_BYTES}")
    record = {"type": type_text, "seq0": row.seq, "time0": row.time, "data": data}
    try:
        chunk_rows.validate(record, chunk_rows.SQLITE)
    except chunk_rows.MalformedRow as error:
        raise MalformedRow(f"a malformed {type_text} row: {error}") from None
    return record


class Scan(NamedTuple):
    """The readable rows of a session: their seqs, and the seq at which a removable tail begins, if any."""

    seqs: list[int]
    torn_from: int | None


def scan(rows: Sequence[Row], base: int = 0, session: str = "") -> Scan:
    """What dsh keeps of ``rows``, which are in order and go on from ``base``.

    A row that does not decode, or does not continue the numbering, ends the log: the rest is a removable
    tail. Raises ``CorruptLog`` when a row with a ``turn/end`` stands at or behind that place: then it had
    been committed.
    """
    seqs: list[int] = []
    torn_from: int | None = None
    for row in rows:
        try:
            record = record_of(row)
        except MalformedRow:
            if torn_from is None:
                torn_from = row.seq
            continue
        covered = _covered(record)
        if torn_from is None and covered[0] == base + len(seqs):
            seqs += covered
            continue
        if torn_from is None:
            torn_from = row.seq
        if record["type"] == "turn/end":
            raise CorruptLog(
                session,
                f"row {torn_from} is unreadable or out of order, and a turn/end follows it",
                seq=torn_from,
                kind="committed-corruption",
            )
    return Scan(seqs, torn_from)


def _covered(record: dict[str, Any]) -> Sequence[int]:
    if "seq0" in record:
        return range(record["seq0"], record["seq0"] + len(record["data"]["dt"]) + 1)
    return (record["seq"],)


def _text(value: Any, column: str) -> str:
    if not isinstance(value, Text):
        raise MalformedRow(f"{column} is not text")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedRow(f"{column} is not valid UTF-8") from None


def _integer(value: Any, column: str) -> int:
    if not isinstance(value, int):
        raise MalformedRow(f"{column} is not a whole number")
    return value


def _data(value: Any) -> bytes:
    """The JSON text of the column ``data``. Raises ``MalformedRow`` when it holds none."""
    if isinstance(value, Text):
        text: bytes = value
    elif isinstance(value, bytes):
        text = _decompressed(value)
    else:
        raise MalformedRow("data is neither text nor a blob")
    try:
        json_text.parse(text)
    except (ValueError, RecursionError):
        raise MalformedRow("data is not JSON") from None
    return text


def _decompressed(blob: bytes) -> bytes:
    decoder = zstandard.ZstdDecompressor().decompressobj()
    try:
        text = decoder.decompress(blob)
    except zstandard.ZstdError as error:
        raise MalformedRow(f"data does not decompress: {error}") from None
    if not decoder.eof or decoder.unused_data:
        raise MalformedRow("data is not exactly one compressed frame")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedRow("data is not valid UTF-8") from None
    return text


def _sources(value: Any) -> list[int]:
    """The sources of a row, in either schema."""
    if isinstance(value, Text):
        listed = _json(value, "source_event_seqs")
        try:
            return source_seqs.expand(listed)
        except ValueError as error:
            raise MalformedRow(f"source_event_seqs: {error}") from None
    if not isinstance(value, bytes):
        raise MalformedRow("source_event_seqs is neither text nor a blob")
    try:
        return source_seqs.decode_varints(value)
    except ValueError as error:
        raise MalformedRow(f"source_event_seqs: {error}") from None


def _json(value: Any, column: str) -> Any:
    if not isinstance(value, Text):
        raise MalformedRow(f"{column} is not text")
    try:
        return json_text.parse(bytes(value))
    except (ValueError, RecursionError):
        raise MalformedRow(f"{column} is not JSON") from None


def _kept_sources(value: Any) -> bytes:
    """The sources as JSON; a value that does not decode as it is, so that nothing is lost."""
    if isinstance(value, bytes) and not isinstance(value, Text):
        try:
            return json_text.dumps(source_seqs.decode_varints(value))
        except ValueError:
            return _shown(value)
    return _kept_json(value)


def _kept_json(value: Any) -> bytes:
    """JSON text verbatim; anything else wrapped, so that it cannot be taken for what it is not."""
    try:
        _json(value, "")
    except MalformedRow:
        return json_text.dumps({"undecodable": json_text.parse(_shown(value))})
    return bytes(value).translate(_LINE_BREAKS)


def _shown(value: Any) -> bytes:
    """Any stored value as JSON."""
    if isinstance(value, Text):
        try:
            return json_text.dumps(value.decode("utf-8"))
        except UnicodeDecodeError:
            value = bytes(value)
    if isinstance(value, bytes):
        return json_text.dumps({"base64": b64encode(value).decode("ascii")})
    if isinstance(value, float):
        return json_text.dumps(repr(value))
    return json_text.dumps(value)


def _undecodable(row: Row) -> bytes:
    columns: Iterable[bytes] = (
        json_text.dumps(name) + b":" + _shown(value) for name, value in zip(COLUMNS, row, strict=True)
    )
    return b'{"undecodableRow":{' + b",".join(columns) + b"}}"
