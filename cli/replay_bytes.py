"""A piece of a replay that is bytes, whatever they stand for."""

from __future__ import annotations

from typing import NamedTuple


class TimedBytes(NamedTuple):
    """``data`` was there at ``time_ms``, epoch milliseconds; None is "with the piece before".

    ``idle`` is false for a piece that goes on with a stream of chunks.
    """

    time_ms: int | None
    data: bytes
    idle: bool
