"""Log sources made in memory, for tests that need a store but no adapter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from playhead.eventstore import json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.source import FileShape


def header(session: str = "s-1", *, created_ms: int = 1_780_000_000_000, version: int = 0) -> SessionHeader:
    """A header with the given id."""
    return SessionHeader(SessionId(session), created_ms, version=version, cwd="/home/ada/demo")


def event_line(seq: int, type: str = "turn/start", time_ms: int | None = None, **data: object) -> bytes:
    """One event as a log line, without its line end."""
    time = 1_780_000_000_000 + seq if time_ms is None else time_ms
    return json_text.dumps({"type": type, "seq": seq, "time": time, "data": data})


class MemorySource:
    """A plain log whose bytes are given: the header line, the lines, and a tail without a line end."""

    container: str | None = None

    def __init__(
        self,
        session: SessionHeader,
        lines: Sequence[bytes],
        *,
        tail: bytes = b"",
        root: str = "/logs",
        path: str = "s.jsonl",
        dialect: str = "dsh-v0",
        block_lines: int = 100,
    ) -> None:
        self.root = root
        self.path = path
        self.dialect = dialect
        self.header = session
        self.header_line = session.line()
        self.lines = list(lines)
        self.tail = tail
        self.block_lines = block_lines
        self.shape = FileShape("jsonl")

    @property
    def file(self) -> bytes:
        """The whole file."""
        return b"".join(line + b"\n" for line in [self.header_line, *self.lines]) + self.tail

    def begins_with(self, size_bytes: int, sha256: bytes) -> bool:
        return hashlib.sha256(self.file[:size_bytes]).digest() == sha256

    def blocks(self) -> Iterator[bytes]:
        for at in range(0, len(self.lines), self.block_lines):
            yield b"".join(line + b"\n" for line in self.lines[at : at + self.block_lines])
        self.shape = FileShape(
            "jsonl", size_bytes=len(self.file), sha256=hashlib.sha256(self.file).digest(), tail=self.tail
        )
