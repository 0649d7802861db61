"""A readable copy of a body that travels encoded: with ``gzip``, ``deflate`` or ``zstd``.

Decodes as the pieces come, so that the moment at which something could be read is known. A body may grow to 256 MiB:
a few kilobytes can be made to stand for more than any memory holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import zstandard

LIMIT_BYTES = 256 * 2**20
"""The most that a body may come to."""


class Unreadable(Exception):
    """The body cannot be decoded; the message says why."""


class ContentDecoder(Protocol):
    """Takes a body in pieces."""

    def push(self, piece: bytes) -> bytes:
        """What ``piece`` makes readable. Raises ``Unreadable``."""
        ...


def content_decoder(headers: Iterable[tuple[str, str]]) -> ContentDecoder:
    """For the body of a message with ``headers``. Raises ``Unreadable`` for an encoding that nobody knows."""
    names = [
        name.strip().lower()
        for header, value in headers
        if header.lower() == "content-encoding"
        for name in value.split(",")
    ]
    stages = []
    for name in reversed([name for name in names if name not in ("", "identity")]):
        made = _CODECS.get(name)
        if made is None:
            raise Unreadable(f"content encoding {name!r} is not known here")
        stages.append(made())
    return _Chain(stages)


def readable_encodings(accepted: str) -> str:
    """An ``accept-encoding`` without the encodings that nobody here can read; ``identity`` where none is left."""
    kept = [
        entry.strip()
        for entry in accepted.split(",")
        if entry.partition(";")[0].strip().lower() in {*_CODECS, "identity"}
    ]
    return ", ".join(kept) or "identity"


class _Chain:
    """Several encodings on top of each other; with none, the body as it is."""

    def __init__(self, stages: list[ContentDecoder]) -> None:
        self._stages = stages
        self._left = LIMIT_BYTES

    def push(self, piece: bytes) -> bytes:
        for stage in self._stages:
            piece = stage.push(piece)
        self._left -= len(piece)
        if self._left < 0:
            raise Unreadable(f"it comes to more than {LIMIT_BYTES >> 20} MiB")
        return piece


class _Members:
    """A body of one or more compressed members, each read by an object of the kind that ``zlib`` has."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._current: Any = None

    def push(self, piece: bytes) -> bytes:
        out = bytearray()
        for at in range(0, len(piece), _SLICE_BYTES):
            self._take(piece[at : at + _SLICE_BYTES], out)
            if len(out) > LIMIT_BYTES:
                raise Unreadable(f"it comes to more than {LIMIT_BYTES >> 20} MiB")
        return bytes(out)

    def _take(self, piece: bytes, out: bytearray) -> None:
        while piece:
            if self._current is None:
                self._current = self._begin()
            try:
                out += self._current.decompress(piece)
            except (zlib.error, zstandard.ZstdError) as error:
                raise Unreadable(f"it does not decode: {error}") from error
            piece = self._current.unused_data
            if self._current.eof:
                self._current = None


class _Deflate:
    """``deflate``: with the frame of zlib, as the standard wants it, or bare, as some send it."""

    def __init__(self) -> None:
        self._head = b""
        self._members: _Members | None = None

    def push(self, piece: bytes) -> bytes:
        if self._members is None:
            self._head += piece
            if len(self._head) < _ZLIB_HEAD_BYTES:
                return b""
            has_frame = (
                self._head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(self._head[:2], "big") % 31 == 0
            )
            self._members = _Members(
                lambda: zlib.decompressobj(zlib.MAX_WBITS if has_frame else -zlib.MAX_WBITS)
            )
            piece = self._head
        return self._members.push(piece)


def _gzip() -> ContentDecoder:
    return _Members(lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))


def _zstd() -> ContentDecoder:
    return _Members(lambda: zstandard.ZstdDecompressor().decompressobj())


_CODECS: Mapping[str, Callable[[], ContentDecoder]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _Deflate,
    "zstd": _zstd,
}

_SLICE_BYTES = 1024
"""So much is decoded at a time: what it stands for fits into memory, however well it was packed."""

_ZLIB_HEAD_BYTES = 2
