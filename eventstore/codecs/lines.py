"""Codec 0, ``lines``: the lines as they are, each ended by LF.

It needs no knowledge of what the lines say, so it holds anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from playhead.eventstore.codecs.body import CodecError
from playhead.eventstore.codecs.wanted import Wanted
from playhead.eventstore.recorded import Recorded


def pieces(content: bytes, raw_len: int) -> Iterator[bytes]:
    """The lines in ``content``, as one piece. Raises ``CodecError`` when they are not ``raw_len`` bytes."""
    if len(content) != raw_len:
        raise CodecError(f"the body holds {len(content)} bytes of lines, not {raw_len}")
    yield content


def facts(content: bytes, raw_len: int, wanted: Wanted) -> Iterator[list[Recorded]]:
    """The wanted facts in ``content`` in order, those of one line at a time."""
    for piece in pieces(content, raw_len):
        yield from map(wanted.facts, piece.split(b"\n"))


def content_limit(raw_len: int) -> int:
    """How large the content of ``raw_len`` bytes of lines can be."""
    return raw_len
