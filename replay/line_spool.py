"""Lines that are put aside until all of them are there: in memory while they are few, else in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self

_IN_MEMORY_BYTES = 16 << 20
_BLOCK_BYTES = 1 << 20


class LineSpool:
    """Takes lines, then gives them back as often as asked. The temporary file is gone when the context ends."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - see __exit__

    def add(self, line: bytes) -> None:
        """Take the next line, without its end."""
        self._file.write(line)
        self._file.write(b"\n")

    def blocks(self) -> Iterator[bytes]:
        """The lines in blocks of about 1 MiB, each line ended by LF."""
        self._file.seek(0)
        while block := self._file.read(_BLOCK_BYTES):
            yield block + self._file.readline() if not block.endswith(b"\n") else block

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
