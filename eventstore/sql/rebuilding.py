"""Files given back: from lines, frames and kept parts to the bytes as they lay on disk.

The SHA-256 of the whole file is checked at the end of every rebuild.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from playhead.eventstore import zstd_frames
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.source import Frame
from playhead.eventstore.sql import artifacts, reading, session_row
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.engine import Reads


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild gave: ``same`` when the bytes are the file's; else ``reason`` says what they are instead."""

    same: bool
    reason: str = ""


def rebuild(reads: Reads, row: artifacts.ArtifactRow, out: BinaryIO) -> Rebuilt:
    """Write the bytes of the file to ``out`` and check them.

    Where the installed libzstd does not give a stored recipe's bytes again, the same content is written in
    frames that any reader decodes, and the result says so. Raises ``CorruptLog`` when stored bytes are damaged.
    """
    envelope = row.opened()
    checked = _Checked(out)
    if row.layout == "jsonl.zstd":
        _write_frames(reads, row, envelope, checked)
    elif row.layout == "jsonl":
        for piece in decoded(reads, row):
            checked.write(piece)
    else:
        for piece in parts(reads, row):
            checked.write(piece)
    if checked.digest() == row.sha256:
        return Rebuilt(True)
    if envelope.library not in ("", zstd_frames.LIBRARY):
        return Rebuilt(
            False,
            f"the compressed container differs from the original: libzstd {zstd_frames.LIBRARY} does not give "
            f"the bytes that libzstd {envelope.library} gave; the decoded lines are the same, and an installation with "
            f"libzstd {envelope.library} (python-zstandard 0.24 or 0.25 for 1.5.7) gives the original file",
        )
    raise CorruptLog(
        unescape(row.path),
        f"the rebuilt file does not have the SHA-256 of the original{reading.ADVICE}",
        kind="bad-artifact",
    )


def decoded(reads: Reads, row: artifacts.ArtifactRow) -> Iterator[bytes]:
    """The decoded log of a file: header, lines, tail."""
    envelope = row.opened()
    fetch = reading.paged(reads)
    for at, span in enumerate(envelope.spans):
        with reads() as link:
            owner = session_row.load(link, span.session_id)
        if at == 0:
            yield owner.header_line() + b"\n"
        yield from reading.blocks(fetch, owner, span.line0, span.line0 + span.lines)
    yield envelope.tail


def _write_frames(
    reads: Reads, row: artifacts.ArtifactRow, envelope: artifacts.Envelope, out: _Checked
) -> None:
    """Write a compressed log frame by frame."""
    content = _Reader(decoded(reads, row))
    kept = _Reader(parts(reads, row))
    for frame in (Frame(*values) for values in envelope.frames):
        pieces = content.take(frame.raw_bytes)
        if frame.recipe == 0:
            for _ in pieces:
                pass  # the kept bytes stand for this content
            for piece in kept.take(frame.size_bytes):
                out.write(piece)
            continue
        for piece in zstd_frames.compress(frame.recipe, pieces):
            out.write(piece)
    for piece in kept.take(envelope.rest_bytes):
        out.write(piece)


def parts(reads: Reads, row: artifacts.ArtifactRow) -> Iterator[bytes]:
    """The bytes of the parts of an artifact, in order."""
    decompressor = zstandard.ZstdDecompressor()
    number = 0
    while True:
        with reads() as link:
            found = link.one(
                "SELECT body FROM artifact_part WHERE artifact_id = ? AND part_no = ?", (row.id, number)
            )
        if found is None:
            return
        try:
            yield decompressor.decompress(found[0])
        except zstandard.ZstdError as error:
            raise CorruptLog(
                unescape(row.path),
                f"part {number} of the file cannot be decoded: {error}",
                kind="bad-artifact",
            ) from error
        number += 1


class _Checked:
    """Writes through, and hashes what went by."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._hash = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        self._hash.update(piece)
        self._out.write(piece)

    def digest(self) -> bytes:
        return self._hash.digest()


class _Reader:
    """Takes exact amounts from a stream of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def take(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes, or fewer at the end, in pieces."""
        while size > 0:
            if not self._left:
                piece = next(self._pieces, None)
                if piece is None:
                    return
                self._left = memoryview(piece)
                continue
            part = self._left[:size]
            self._left = self._left[len(part) :]
            size -= len(part)
            yield bytes(part)
