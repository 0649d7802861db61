"""A replay as stored lines, byte for byte: the header, then each line at its time.

A line that packs many chunks comes when the last of them had come: it was not there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from playhead.eventstore import chunk_rows, envelope

if TYPE_CHECKING:
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.replay.part import Part


class TimedLine(NamedTuple):
    """A line without its end. ``idle`` is false for one that goes on with a stream of chunks."""

    time_ms: int | None
    line: bytes
    idle: bool


def timed_lines(log: SqlSession, part: Part) -> Iterator[TimedLine]:
    """The header of ``log`` and the lines of ``part``; lines that hold no event only where the part is everything."""
    yield TimedLine(None, log.header_line, idle=True)
    everything = not part.from_seq and part.to_seq is None
    streams = False
    for line in log.lines(near_seq=part.from_seq):
        seen = envelope.view(line)
        if seen.n and part.to_seq is not None and seen.seq0 >= part.to_seq:
            return
        if not everything and (not seen.n or seen.seq0 + seen.n <= part.from_seq):
            continue
        is_chunk = seen.type == chunk_rows.EVENT_TYPE
        yield TimedLine(seen.t1 if seen.n else None, line, idle=not (is_chunk and streams))
        streams = is_chunk
