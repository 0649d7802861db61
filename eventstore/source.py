"""What an adapter hands to a store: logs to interpret, and files to keep as bytes.

A store never opens a file and never knows a format; an adapter never knows a table. They meet in these
values. Paths are text with unsafe units as lone surrogates (``os.fsdecode``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from playhead.eventstore.findings import Finding
from playhead.eventstore.header import SessionHeader


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole compressed frame of a file.

    ``raw_bytes`` is the length of its content, ``size_bytes`` its length in the file. ``recipe`` names the way
    of compressing that gives its bytes again (``zstd_frames.RECIPES``); 0 means that they are kept as they are.
    """

    raw_bytes: int
    size_bytes: int
    recipe: int


@dataclass(slots=True)
class FileShape:
    """How a log lies in its file; complete once the log has been read to its end.

    The decoded log is the header line, the lines, each ended by LF, then ``tail``: what stands behind the last
    LF. For ``jsonl`` that is the file. For ``jsonl.zstd`` the first ``sum(frame.raw_bytes)`` bytes of the
    decoded log are the content of ``frames``; the file is the frames, then the last ``rest_bytes`` bytes of it,
    in which no whole frame could be found. ``kept`` holds the bytes of every frame with recipe 0, in order, and
    then the rest; its position means nothing. ``library`` is the version of libzstd that checked the recipes.
    """

    layout: str
    size_bytes: int = 0
    sha256: bytes = b""
    frames: list[Frame] = field(default_factory=list)
    tail: bytes = b""
    rest_bytes: int = 0
    kept: BinaryIO | None = None
    library: str = ""
    findings: list[Finding] = field(default_factory=list)


class LogSource(Protocol):
    """One session log in one file or database.

    ``root`` is the folder that was imported, ``path`` the place below it, with ``/`` between parts.
    ``container`` is the path of the database that the session was read from; such a log has no file of its own.
    """

    root: str
    path: str
    dialect: str
    header: SessionHeader
    header_line: bytes
    container: str | None
    shape: FileShape

    def blocks(self) -> Iterator[bytes]:
        """The lines behind the header, verbatim, each ended by LF; whole lines, about 1 MiB a block.

        Each call reads from the start. When the iterator is exhausted ``shape`` is complete.
        """
        ...

    def begins_with(self, size_bytes: int, sha256: bytes) -> bool:
        """True when the first ``size_bytes`` bytes of the file have this SHA-256; False without a file."""
        ...


@dataclass(frozen=True, slots=True)
class BytesSource:
    """A file to keep as it is. ``layout`` is ``bytes``, or ``sqlite`` for a database whose sessions are read.

    ``refused`` says why the file is not interpreted; None for a database, and for its WAL.
    """

    root: str
    path: str
    layout: str
    data: BinaryIO
    refused: Finding | None = None


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What a store remembers of a file imported before."""

    size_bytes: int
    sha256: bytes
    layout: str
    findings: tuple[Finding, ...]
    refused: Finding | None


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of one source. ``sessions`` are (id, generation) of new sessions, ``events`` facts added.

    ``changed`` is False when the store had it all before. ``findings`` are those of the file and its lines.
    """

    changed: bool
    sessions: tuple[tuple[str, int], ...] = ()
    events: int = 0
    findings: tuple[Finding, ...] = ()


class Archive(Protocol):
    """The side of a store that takes sources."""

    def known(self, root: str, path: str) -> KnownFile | None:
        """What the last import of this file left; None for a file never seen."""
        ...

    def ingest(self, source: LogSource) -> Ingested:
        """Take a log, in one transaction: new events, a new generation, or nothing. See docs/formats.md."""
        ...

    def archive(self, source: BytesSource) -> Ingested:
        """Keep a file as bytes, in one transaction."""
        ...
