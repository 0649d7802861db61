"""Codec 1, ``runs``: token deltas in columns, every other line nearly as it is.

The content is the first seq (uint64, little-endian), five columns (``columns.py``), and the stream::

    gaps     ms between the times of one placed fact and the placed fact before it; the first counts from 0
    sizes    bytes of the text of each delta in a run
    lengths  lines of each run
    jumps    what the marks ``jump`` and ``row`` take, in the order of the stream
    lists    what the marks ``list`` take

The stream is the lines in order, with marks that stand for what was cut out. A fact is *placed* when its seq
and time are cut out; its seq is then the one behind the placed fact or the jump before it.

    01  hole   in a line that begins {"type":"T": the text ,"seq":SEQ,"time":TIME,"data":
    02  run    delta lines: middle, 03, and the texts of ``length`` deltas end to end (``delta_run.py``)
    04  list   in a line with a hole: consecutive integers with commas between; takes their number, and how
               far the first lies before the next seq as it was after the last run, row or jump
    05  jump   before the LF of a line without hole: the next seq is higher by the number taken
    06  row    before a sound chunk row: it holds so many facts, by which the next seq is higher

Lines that hold one of these bytes cannot be written this way. The texts lie between the lines, where the
message that repeats them follows, because a compressor finds the copy there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from io import BytesIO
from itertools import accumulate
from operator import sub

from playhead.eventstore import chunk_rows
from playhead.eventstore.codecs import columns, delta_run, digits
from playhead.eventstore.codecs.body import CodecError
from playhead.eventstore.codecs.delta_run import DeltaRun
from playhead.eventstore.codecs.wanted import Wanted
from playhead.eventstore.envelope import Envelope, LineView
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded

HOLE, RUN, TEXTS, LIST, JUMP, ROW = (bytes([mark]) for mark in range(1, 7))
MARKS = (HOLE, RUN, TEXTS, LIST, JUMP, ROW)

_SEQ = struct.Struct("<Q")
_TYPE = b'{"type":"'
_ENVELOPE = b',"seq":%d,"time":%d,"data":'
_SOURCES = b'"sourceEventSeqs":['
_ROW_STARTS = tuple(b'{"type":"%s",' % tag.encode() for tag in sorted(chunk_rows.TAGS))
_JUMPS = re.compile(b"[" + JUMP + ROW + b"]")
_MIN_LIST = 4
_NUMBER_DIGITS = 15
_PIECE_PARTS = 16
"""Runs and stretches in a piece: few enough for it to be used while the processor still holds it."""


class Writer:
    """Takes the runs and the lines of a block in order; ``content`` holds them then."""

    def __init__(self, next_seq: int) -> None:
        self.next_seq = next_seq
        self._first_seq = next_seq
        self._time = 0
        self._gaps: list[int] = []
        self._sizes: list[int] = []
        self._lengths: list[int] = []
        self._jumps: list[int] = []
        self._lists: list[int] = []
        self._stream: list[bytes] = []
        self._starts: dict[str, bytes] = {}
        self._base_seq = next_seq

    def run(self, run: DeltaRun) -> None:
        """Add a run that begins at ``next_seq``."""
        times = run.times
        self._gaps.append(times[0] - self._time)
        self._gaps += map(sub, times[1:], times)
        self._sizes += run.sizes
        self._lengths.append(len(times))
        self._stream += (RUN, run.middle, TEXTS, run.text)
        self._time = times[-1]
        self.next_seq += len(times)
        self._base_seq = self.next_seq

    def event(self, line: bytes, event: Envelope) -> None:
        """Add a line, without LF, that is one sound event with ``next_seq``."""
        type, time = event.type, event.time
        start = self._starts.get(type) or self._start(type)
        head = start + _ENVELOPE % (self.next_seq, time)
        if line.startswith(head):
            text = line[len(head) :]
            if text[-2:] != b"}}":
                text = self._without_list(text)
            self._stream += (start, HOLE, text, b"\n")
            self._gaps.append(time - self._time)
            self._time = time
            self.next_seq += 1
        else:
            self._stream += (line, JUMP, b"\n")
            self._jump(1)

    def _start(self, type: str) -> bytes:
        start = self._starts[type] = _TYPE + type.encode("utf-8", "surrogatepass") + b'"'
        return start

    def line(self, line: bytes, view: LineView) -> None:
        """Add any other line, without its LF, that stands for what ``view`` says."""
        if view.n == 0:
            self._stream += (line, b"\n")
        elif view.seq0 == self.next_seq and view.defect is None and line.startswith(_ROW_STARTS):
            self._stream += (ROW, line, b"\n")
            self._jump(view.n)
        else:
            self._stream += (line, JUMP, b"\n")
            self._jump(view.seq0 + view.n - self.next_seq)

    def _jump(self, count: int) -> None:
        self._jumps.append(count)
        self.next_seq += count
        self._base_seq = self.next_seq

    def _without_list(self, text: bytes) -> bytes:
        """The text behind a hole, its last list of source seqs cut out where they are consecutive."""
        at = text.rfind(_SOURCES) + len(_SOURCES)
        end = text.find(b"]", at)
        if at < len(_SOURCES) or end < 0:
            return text
        seqs = text[at:end]
        count = seqs.count(b",") + 1
        first = seqs[: seqs.find(b",")]
        if count < _MIN_LIST or len(first) > _NUMBER_DIGITS or not first.isdigit():
            return text
        if _listed(int(first), count) != seqs:
            return text
        self._lists += (count, self._base_seq - int(first))
        return text[:at] + LIST + text[end:]

    def content(self) -> bytes:
        """What ``decode`` gives the lines back from."""
        packed = map(columns.pack, (self._gaps, self._sizes, self._lengths, self._jumps, self._lists))
        return b"".join((_SEQ.pack(self._first_seq), *packed, *self._stream))


def pieces(content: bytes, raw_len: int) -> Iterator[bytes]:
    """The lines in ``content``, some at a time.

    Raises ``CodecError`` for what no writer makes, or not ``raw_len`` bytes, also behind some pieces.
    """
    size = 0
    parts: list[bytes] = []
    try:
        reader = _Reader(content, raw_len)
        for stretch, run in reader.parts():
            if stretch:
                parts.append(reader.lines(stretch))
            if run is not None:
                parts.append(reader.run(run))
            if run is None or len(parts) >= _PIECE_PARTS:
                piece = b"".join(parts)
                parts.clear()
                size += len(piece)
                yield piece
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise CodecError(f"the body is inconsistent: {error}") from error
    if size != raw_len:
        raise CodecError(f"the body holds {size} bytes of lines, not {raw_len}")


def facts(content: bytes, raw_len: int, wanted: Wanted) -> Iterator[Recorded]:
    """The wanted facts in ``content``, in order; what is not wanted is passed over undecoded."""
    try:
        reader = _Reader(content, raw_len)
        for stretch, run in reader.parts():
            if stretch:
                yield from reader.facts(stretch, wanted)
            if run is not None:
                yield from reader.deltas(run, wanted)
            if reader.seq >= wanted.to_seq:
                return
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise CodecError(f"the body is inconsistent: {error}") from error


def content_limit(raw_len: int) -> int:
    """How large the content of ``raw_len`` bytes of lines can be."""
    return 2 * raw_len + 64


_Run = tuple[bytes, int, list[int]]
"""A run: its middle, where its texts begin, and their sizes."""


class _Reader:
    """Goes through the stream once; every part must be given to one of the methods, in order."""

    def __init__(self, content: bytes, raw_len: int) -> None:
        self.seq: int = _SEQ.unpack_from(content)[0]
        gaps, at = columns.unpack(content, _SEQ.size)
        self._sizes, at = columns.unpack(content, at)
        self._lengths, at = columns.unpack(content, at)
        self._jumps, at = columns.unpack(content, at)
        lists, self._start = columns.unpack(content, at)
        self._lists = iter(zip(lists[::2], lists[1::2], strict=True))
        self._stream = content
        self._texts = BytesIO(content)
        self._raw_len = raw_len
        self._times = list(accumulate(gaps))
        self._placed = 0
        self._jumped = 0

    def parts(self) -> Iterator[tuple[bytes, _Run | None]]:
        """Stretches of lines, which may be empty, each with the run behind it; the last has none."""
        stream, at, first = self._stream, self._start, 0
        for lines in self._lengths:
            mark = stream.index(RUN, at)
            text_at = stream.index(TEXTS, mark) + 1
            middle = stream[mark + 1 : text_at - 1]
            sizes = self._sizes[first : first + lines]
            if lines * len(middle) > self._raw_len or len(sizes) != lines:
                raise CodecError(f"a run of {lines} lines")
            yield stream[at:mark], (middle, text_at, sizes)
            at = text_at + sum(sizes)
            first += lines
        yield stream[at:], None

    def lines(self, part: bytes) -> bytes:
        """A stretch of lines as they were, each ended by LF."""
        if JUMP not in part and ROW not in part:
            return self._filled(part)
        pieces = _JUMPS.split(part)
        out = [self._filled(pieces[0])]
        for piece in pieces[1:]:
            self._jump()
            out.append(self._filled(piece))
        return b"".join(out)

    def run(self, run: _Run) -> bytes:
        """The lines of a run, each ended by LF."""
        middle, text_at, sizes = run
        seq0 = self.seq
        self._texts.seek(text_at)
        return delta_run.render(seq0, self._place(len(sizes)), middle, map(self._texts.read, sizes))

    def deltas(self, run: _Run, wanted: Wanted) -> Iterator[Recorded]:
        """The wanted facts of a run."""
        middle, text_at, sizes = run
        seq0 = self.seq
        times = self._place(len(sizes))
        start = max(wanted.from_seq - seq0, 0)
        end = min(wanted.to_seq - seq0, len(sizes))
        if not wanted.any_deltas or start >= end:
            return
        self._texts.seek(text_at + sum(sizes[:start]))
        for at in range(start, end):
            data = delta_run.data(middle, self._texts.read(sizes[at]))
            yield Recorded(wanted.session, Seq(seq0 + at), times[at], chunk_rows.EVENT_TYPE, data)

    def facts(self, part: bytes, wanted: Wanted) -> Iterator[Recorded]:
        """The wanted facts of a stretch of lines; the other lines are not restored."""
        base_seq = self.seq
        for line in part.split(b"\n"):
            hole = line.find(HOLE)
            if hole > 0:
                text = self._placed_line(line, hole, base_seq, wanted)
            elif line.startswith(ROW):
                base_seq = self._jump()
                text = line[1:] if wanted.any_deltas else None
            elif line.endswith(JUMP):
                base_seq = self._jump()
                text = line[:-1]
            else:
                continue
            if text is not None and self.seq > wanted.from_seq:
                yield from wanted.facts(text)
            if self.seq >= wanted.to_seq:
                return

    def _placed_line(self, line: bytes, hole: int, base_seq: int, wanted: Wanted) -> bytes | None:
        """A line with a hole at ``hole`` as it was; None when its type is not wanted."""
        seq, time = self.seq, self._times[self._placed]
        self.seq += 1
        self._placed += 1
        if LIST in line:
            before, _, behind = line.partition(LIST)
            line = before + self._list(base_seq) + behind
        if not wanted.takes(line[len(_TYPE) : hole - 1].decode("utf-8", "surrogatepass")):
            return None
        return line[:hole] + _ENVELOPE % (seq, time) + line[hole + 1 :]

    def _jump(self) -> int:
        """The next seq, once the next jump has been added to it."""
        self.seq += self._jumps[self._jumped]
        self._jumped += 1
        return self.seq

    def _place(self, count: int) -> list[int]:
        """The times of the next ``count`` placed facts."""
        times = self._times[self._placed : self._placed + count]
        if len(times) != count:
            raise CodecError("there are fewer times than facts")
        self._placed += count
        self.seq += count
        return times

    def _filled(self, part: bytes) -> bytes:
        """Text without other marks than holes and lists, as it was."""
        seq0 = self.seq
        if LIST in part:
            first, *others = part.split(LIST)
            part = first + b"".join([self._list(seq0) + other for other in others])
        pieces = part.split(HOLE)
        count = len(pieces) - 1
        if not count:
            return part
        whole = [b""] * (2 * count + 1)
        whole[::2] = pieces
        whole[1::2] = map(_ENVELOPE.__mod__, zip(range(seq0, seq0 + count), self._place(count), strict=True))
        return b"".join(whole)

    def _list(self, base_seq: int) -> bytes:
        """The next list."""
        count, distance = next(self._lists, (-1, 0))
        if not 0 <= count <= self._raw_len:
            raise CodecError(f"a list of {count} numbers")
        return _listed(base_seq - distance, count)


def _listed(first: int, count: int) -> bytes:
    """Consecutive integers as a JSON list without its brackets."""
    return b",".join(digits.consecutive(first, count))
