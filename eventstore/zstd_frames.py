"""Zstandard frames: where they lie in a file, what they hold, and how their bytes can be made again.

A compressed log is a plain concatenation of frames. One frame::

    magic          28 b5 2f fd
    descriptor     1 byte: content size flag (bits 7, 6), single segment (5), reserved (4, 3), checksum (2),
                   dictionary id flag (1, 0)
    window         1 byte, unless single segment
    dictionary id  0, 1, 2 or 4 bytes
    content size   0, 2, 4 or 8 bytes; 1 byte for flag 0 of a single segment; 2 bytes count from 256
    blocks         3 bytes, low first: last (bit 0), type (1, 2), size (3 to 23), then the payload:
                   type 0 ``size`` bytes as they are, 1 one byte repeated ``size`` times, 2 ``size`` bytes
                   compressed; type 3 is reserved
    checksum       4 bytes, when flagged

Frames are found by walking the block headers, never by searching for the magic, which also turns up inside
frames. The walk reads headers only, so a file may have any size.

A frame need not be stored when a *recipe* gives its bytes again from its content. Whether it does depends on
the version of libzstd, so that a recipe is found by trying and ``LIBRARY`` is kept beside it.
Source: RFC 8878, section 3; docs/formats.md, "Compressed files".
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import BinaryIO, Literal, NamedTuple

import zstandard

LIBRARY = ".".join(str(part) for part in zstandard.ZSTD_VERSION)
"""The version of libzstd that compresses here."""

PIECE_BYTES = 1 << 20
"""Size of the pieces in which content goes into a compressor, and about that in which it comes out."""

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # behind a first byte of 0x50 to 0x5f
_LONGEST_HEADER = 18
_BLOCKS_AT_ONCE = 8  # each holds at most 128 KiB


class FrameSpan(NamedTuple):
    """One whole frame at ``start <= byte < end`` of its file.

    ``content_size`` is the declared length of its content, None where it declares none. ``header_bytes`` is
    the length of everything before the first block, ``blocks`` the number of blocks.
    """

    start: int
    end: int
    content_size: int | None
    checksum: bool
    header_bytes: int
    blocks: int


StopKind = Literal["end", "torn-frame", "bad-magic", "skippable-frame", "bad-frame"]


class Stop(NamedTuple):
    """Why a walk went no further: at ``byte``, the end of the file or the start of what is no whole frame."""

    kind: StopKind
    byte: int
    message: str


class BadFrame(ValueError):
    """A frame that cannot be decoded; ``checksum`` is True when only its checksum does not fit."""

    def __init__(self, start: int, message: str, *, checksum: bool = False) -> None:
        self.start = start
        self.checksum = checksum
        super().__init__(f"the frame at byte {start} {message}")


class FrameWalk:
    """Iterates over the whole frames of a file from its start; ``stop`` tells afterwards why it ended.

    The file must be seekable and buffered; it is read up to the size it has when the walk is made.
    """

    def __init__(self, data: BinaryIO | bytes) -> None:
        self._file = _opened(data)
        self._size = self._file.seek(0, io.SEEK_END)
        self.stop: Stop | None = None

    def __iter__(self) -> Iterator[FrameSpan]:
        at = 0
        while at < self._size:
            found = self._frame_at(at)
            if isinstance(found, Stop):
                self.stop = found
                return
            yield found
            at = found.end
        self.stop = Stop("end", at, "the file ends with a whole frame")

    def _frame_at(self, start: int) -> FrameSpan | Stop:
        head = _read(self._file, start, _LONGEST_HEADER, self._size)
        torn = Stop("torn-frame", start, f"the last {self._size - start} bytes are an unfinished frame")
        if len(head) < len(_MAGIC):
            return torn
        if not head.startswith(_MAGIC):
            if head[0] & 0xF0 == 0x50 and head[1:4] == _SKIPPABLE:
                return Stop("skippable-frame", start, "a skippable frame has no place in a log")
            return Stop("bad-magic", start, "no frame begins here")
        if len(head) == len(_MAGIC):
            return torn
        descriptor = head[len(_MAGIC)]
        if descriptor & _RESERVED:
            return Stop("bad-frame", start, "the frame sets reserved bits in its descriptor")
        header_bytes, content_size = _header(head)
        if header_bytes > len(head):
            return torn
        count = 0
        final = None
        for final in _blocks(self._file, start + header_bytes, self._size):  # noqa: B007
            count += 1
        if final is None:
            return torn
        if final.reserved:
            return Stop("bad-frame", start, f"block {count} of the frame has a reserved type")
        checksum = bool(descriptor & _CHECKSUM)
        end = final.end + (_CHECKSUM_BYTES if checksum else 0)
        if not final.last or end > self._size:
            return torn
        return FrameSpan(start, end, content_size, checksum, header_bytes, count)


def frame_pieces(data: BinaryIO | bytes, span: FrameSpan) -> Iterator[bytes]:
    """The bytes of a frame as they lie in its file, in pieces of at most ``PIECE_BYTES``."""
    file = _opened(data)
    for at in range(span.start, span.end, PIECE_BYTES):
        yield _read(file, at, PIECE_BYTES, span.end)


def decode(data: BinaryIO | bytes, span: FrameSpan, *, verify_checksum: bool = True) -> Iterator[bytes]:
    """The content of a frame, in pieces of at most about ``PIECE_BYTES``.

    Raises ``BadFrame`` for a frame that is no valid one; the content of the blocks before the bad one has
    come by then, and all of it where only the checksum is wrong. ``verify_checksum=False`` passes over that.
    """
    file = _opened(data)
    if span.blocks <= _BLOCKS_AT_ONCE:
        raw = _read(file, span.start, span.end - span.start, span.end)
        content = _decoded_at_once(raw, span.checksum and not verify_checksum)
        if content is not None:
            yield content
            return
    decoder = zstandard.ZstdDecompressor().decompressobj()
    first_block = span.start + span.header_bytes
    try:
        decoder.decompress(_read(file, span.start, span.header_bytes, span.end))
        for block in _blocks(file, first_block, span.end):
            yield decoder.decompress(_read(file, block.start, block.end - block.start, block.end))
    except zstandard.ZstdError as error:
        raise BadFrame(span.start, f"cannot be decoded: {error}") from error
    if span.checksum and verify_checksum:
        try:
            decoder.decompress(_read(file, span.end - _CHECKSUM_BYTES, _CHECKSUM_BYTES, span.end))
        except zstandard.ZstdError as error:
            message = "has a checksum that its content does not give"
            raise BadFrame(span.start, message, checksum=True) from error


def salvage(data: BinaryIO | bytes, start: int) -> Iterator[bytes]:
    """What can be decoded of the torn or bad frame at ``start``: its blocks up to the first unusable one.

    Raises nothing, and looks at no checksum. The content may end anywhere in a line.
    """
    file = _opened(data)
    size = file.seek(0, io.SEEK_END)
    head = _read(file, start, _LONGEST_HEADER, size)
    if len(head) <= len(_MAGIC) or not head.startswith(_MAGIC):
        return
    header_bytes, _ = _header(head)
    decoder = zstandard.ZstdDecompressor().decompressobj()
    try:
        decoder.decompress(head[:header_bytes])
        for block in _blocks(file, start + header_bytes, size):
            if block.reserved:
                return
            yield decoder.decompress(_read(file, block.start, block.end - block.start, block.end))
    except zstandard.ZstdError:
        return


class Recipe(NamedTuple):
    """A way of compressing. Both write a checksum.

    With ``content_size`` the content is compressed in one call, which is told its length; such a frame has at
    most ``ONE_SHOT_BYTES`` of content. Otherwise it goes through a stream that does not know its length.
    """

    level: int
    content_size: bool


RECIPES: Mapping[int, Recipe] = MappingProxyType({1: Recipe(3, False), 2: Recipe(3, True)})
"""The ways of compressing by their number. 1 is how a released dsh writes. 0 is no recipe: bytes are kept."""

ONE_SHOT_BYTES = 16 << 20
"""The longest content that is compressed in one call, and held in memory for it."""


def recipe_for(content: Iterable[bytes], frame: bytes | Iterable[bytes]) -> int:
    """The recipe that makes exactly ``frame`` from ``content``, both given in any pieces; 0 if none does."""
    pieces = iter((frame,) if isinstance(frame, bytes) else frame)
    head = b""
    while len(head) < _LONGEST_HEADER and (piece := next(pieces, None)) is not None:
        head += piece
    if len(head) <= len(_MAGIC) or not head.startswith(_MAGIC) or not head[len(_MAGIC)] & _CHECKSUM:
        return 0
    _, content_size = _header(head)
    if content_size is not None and content_size > ONE_SHOT_BYTES:
        return 0
    recipe = 1 if content_size is None else 2
    return recipe if _same(compress(recipe, content), chain((head,), pieces)) else 0


def compress(recipe: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The frame that a recipe makes from the content in ``pieces``, however that is cut, in pieces again.

    Raises ``ValueError`` for a number that is no recipe, and for content too long for it.
    """
    if recipe not in RECIPES:
        raise ValueError(f"{recipe} is no way of compressing")
    if RECIPES[recipe].content_size:
        content = bytearray()
        for piece in pieces:
            content += piece
            if len(content) > ONE_SHOT_BYTES:
                raise ValueError(f"recipe {recipe} takes at most {ONE_SHOT_BYTES} bytes of content")
        yield _thread.compressors[recipe].compress(content)
        return
    cut = _recut(pieces)
    first, second = next(cut, b""), next(cut, None)
    if second is None:
        stream = _thread.compressors[recipe].compressobj()
        yield stream.compress(first) + stream.flush()
        return
    stream = _compressor(RECIPES[recipe]).compressobj()
    for piece in chain((first, second), cut):
        yield stream.compress(piece)
    yield stream.flush()


