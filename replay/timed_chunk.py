"""A chunk and the time at which it came."""

from __future__ import annotations

from typing import NamedTuple

from playhead.eventstore.chunks import Chunk


class TimedChunk(NamedTuple):
    """``time_ms`` is epoch milliseconds as recorded; it may lie before that of the chunk before it."""

    time_ms: int
    chunk: Chunk
