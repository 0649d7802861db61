"""The compressed body of a segment: one Zstandard frame with content size and checksum.

The checksum covers the content, so a body that was changed anywhere either fails here or holds the same
content. Source: docs/formats.md, "Segments".
"""

from __future__ import annotations

import threading

import zstandard

LEVEL = 3
"""Of 1 M events in lines, bodies take 4.2 % at this level; 3.9 % at level 9, which needs five times as long."""


class _Contexts(threading.local):
    """Compression contexts, which two threads must not use at once."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


class CodecError(ValueError):
    """The body of a segment is not what its codec writes."""


def compress(content: bytes) -> bytes:
    """The body that holds ``content``."""
    return _contexts.compressor.compress(content)


def decompress(body: bytes, most_bytes: int) -> bytes:
    """The content of ``body``, at most ``most_bytes`` of it. Raises ``CodecError`` for anything else."""
    try:
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= most_bytes:
            raise CodecError(f"the body says that it holds {size} bytes, not {most_bytes} at most")
        return _contexts.decompressor.decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CodecError(f"the body cannot be decompressed: {error}") from error
