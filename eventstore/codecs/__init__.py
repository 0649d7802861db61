"""The ways in which the lines of a segment are stored, by the number that a segment names.

A number means the same content for ever: a better way gets a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from playhead.eventstore.codecs import lines, runs
from playhead.eventstore.codecs.body import CodecError, compress, decompress
from playhead.eventstore.codecs.wanted import Wanted
from playhead.eventstore.recorded import Recorded

__all__ = ["CODECS", "LINES", "RUNS", "Codec", "CodecError", "Wanted", "compress", "decompress"]


class Codec(Protocol):
    """Reads one kind of content, the decompressed body. All raise ``CodecError`` for inconsistent content."""

    def pieces(self, content: bytes, raw_len: int) -> Iterator[bytes]:
        """The lines, ``raw_len`` bytes with their LFs, some whole lines at a time."""
        ...

    def facts(self, content: bytes, raw_len: int, wanted: Wanted) -> Iterator[list[Recorded]]:
        """The wanted facts in order, some at a time."""
        ...

    def content_limit(self, raw_len: int) -> int:
        """How large the content of ``raw_len`` bytes of lines can be."""
        ...


LINES: Final = 0
RUNS: Final = 1

CODECS: Final[dict[int, Codec]] = {LINES: lines, RUNS: runs}
