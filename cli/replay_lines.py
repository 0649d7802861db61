"""A replay as stored lines, byte for byte: the header, then each line at its time.

A line that packs many chunks comes when the last of them had come: it was not there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from playhead.cli.replay_bytes import TimedBytes
from playhead.eventstore import chunk_rows, envelope

if TYPE_CHECKING:
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.replay.part import Part


def timed_lines(log: SqlSession, part: Part) -> Iterator[TimedBytes]:
    """The header of ``log`` and the lines of ``part``, each ended by LF.

    Lines that hold no event are among them only where the part is everything.
    """
    yield TimedBytes(None, log.header_line + b"\n", idle=True)
    everything = not part.from_seq and part.to_seq is None
    streams = False
    for line in log.lines(near_seq=part.from_seq):
        seen = envelope.view(line)
        if seen.n and part.to_seq is not None and seen.seq0 >= part.to_seq:
            return
        if not everything and (not seen.n or seen.seq0 + seen.n <= part.from_seq):
            continue
        is_chunk = seen.type == chunk_rows.EVENT_TYPE
        yield TimedBytes(seen.t1 if seen.n else None, line + b"\n", idle=not (is_chunk and streams))
        streams = is_chunk
