"""A fixed stretch of a file, as a file.

A log may grow while it is read. A window ends where the file ended when it was opened, so that every pass
over it sees the same bytes.
"""

from __future__ import annotations

import io
from typing import BinaryIO

PIECE_BYTES = 1 << 20


class Window(io.RawIOBase):
    """The bytes ``start <= byte < end`` of ``file``, read-only and seekable, from 0 on.

    Every read seeks first, so that several windows may share one file. Closing a window leaves the file open.
    """

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = end - start
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._file.seek(self._start + self._at)
        got = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(got)] = got
        self._at += len(got)
        return len(got)


def window(file: BinaryIO, start: int, end: int) -> BinaryIO:
    """A buffered window on ``file``."""
    return io.BufferedReader(Window(file, start, end), 1 << 16)
