"""Writes the events of a native session as a log file of each layout that dsh has released.

For examples, tests and forks. The events are those that a native session holds: the vocabulary of format 1, one
``assistant/chunk`` per chunk, numbered from 0. A batch is what became durable together; chunk rows never reach
over its end, and a compressed file has a frame for each, behind the frame of the header line.

================ =========================================================================================
``v0-unpacked``  format 0, one line per event: dsh with ``packChunks: false``, and a native session itself
``v0``           format 0 of 0.1.0 and 0.1.1: runs of deltas in chunk rows, sources as plain lists
``v0-ranged``    format 0 of 0.1.2: as ``v0``; runs of sources as pairs, and ``totalTokens`` in usage
``v1``           as ``v0`` under another version
``v2`` to ``v4`` the conversions of ``conversion.py``, runs of sources as pairs
================ =========================================================================================

Formats 1 to 4 come out as dsh's conversion makes them from a log of format 0. What only a live runtime of
those formats would have logged (jobs, deliveries, tool registries, replay state) is not made up, and apart
from ``v0-ranged`` usage stays as it is. Where a batch ends is the caller's to say: no runtime left a rule.
Source: docs/formats.md, "Files" to "Source seqs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

from playhead.adapters.dsh.conversion import Batch, Json, to_format_2, to_format_3, to_format_4
from playhead.eventstore import chunk_rows, json_text, source_seqs, zstd_frames
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to store a log: its format ``version``, and the choices within it."""

    version: int
    packs_chunks: bool = False
    pairs_sources: bool = False
    adds_totals: bool = False


LAYOUTS = {
    "v0-unpacked": Layout(0),
    "v0": Layout(0, packs_chunks=True),
    "v0-ranged": Layout(0, packs_chunks=True, pairs_sources=True, adds_totals=True),
    "v1": Layout(1, packs_chunks=True),
    "v2": Layout(2, pairs_sources=True),
    "v3": Layout(3, pairs_sources=True),
    "v4": Layout(4, pairs_sources=True),
}
"""Every layout of a log file by its name."""


def write_log(
    layout: Layout,
    header: SessionHeader,
    batches: Iterable[Sequence[Recorded]],
    *,
    compressed: bool = False,
) -> bytes:
    """The file that holds the session; ``compressed`` as Zstandard frames.

    ``header`` is that of the native session. Raises ``UsageError`` for one of format 2 and newer, whose events
    have been converted already.
    """
    return b"".join(log_pieces(layout, header, batches, compressed=compressed))


def log_pieces(
    layout: Layout,
    header: SessionHeader,
    batches: Iterable[Sequence[Recorded]],
    *,
    compressed: bool = False,
) -> Iterator[bytes]:
    """The file of ``write_log`` piece by piece, header and batches; before format 2 no more than a batch is held.

    In formats 0 and 1 the data of an event is written as it is stored, unless a row holds it.
    """
    pieces = chain([[header_of(layout, header).line()]], _lines(layout, header, batches))
    for lines in pieces:
        piece = b"".join(line + b"\n" for line in lines)
        yield zstd_frames.write_frame(piece) if compressed else piece


def stored_pieces(header_line: bytes, blocks: Iterable[bytes], *, compressed: bool) -> Iterator[bytes]:
    """The file of a session whose lines are written as they are stored; ``blocks`` are whole lines, each with LF."""
    for piece in chain([header_line + b"\n"], blocks):
        yield zstd_frames.write_frame(piece) if compressed else piece


def _lines(
    layout: Layout, header: SessionHeader, batches: Iterable[Sequence[Recorded]]
) -> Iterator[Iterable[bytes]]:
    if layout.version < 2 and not (layout.adds_totals or layout.pairs_sources):
        return (_stored_lines(batch, layout.packs_chunks) for batch in batches if batch)
    return (map(json_text.dumps, lines) for lines in rows(layout, header, batches))


def _stored_lines(batch: Iterable[Recorded], packs_chunks: bool) -> Iterator[bytes]:
    for is_run, run in groupby(batch, lambda event: packs_chunks and event.type == chunk_rows.EVENT_TYPE):
        if is_run:
            yield from map(json_text.dumps, chunk_rows.pack(event.envelope() for event in run))
        else:
            yield from (event.line() for event in run)


def header_of(layout: Layout, header: SessionHeader) -> SessionHeader:
    """The header as the layout has it: its version, and who inherited in the way of that version."""
    if header.version >= 2:
        raise UsageError(f"session {header.id!r} has format {header.version}; a native session has format 0")
    if layout.version < 2:
        return replace(header, version=layout.version)
    seeded = header.seed_length is not None
    return replace(header, version=layout.version, seed_length=None, is_seeded=seeded)


def rows(layout: Layout, header: SessionHeader, batches: Iterable[Sequence[Recorded]]) -> list[list[Json]]:
    """The lines behind the header as JSON values, batch by batch; a batch that holds none is left out."""
    events: list[Batch] = [[event.envelope() for event in batch] for batch in batches]
    if layout.adds_totals:
        events = [[_with_total(event) for event in batch] for batch in events]
    for version, convert in _CONVERSIONS:
        if layout.version >= version:
            events = list(convert(events, header))
    if layout.pairs_sources:
        events = [[_with_pairs(event) for event in batch] for batch in events]
    return [chunk_rows.pack(batch) if layout.packs_chunks else [*batch] for batch in events if batch]


_Convert = Callable[[list[Batch], SessionHeader], Sequence[Batch]]
_CONVERSIONS: tuple[tuple[int, _Convert], ...] = (
    (2, lambda events, header: to_format_2(events, header.seed_length)),
    (3, lambda events, header: to_format_3(events, header.id)),
    (4, lambda events, _: to_format_4(events)),
)


def _with_pairs(event: Json) -> Json:
    if "sourceEventSeqs" not in event:
        return event
    return event | {"sourceEventSeqs": source_seqs.collapse(event["sourceEventSeqs"])}


def _with_total(event: Json) -> Json:
    """The event with the sum of all tokens in its usage, where it has one."""
    data = event["data"]
    if not isinstance(data, dict):
        return event
    if event["type"] in ("assistant/message", "compaction/summary") and "usage" in data:
        return event | {"data": data | {"usage": _total(data["usage"])}}
    chunk = data.get("chunk")
    if event["type"] == chunk_rows.EVENT_TYPE and isinstance(chunk, dict) and chunk.get("type") == "usage":
        return event | {"data": data | {"chunk": chunk | {"usage": _total(chunk["usage"])}}}
    return event


_COUNTED = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


def _total(usage: Any) -> Any:
    if not isinstance(usage, dict) or "totalTokens" in usage:
        return usage
    counted = {"totalTokens": sum(usage.get(key, 0) for key in _COUNTED)}
    first = {key: usage[key] for key in _COUNTED[:2] if key in usage}
    return first | counted | usage
