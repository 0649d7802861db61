"""Reads a compressed log frame by frame: its content, and what is needed to make the file again.

A frame with a wrong checksum gives its content and is reported. A stretch that is no valid frame (a frame
torn by a crash that somebody wrote on behind, foreign bytes, a skippable frame) gives what its whole blocks
hold, and reading goes on at the next place where a whole frame with the right checksum begins. When there is
none, the rest of the file is kept undecoded, but for the whole blocks of a torn last frame.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO

from playhead.adapters.dsh.window import PIECE_BYTES, window
from playhead.eventstore import zstd_frames
from playhead.eventstore.findings import Finding
from playhead.eventstore.source import FileShape, Frame

MAGIC = b"\x28\xb5\x2f\xfd"
_SMALL_BLOCKS = 8
_SEARCH_TIMES = 4
"""Looking for whole frames behind trouble ends when so many times the file has been walked: a file can be made of
beginnings that all seem to go on to its end."""
_LOOK_BYTES = 4096
"""What looking at one place costs at least, in bytes walked."""


class FrameReader:
    """Reads the first ``size`` bytes of ``file``, and notes frames, kept bytes and findings in ``shape``.

    With ``keep_all`` every frame is kept as it is, and no recipe is tried. ``recipes`` remembers what was
    found for the frame at each byte, so that a second pass need not try again. ``advance`` hears how many
    bytes of the file are done. After the last piece, ``salvaged`` is how many bytes came out of the rest.
    """

    def __init__(
        self,
        file: BinaryIO,
        size: int,
        shape: FileShape,
        kept: BinaryIO,
        recipes: dict[int, int],
        *,
        keep_all: bool = False,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        self._file = file
        self._size = size
        self._shape = shape
        self._kept = kept
        self._recipes = recipes
        self._keep_all = keep_all
        self._advance = advance
        self._search_bytes = _SEARCH_TIMES * (size + PIECE_BYTES)
        self.salvaged = 0

    def pieces(self) -> Iterator[bytes]:
        """The decoded log, in pieces of at most about 1 MiB."""
        at = 0
        while at < self._size:
            at = yield from self._run(at)

    def _run(self, base: int) -> Generator[bytes, None, int]:
        """The content of the frames from ``base`` on, up to trouble; returns where to go on."""
        view = window(self._file, base, self._size)
        walk = zstd_frames.FrameWalk(view)
        for span in walk:
            resume = yield from self._frame(view, base, span)
            if self._advance:
                self._advance(resume)
            if resume != base + span.end:
                return resume
        stop = walk.stop
        if stop is None or stop.kind == "end":
            return self._size
        return (yield from self._stretch(base + stop.byte, stop))

    def _frame(self, view: BinaryIO, base: int, span: zstd_frames.FrameSpan) -> Generator[bytes, None, int]:
        """The content of one frame; returns where the next one begins."""
        content: list[bytes] = []
        raw_bytes = 0
        small = span.blocks <= _SMALL_BLOCKS
        end = base + span.end
        start = base + span.start
        try:
            for piece in zstd_frames.decode(view, span):
                raw_bytes += len(piece)
                if small:
                    content.append(piece)
                yield piece
        except zstd_frames.BadFrame as error:
            message = f"the frame at byte {start} is damaged"
            if error.checksum:
                message += ": its checksum does not fit its content, which is shown all the same"
            else:
                inside = self._next_frame(start + 1, end)
                end = end if inside is None else inside
                message += f": only the first {raw_bytes} bytes of its content can be decoded"
            self._report("bad-frame", message, start, end)
            self._keep(start, end)
            self._shape.frames.append(Frame(raw_bytes, end - start, 0))
            return end
        recipe = self._recipes.get(start, 0)
        if start not in self._recipes and not self._keep_all:
            recipe = self._recipes[start] = self._recipe(view, span, content if small else None)
        if not recipe:
            self._keep(start, end)
        self._shape.frames.append(Frame(raw_bytes, end - start, recipe))
        return end

    def _recipe(self, view: BinaryIO, span: zstd_frames.FrameSpan, content: list[bytes] | None) -> int:
        pieces = zstd_frames.decode(view, span, verify_checksum=False) if content is None else content
        return zstd_frames.recipe_for(pieces, zstd_frames.frame_pieces(view, span))

    def _stretch(self, start: int, stop: zstd_frames.Stop) -> Generator[bytes, None, int]:
        """What can be decoded from ``start`` on, where no frame begins; returns where one does."""
        resume = self._next_frame(start + 1, self._size)
        end = self._size if resume is None else resume
        raw_bytes = lines = 0
        for piece in zstd_frames.salvage(window(self._file, start, end), 0):
            raw_bytes += len(piece)
            lines += piece.count(b"\n")
            yield piece
        self._keep(start, end)
        message = _MESSAGES[stop.kind].format(start=start, size=end - start)
        if raw_bytes:
            message += f"; {raw_bytes} bytes of its content, {lines} line ends among them, could be decoded"
        if resume is None:
            self._shape.rest_bytes = end - start
            self.salvaged = raw_bytes
        else:
            self._shape.frames.append(Frame(raw_bytes, end - start, 0))
            message += f"; whole frames go on at byte {end}"
        self._report(stop.kind, message, start, end)
        return end

    def _next_frame(self, start: int, end: int) -> int | None:
        """Where, in ``start <= byte < end``, the next whole frame with the right checksum begins."""
        for at in self._magics(start, end):
            if self._search_bytes <= 0:
                return None
            view = window(self._file, at, self._size)
            span = next(iter(zstd_frames.FrameWalk(view)), None)
            self._search_bytes -= max(view.tell(), _LOOK_BYTES)
            if span is None or not span.checksum:
                continue
            try:
                for _ in zstd_frames.decode(view, span):
                    pass
            except zstd_frames.BadFrame:
                continue
            return at
        return None

    def _magics(self, start: int, end: int) -> Iterator[int]:
        """The places of the frame magic in ``start <= byte < end``."""
        while start < end:
            self._file.seek(start)
            piece = self._file.read(min(PIECE_BYTES, self._size - start))
            at = piece.find(MAGIC)
            while at >= 0:
                if start + at < end:
                    yield start + at
                at = piece.find(MAGIC, at + 1)
            if len(piece) < PIECE_BYTES:
                return
            start += len(piece) - len(MAGIC) + 1

    def _keep(self, start: int, end: int) -> None:
        for at in range(start, end, PIECE_BYTES):
            self._file.seek(at)
            self._kept.write(self._file.read(min(PIECE_BYTES, end - at)))

    def _report(self, kind: str, message: str, start: int, end: int) -> None:
        self._shape.findings.append(Finding(kind, message, byte=start, size_bytes=end - start))


_MESSAGES = {
    "torn-frame": "the {size} bytes from byte {start} on are an unfinished frame",
    "bad-magic": "no frame begins at byte {start}",
    "skippable-frame": "a skippable frame at byte {start} has no place in a log",
    "bad-frame": "the frame at byte {start} is damaged: its header or a block has a reserved value",
}
