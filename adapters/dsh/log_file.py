"""One log file of dsh as a source: its header, its lines, and how they lie in the file.

A plain log is UTF-8 text, every line ended by LF. A compressed log is Zstandard frames of the same text, one
for the header line and one for each batch that was written. Which of the two a file is shows in its first
bytes, not in its name. The file is opened for reading only, without a lock, and read up to the size that it
had then.

A file is refused with ``NotALog`` when no header can be read from it (``no-header``, ``bad-header``,
``newer-format``, ``bad-magic``), when it lies in the folder of another session (``id-mismatch``), when a line
is longer than can be held (``line-too-long``), when it cannot be read (``unreadable``), or when it is rewritten
under our hands (``changed``). A header that names another format version than the file does is believed: the
version says how to read the lines, and the lines do not come from the name. Source: docs/formats.md, "Files".
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, NoReturn, Self, cast

from playhead.adapters.dsh import paths
from playhead.adapters.dsh.dialects import dialect_name
from playhead.adapters.dsh.frame_reader import MAGIC, FrameReader
from playhead.adapters.dsh.window import PIECE_BYTES
from playhead.eventstore import json_text, zstd_frames
from playhead.eventstore.errors import NotALog
from playhead.eventstore.findings import Finding
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.source import FileShape

HEADER_LIMIT_BYTES = 16 << 20
"""The longest first line that is looked at; no header comes near."""

LINE_LIMIT_BYTES = 256 << 20
"""The longest line that is taken in: a line is held in memory, and a small compressed file can hold a huge one."""

_BOM = b"\xef\xbb\xbf"
_HEAD_BYTES = 64 << 10
"""How much is read at a time in search of the header, which is all of it for nearly every file."""
_SPOOL_BYTES = 8 << 20


class LogFile:
    """A ``LogSource`` for one file. Close it, or use it as a context manager.

    ``advance`` hears, during ``blocks``, how many bytes of the file are done.
    """

    container: str | None = None

    def __init__(
        self,
        file: BinaryIO,
        root: str,
        path: str,
        *,
        place: paths.Place | None = None,
        compressed_name: bool = False,
        keep_frames: bool = False,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        self.root = root
        self.path = path
        self._file = file
        self._keep_frames = keep_frames
        self._advance = advance
        self._kept: BinaryIO | None = None
        self._recipes: dict[int, int] = {}
        self._status = os.fstat(file.fileno())
        self._size = self._status.st_size
        self._read_before: bytes | None = None  # the SHA-256 that the first whole pass gave
        self._layout = self._detect(compressed_name)
        self.shape = FileShape(self._layout)
        self.header_line = self._first_line()
        self.header = SessionHeader.parse(self.header_line)
        self.dialect = dialect_name(self.header)
        self._notes = [*header_notes(self.header_line, self.header)]
        if place is not None:
            self._notes += check_place(self.header, place)

    @property
    def size_bytes(self) -> int:
        """The size of the file when it was opened."""
        return self._size

    def blocks(self) -> Iterator[bytes]:
        """The lines behind the header, each ended by LF, about 1 MiB of them at a time."""
        try:
            yield from self._blocks()
        except OSError as error:
            raise NotALog("unreadable", f"reading failed: {error.strerror or error}") from error

    def _blocks(self) -> Iterator[bytes]:
        shape = self.shape = FileShape(self._layout, self._size, findings=list(self._notes))
        digest = hashlib.sha256()
        reader: FrameReader | None = None
        pieces = self._hashed(digest)
        if self._layout == "jsonl.zstd":
            for _ in pieces:
                pass
            shape.library = zstd_frames.LIBRARY
            reader = self._frame_reader(shape)
            pieces = reader.pieces()
        split = _Lines(self.header_line + b"\n")
        yield from split.whole(pieces)
        shape.sha256 = digest.digest()
        shape.tail = split.tail
        crlf = split.crlf + self.header_line.endswith(b"\r")
        if crlf:
            shape.findings.append(Finding("crlf", f"{crlf} lines end in CR LF", severity="note"))
        if shape.tail and not (reader and reader.salvaged):
            shape.findings.append(_torn_tail(shape.tail, split.lines + 1, split.offset))
        if shape.frames and shape.frames[0].raw_bytes != len(self.header_line) + 1:
            message = "the first frame does not hold exactly the header line"
            shape.findings.append(Finding("header-frame", message, line=1, byte=0, severity="note"))
        self._check_unchanged(shape.sha256)

    def sha256(self) -> bytes:
        """The SHA-256 of the file, 32 bytes."""
        digest = hashlib.sha256()
        for _ in self._hashed(digest):
            pass
        return digest.digest()

    def begins_with(self, size_bytes: int, sha256: bytes) -> bool:
        """True when the first ``size_bytes`` bytes of the file have this SHA-256."""
        if size_bytes > self._size:
            return False
        digest = hashlib.sha256()
        for piece in self._pieces(size_bytes, PIECE_BYTES):
            digest.update(piece)
        return digest.digest() == sha256

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hashed(self, digest: hashlib._Hash) -> Iterator[bytes]:
        """The bytes of the file in pieces, each of them added to ``digest``."""
        done = 0
        for piece in self._pieces(self._size, PIECE_BYTES):
            digest.update(piece)
            done += len(piece)
            if self._advance and self._layout == "jsonl":
                self._advance(done)
            yield piece

    def _pieces(self, size_bytes: int, piece_bytes: int) -> Iterator[bytes]:
        """The first bytes of the file, ``piece_bytes`` at a time; fewer when it was cut under our hands."""
        for at in range(0, size_bytes, piece_bytes):
            self._file.seek(at)
            yield self._file.read(min(piece_bytes, size_bytes - at))

    def _frame_reader(self, shape: FileShape) -> FrameReader:
        if self._kept is not None:
            self._kept.close()
        spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed with the log
        kept = cast(BinaryIO, spool)
        self._kept = shape.kept = kept
        return FrameReader(
            self._file,
            self._size,
            shape,
            kept,
            self._recipes,
            keep_all=self._keep_frames,
            advance=self._advance,
        )

    def _detect(self, compressed_name: bool) -> str:
        """The layout that the first bytes of the file tell."""
        self._file.seek(0)
        head = self._file.read(min(len(MAGIC), self._size))
        if not head:
            raise NotALog("no-header", "the file is empty: no header")
        if head == MAGIC or (compressed_name and MAGIC.startswith(head)):
            return "jsonl.zstd"
        if compressed_name and head[:1] not in b"{ \t" and not head.startswith(_BOM):
            raise NotALog("bad-magic", "no zstd frame begins at byte 0")
        return "jsonl"

    def _first_line(self) -> bytes:
        """The first line of the log, without its LF. Raises ``NotALog`` when there is no whole one."""
        pieces = self._pieces(self._size, _HEAD_BYTES)
        if self._layout == "jsonl.zstd":
            pieces = FrameReader(self._file, self._size, FileShape(self._layout), io.BytesIO(), {}).pieces()
        head = bytearray()
        for piece in pieces:
            head += piece
            end = head.find(b"\n", len(head) - len(piece))
            if end >= 0:
                return bytes(head[:end])
            if len(head) > HEADER_LIMIT_BYTES:
                raise NotALog("no-header", f"no line ends in the first {HEADER_LIMIT_BYTES} bytes: no header")
        raise NotALog("no-header", "the header line is not complete: the log ends inside it")

    def _check_unchanged(self, sha256: bytes) -> None:
        """Raise ``NotALog`` of kind ``changed`` when the bytes that were read are not there any more, or are
        not those of an earlier pass."""
        now = os.fstat(self._file.fileno())
        same = (now.st_mtime_ns, now.st_size) == (self._status.st_mtime_ns, self._status.st_size)
        if now.st_size < self._size or self._read_before not in (None, sha256):
            raise _changed()
        if not same and self.sha256() != sha256:
            raise _changed()
        self._read_before = sha256


def _changed() -> NotALog:
    return NotALog("changed", "the file was rewritten while it was read; import it again")


def open_log(
    file: str,
    root: str,
    path: str,
    *,
    keep_frames: bool = False,
    advance: Callable[[int], None] | None = None,
) -> LogFile:
    """The log in ``file``, which a store knows as ``path`` below ``root``. Raises ``NotALog``.

    With ``keep_frames`` every compressed frame is kept as it is; otherwise those are that no recipe makes.
    """
    try:
        opened = open_file(file)
        try:
            return LogFile(
                opened,
                root,
                path,
                place=paths.place(os.path.abspath(file).replace(os.sep, "/")),
                compressed_name=file.endswith(".zstd"),
                keep_frames=keep_frames,
                advance=advance,
            )
        except BaseException:
            opened.close()
            raise
    except OSError as error:
        raise NotALog("unreadable", error.strerror or str(error)) from error


def open_file(file: str) -> BinaryIO:
    """``file``, opened for reading. Raises ``OSError``, also for what is no regular file."""
    opened = open(file, "rb", buffering=0, opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        return opened
    opened.close()
    raise OSError(errno.EINVAL, "not a regular file", file)


def _without_waiting(file: str, flags: int) -> int:
    """Open a file so that a pipe, put in its place, does not make us wait for a writer."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def header_notes(line: bytes, header: SessionHeader) -> list[Finding]:
    """What is remarkable about a header line that can be read."""
    notes = []
    if line.startswith(_BOM):
        message = "the file begins with a byte order mark"
        notes.append(Finding("bom", message, line=1, byte=0, severity="note"))
    for key in header.extra:
        message = f"the header has a member {key!r} that no format knows"
        notes.append(Finding("extra-header-field", message, line=1, byte=0, severity="note"))
    return notes