def write_frame(content: bytes) -> bytes:
    """``content`` as the frame that a released dsh would write."""
    return b"".join(compress(1, (content,)))


_CHECKSUM = 0x04
_CHECKSUM_BYTES = 4
_RESERVED = 0x18
_SINGLE_SEGMENT = 0x20


class _Block(NamedTuple):
    """One block at ``start <= byte < end``; nothing is known of what follows a ``reserved`` one."""

    start: int
    end: int
    last: bool
    reserved: bool


def _blocks(file: BinaryIO, at: int, size: int) -> Iterator[_Block]:
    """The whole blocks from ``at`` on, up to the last of the frame, a reserved one, or the file's end."""
    while True:
        header = int.from_bytes(_read(file, at, 3, size), "little")
        last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
        end = at + 3 + (1 if kind == 1 else length)
        if at + 3 > size or (end > size and kind != 3):
            return
        yield _Block(at, end, last, kind == 3)
        if last or kind == 3:
            return
        at = end


def _header(head: bytes) -> tuple[int, int | None]:
    """The length of the frame header that begins with ``head``, and the content size that it declares."""
    descriptor = head[len(_MAGIC)]
    single = bool(descriptor & _SINGLE_SEGMENT)
    size_flag = descriptor >> 6
    size_bytes = (1 if single else 0, 2, 4, 8)[size_flag]
    at = len(_MAGIC) + 1 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    if not size_bytes:
        return at, None
    declared = int.from_bytes(head[at : at + size_bytes], "little")
    return at + size_bytes, declared + (256 if size_flag == 1 else 0)


