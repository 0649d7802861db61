"""Codec 1, ``runs``: token deltas in columns, every other line nearly as it is.

The content is the first seq (uint64, little-endian), four columns (``columns.py``), and the stream::

    gaps     ms between the times of one placed fact and the placed fact before it; the first counts from 0
    sizes    bytes of the text of each delta in a run
    lengths  lines of each run
    counts   what the marks ``list``, ``row`` and ``jump`` take, in the order of the stream

The stream is the lines in order, with marks that stand for what was cut out. A fact is *placed* when its seq
and time are cut out; its seq is then the one behind the placed fact or the jump before it.

    01  hole   in a line that begins {"type":"T": the text ,"seq":SEQ,"time":TIME,"data":
    02  run    delta lines: middle, 03, and the texts of ``length`` deltas end to end (``delta_run.py``)
    04  list   in a line with a hole: consecutive integers with commas between; takes their number, and how
               far the first one lies before the line's own seq
    05  jump   before the LF of a line without hole: the next seq is higher by the number taken
    06  row    before a sound chunk row: it holds so many facts, by which the next seq is higher

Lines that hold one of these bytes cannot be written this way. The texts lie between the lines, where the
message that repeats them follows, because a compressor finds the copy there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from itertools import accumulate
from operator import sub
from typing import NamedTuple

import msgspec

from playhead.eventstore import chunk_rows
from playhead.eventstore.codecs import columns, delta_run
from playhead.eventstore.codecs.body import CodecError
from playhead.eventstore.codecs.delta_run import DeltaRun
from playhead.eventstore.codecs.wanted import Wanted
from playhead.eventstore.envelope import LineView
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded

HOLE, RUN, TEXTS, LIST, JUMP, ROW = (bytes([mark]) for mark in range(1, 7))
MARKS = (HOLE, RUN, TEXTS, LIST, JUMP, ROW)

_SEQ = struct.Struct("<Q")
_ENVELOPE = b',"seq":%d,"time":%d,"data":'
_SOURCES = b'"sourceEventSeqs":['
_ROW_STARTS = tuple(b'{"type":"%s",' % tag.encode() for tag in sorted(chunk_rows.TAGS))
_MIN_LIST = 4
_NUMBER_DIGITS = 15


class Writer:
    """Takes the runs and the lines of a block in order; ``content`` holds them then."""

    def __init__(self, next_seq: int) -> None:
        self.next_seq = next_seq
        self._first_seq = next_seq
        self._time = 0
        self._gaps: list[int] = []
        self._sizes: list[int] = []
        self._lengths: list[int] = []
        self._counts: list[int] = []
        self._stream: list[bytes] = []

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

    def line(self, line: bytes, view: LineView) -> None:
        """Add a line, without its LF, that stands for what ``view`` says."""
        start = b'{"type":"%s"' % view.type.encode("utf-8", "surrogatepass")
        head = start + _ENVELOPE % (view.seq0, view.t0)
        if view.n == 1 and view.seq0 == self.next_seq and view.defect is None and line.startswith(head):
            self._stream += (start, HOLE, self._without_list(line[len(head) :]), b"\n")
            self._gaps.append(view.t0 - self._time)
            self._time = view.t0
            self.next_seq += 1
        elif view.n == 0:
            self._stream += (line, b"\n")
        elif view.seq0 == self.next_seq and view.defect is None and line.startswith(_ROW_STARTS):
            self._stream += (ROW, line, b"\n")
            self._jump(view.n)
        else:
            self._stream += (line, JUMP, b"\n")
            self._jump(view.seq0 + view.n - self.next_seq)

    def _jump(self, count: int) -> None:
        self._counts.append(count)
        self.next_seq += count

    def _without_list(self, text: bytes) -> bytes:
        """The text behind the hole, its last list of source seqs cut out where they are consecutive."""
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
        self._counts += (count, self.next_seq - int(first))
        return text[:at] + LIST + text[end:]

    def content(self) -> bytes:
        """What ``decode`` gives the lines back from."""
        packed = map(columns.pack, (self._gaps, self._sizes, self._lengths, self._counts))
        return b"".join((_SEQ.pack(self._first_seq), *packed, *self._stream))


def decode(content: bytes, raw_len: int) -> bytes:
    """The lines in ``content``. Raises ``CodecError`` for what no writer makes, or not ``raw_len`` bytes."""
    try:
        reader = _Reader(content, raw_len)
        block = b"".join([reader.block(part) for part in reader.parts()])
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise CodecError(f"the body is inconsistent: {error}") from error
    if len(block) != raw_len:
        raise CodecError(f"the body holds {len(block)} bytes of lines, not {raw_len}")
    return block


def facts(content: bytes, raw_len: int, wanted: Wanted) -> Iterator[Recorded]:
    """The wanted facts in ``content``, in order; what is not wanted is passed over undecoded."""
    try:
        reader = _Reader(content, raw_len)
        for part in reader.parts():
            if reader.seq >= wanted.to_seq:
                return
            yield from reader.deltas(part, wanted) if isinstance(part, _Run) else reader.facts(part, wanted)
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise CodecError(f"the body is inconsistent: {error}") from error


def content_limit(raw_len: int) -> int:
    """How large the content of ``raw_len`` bytes of lines can be."""
    return 2 * raw_len + 64


class _Run(NamedTuple):
    """Where a run lies: its middle, its lines, its first text in ``sizes``, its texts in the stream."""

    middle: bytes
    lines: int
    first: int
    text_at: int


class _Reader:
    """Goes through the stream once; every part must be given to one of the methods, in order."""

    def __init__(self, content: bytes, raw_len: int) -> None:
        (self.seq,) = _SEQ.unpack_from(content)
        gaps, at = columns.unpack(content, _SEQ.size)
        self._sizes, at = columns.unpack(content, at)
        self._lengths, at = columns.unpack(content, at)
        counts, self._start = columns.unpack(content, at)
        self._stream = content
        self._texts = BytesIO(content)
        self._raw_len = raw_len
        self._times = list(accumulate(gaps))
        self._placed = 0
        self._counts = iter(counts)

    def parts(self) -> Iterator[bytes | _Run]:
        """The stretches of lines and the runs, in order."""
        stream, at, first = self._stream, self._start, 0
        ends = list(accumulate(self._sizes, initial=0))
        for lines in self._lengths:
            mark = stream.index(RUN, at)
            if mark > at:
                yield stream[at:mark]
            text_at = stream.index(TEXTS, mark) + 1
            middle = stream[mark + 1 : text_at - 1]
            if lines < 0 or lines * len(middle) > self._raw_len:
                raise CodecError(f"a run of {lines} lines")
            yield _Run(middle, lines, first, text_at)
            at = text_at + ends[first + lines] - ends[first]
            first += lines
        if at < len(stream):
            yield stream[at:]

    def block(self, part: bytes | _Run) -> bytes:
        """The lines of a part, each ended by LF."""
        if not isinstance(part, _Run):
            lines = [self._restored(line) for line in part.split(b"\n")]
            return b"\n".join(lines)
        seq0 = self.seq
        times = self._place(part.lines)
        self._texts.seek(part.text_at)
        texts = map(self._texts.read, self._sizes[part.first : part.first + part.lines])
        return delta_run.render(seq0, times, part.middle, texts)

    def deltas(self, part: _Run, wanted: Wanted) -> Iterator[Recorded]:
        """The wanted facts of a run."""
        seq0 = self.seq
        times = self._place(part.lines)
        start = max(wanted.from_seq - seq0, 0)
        end = min(wanted.to_seq - seq0, part.lines)
        if not wanted.any_deltas or start >= end:
            return
        sizes = self._sizes[part.first : part.first + part.lines]
        self._texts.seek(part.text_at + sum(sizes[:start]))
        for at in range(start, end):
            data = delta_run.data(part.middle, self._texts.read(sizes[at]))
            yield Recorded(wanted.session, Seq(seq0 + at), times[at], chunk_rows.EVENT_TYPE, data)

    def facts(self, part: bytes, wanted: Wanted) -> Iterator[Recorded]:
        """The wanted facts of a stretch of lines."""
        for line in part.split(b"\n"):
            seq0 = self.seq
            if seq0 >= wanted.to_seq:
                return
            text = self._restored(line)
            if self.seq > max(seq0, wanted.from_seq) and _may_hold(line, wanted):
                yield from wanted.facts(text)

    def _place(self, count: int) -> list[int]:
        """The times of the next ``count`` placed facts."""
        times = self._times[self._placed : self._placed + count]
        if len(times) != count:
            raise CodecError("there are fewer times than facts")
        self._placed += count
        self.seq += count
        return times

    def _restored(self, line: bytes) -> bytes:
        """A line as it was."""
        start, hole, text = line.partition(HOLE)
        if hole:
            seq = self.seq
            (time,) = self._place(1)
            if LIST in text:
                before, _, behind = text.partition(LIST)
                count = self._count()
                if not 0 <= count <= self._raw_len:
                    raise CodecError(f"a list of {count} numbers")
                text = before + _listed(seq - self._count(), count) + behind
            return start + _ENVELOPE % (seq, time) + text
        if line.startswith(ROW):
            self.seq += self._count()
            return line[1:]
        if line.endswith(JUMP):
            self.seq += self._count()
            return line[:-1]
        return line

    def _count(self) -> int:
        count = next(self._counts, None)
        if count is None:
            raise CodecError("there are fewer counts than marks")
        return count


def _may_hold(line: bytes, wanted: Wanted) -> bool:
    """False when the line in the stream cannot hold a wanted fact."""
    if line.startswith(ROW):
        return wanted.any_deltas
    start, hole, _ = line.partition(HOLE)
    return not hole or wanted.type(start[len(b'{"type":"') : -1].decode("utf-8", "surrogatepass"))


def _listed(first: int, count: int) -> bytes:
    """Consecutive integers as a JSON list without its brackets."""
    return msgspec.json.encode(list(range(first, first + count)))[1:-1]