def check_place(header: SessionHeader, place: paths.Place) -> list[Finding]:
    """What is remarkable about where the log lies. Raises ``NotALog`` in the folder of another session."""
    if not header.id or paths.session_segment(header.id) != place.session:
        raise NotALog("id-mismatch", f"header id {header.id!r} does not match its folder {place.session!r}")
    notes = []
    if paths.project_segment(header.cwd) != place.project:
        message = f"the working directory {header.cwd!r} does not lead to the folder {place.project!r}"
        notes.append(Finding("other-folder", message, line=1, byte=0, severity="note"))
    if header.version != place.name.version:
        message = f"the file is named for format {place.name.version}, its header says {header.version}"
        notes.append(Finding("other-version", message, line=1, byte=0, severity="note"))
    return notes


def _torn_tail(tail: bytes, line: int, byte: int) -> Finding:
    message = f"torn tail: {len(tail)} bytes after byte {byte} without a line end"
    try:
        json_text.parse(tail)
    except (ValueError, RecursionError):
        pass
    else:
        message += "; they are a whole record"
    return Finding("torn-tail", message, line=line, byte=byte, size_bytes=len(tail))


class _Lines:
    """Cuts a decoded log into blocks of whole lines, of about 1 MiB each.

    The first bytes must be those of ``header``, which was read before, and are passed over. Afterwards
    ``lines`` counts the lines with the header, ``crlf`` those that end in CR LF without it, ``offset`` is where
    ``tail`` begins.
    """

    def __init__(self, header: bytes) -> None:
        self._header = header
        self.lines = 1
        self.crlf = 0
        self.offset = len(header)
        self.tail = b""

    def whole(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The blocks; ``pieces`` may be cut anywhere."""
        ready: list[bytes | memoryview] = []
        ready_bytes = 0
        unfinished: list[bytes | memoryview] = []
        unfinished_bytes = 0
        expected = memoryview(self._header)
        for piece in pieces:
            view = memoryview(piece)
            start = min(len(expected), len(piece))
            if view[:start] != expected[:start]:
                raise _changed()
            expected = expected[start:]
            end = piece.rfind(b"\n", start) + 1
            if not end:
                unfinished.append(view[start:])
                unfinished_bytes += len(piece) - start
                if unfinished_bytes > LINE_LIMIT_BYTES:
                    self._refuse_line(b"".join(ready).count(b"\n"), ready_bytes)
                continue
            ready += [*unfinished, view[start:end]]
            ready_bytes += unfinished_bytes + end - start
            unfinished = [view[end:]]
            unfinished_bytes = len(piece) - end
            if ready_bytes >= PIECE_BYTES:
                yield self._block(ready)
                ready, ready_bytes = [], 0
        if ready:
            yield self._block(ready)
        self.tail = b"".join(unfinished)

    def _refuse_line(self, ready_lines: int, ready_bytes: int) -> NoReturn:
        line, byte = self.lines + ready_lines + 1, self.offset + ready_bytes
        message = f"a line is longer than {LINE_LIMIT_BYTES} bytes"
        raise NotALog("line-too-long", message, line=line, byte=byte)

    def _block(self, ready: list[bytes | memoryview]) -> bytes:
        block = b"".join(ready)
        self.lines += block.count(b"\n")
        if b"\r" in block:
            self.crlf += block.count(b"\r\n")
        self.offset += len(block)
        return block