def _decoded_at_once(raw: bytes, drop_checksum: bool) -> bytes | None:
    """The content of a small frame; None when anything is wrong with it."""
    if drop_checksum:
        raw = raw[:-_CHECKSUM_BYTES]
    try:
        return _thread.decompressor.decompressobj().decompress(raw)
    except zstandard.ZstdError:
        return None


def _same(left: Iterable[bytes], right: Iterator[bytes]) -> bool:
    """True when both give the same bytes, however they are cut."""
    waiting = b""
    for piece in left:
        while len(waiting) < len(piece):
            more = next(right, None)
            if more is None:
                return False
            waiting += more
        if not waiting.startswith(piece):
            return False
        waiting = waiting[len(piece) :]
    return not waiting and not any(right)


def _recut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of exactly ``PIECE_BYTES``, the last one shorter."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)


def _opened(data: BinaryIO | bytes) -> BinaryIO:
    return io.BytesIO(data) if isinstance(data, bytes) else data


def _read(file: BinaryIO, at: int, size: int, end: int) -> bytes:
    """At most ``size`` bytes from ``at`` on, none of them behind ``end``."""
    file.seek(at)
    return file.read(max(0, min(size, end - at)))


def _compressor(recipe: Recipe) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(
        level=recipe.level, write_checksum=True, write_content_size=recipe.content_size
    )


class _Contexts(threading.local):
    """Contexts that are dear to make and serve one operation at a time: for work done within one call."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors = {number: _compressor(recipe) for number, recipe in RECIPES.items()}


_thread = _Contexts()
