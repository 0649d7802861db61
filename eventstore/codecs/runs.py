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

import struct
from collections.abc import Iterator
from io import BytesIO
from itertools import accumulate
from operator import sub
from typing import Any

from playhead.eventstore import chunk_rows
from playhead.eventstore.codecs import columns, delta_run, digits
from playhead.eventstore.codecs.body import CodecError
from playhead.eventstore.codecs.delta_run import DeltaRun
from playhead.eventstore.codecs.wanted import Wanted, is_delta
from playhead.eventstore.envelope import Envelope, LineView, fact_of_tail
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded, SurfaceOp

HOLE, RUN, TEXTS, LIST, JUMP, ROW = (bytes([mark]) for mark in range(1, 7))
MARKS = (HOLE, RUN, TEXTS, LIST, JUMP, ROW)

_LIST = LIST[0]
_SEQ = struct.Struct("<Q")
_TYPE = b'{"type":"'
_ENVELOPE = b',"seq":%d,"time":%d,"data":'
_SOURCES = b'"sourceEventSeqs":['
_CITED: tuple[tuple[bytes, SurfaceOp | None], ...] = (
    (b',"sourceEventSeqs":[%s],"surfaceOp":"append"}' % LIST, "append"),
    (b',"sourceEventSeqs":[%s]}' % LIST, None),
)
"""How lines end that cite a list, and their surface operation."""
_MIN_LIST = 4
_NUMBER_DIGITS = 15
_BATCH = 256
_BATCH_BYTES = 1 << 16
"""Facts, and bytes of lines, that go into a batch: making many facts in a row, and then using them, is quicker, as long
as the processor still holds them."""
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
        elif view.seq0 == self.next_seq and view.defect is None and line.startswith(chunk_rows.LINE_STARTS):
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
        if _listed(range(int(first), int(first) + count)) != seqs:
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


def facts(content: bytes, raw_len: int, wanted: Wanted) -> Iterator[list[Recorded]]:
    """The wanted facts in ``content`` in order, some at a time; what is not wanted is passed over undecoded."""
    try:
        reader = _Reader(content, raw_len)
        types: dict[bytes, str | None] = {}
        found: list[Recorded] = []
        size = 0
        for stretch, run in reader.parts():
            for piece in _pieces(stretch):
                reader.facts(piece, wanted, types, found)
                if reader.seq >= wanted.to_seq:
                    yield found
                    return
                size += len(piece)
                if size >= _BATCH_BYTES:
                    yield found
                    found, size = [], 0
            if run is not None:
                reader.deltas(run, wanted, found)
            if len(found) >= _BATCH:
                yield found
                found, size = [], 0
        yield found
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        raise CodecError(f"the body is inconsistent: {error}") from error


def _pieces(stretch: bytes) -> Iterator[bytes]:
    """The lines of a stretch, not many more than ``_BATCH_BYTES`` at a time."""
    at = 0
    while len(stretch) - at > _BATCH_BYTES:
        end = stretch.index(b"\n", at + _BATCH_BYTES - 1) + 1
        yield stretch[at:end]
        at = end
    yield stretch[at:]


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
        self._base_seq = self.seq
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
        pieces = part.replace(ROW, JUMP).split(JUMP)
        out = [self._filled(pieces[0])]
        for piece in pieces[1:]:
            self.seq += self._jump()
            out.append(self._filled(piece))
        return b"".join(out)

    def run(self, run: _Run) -> bytes:
        """The lines of a run, each ended by LF."""
        middle, text_at, sizes = run
        seq0 = self.seq
        self._texts.seek(text_at)
        return delta_run.render(seq0, self._place(len(sizes)), middle, map(self._texts.read, sizes))

    def deltas(self, run: _Run, wanted: Wanted, found: list[Recorded]) -> None:
        """Add the wanted facts of a run to ``found``."""
        middle, text_at, sizes = run
        seq0 = self.seq
        start = max(wanted.from_seq - seq0, 0)
        end = min(wanted.to_seq - seq0, len(sizes))
        times = self._place(len(sizes))
        self._base_seq = self.seq
        if not wanted.any_deltas or start >= end:
            return
        self._texts.seek(text_at + sum(sizes[:start]))
        read, session, type = self._texts.read, wanted.session, chunk_rows.EVENT_TYPE
        if wanted.joined:
            data = delta_run.data(middle, read(sum(sizes[start:end])))
            found.append(Recorded(session, Seq(seq0 + start), times[start], type, data))
            return
        for at in range(start, end):
            data = delta_run.data(middle, read(sizes[at]))
            found.append(Recorded(session, Seq(seq0 + at), times[at], type, data))

    def facts(
        self, part: bytes, wanted: Wanted, types: dict[bytes, str | None], found: list[Recorded]
    ) -> None:
        """Add the wanted facts of lines between runs to ``found``; the other lines are not restored.

        ``types`` remembers what lines begin with: the type that this spells, None for one that is not wanted.
        """
        times, placed = self._times, self._placed
        session, from_seq, to_seq = wanted.session, wanted.from_seq, wanted.to_seq
        base_seq = self._base_seq
        seq: Any = self.seq  # a Seq, named so without a call for each
        for line in part.split(b"\n"):
            start, hole, tail = line.partition(HOLE)
            if hole:
                time = times[placed]
                placed += 1
                if start not in types:
                    types[start] = _type(start, wanted)
                type = types[start]
                sources = self._list(base_seq) if _LIST in tail else None
                if type is not None and from_seq <= seq < to_seq:
                    if sources is None:
                        fact = fact_of_tail(session, seq, time, type, tail)
                    else:
                        fact = _citing_fact(session, seq, time, type, tail, sources)
                    if fact is None:
                        found += wanted.facts(_whole(start, seq, time, tail, sources))
                    elif type != chunk_rows.EVENT_TYPE or wanted.deltas or not is_delta(fact):
                        found.append(fact)
                seq += 1
            elif line.startswith(ROW) or line.endswith(JUMP):
                base_seq = seq = seq + self._jump()
                if seq > from_seq and (wanted.any_deltas or not line.startswith(ROW)):
                    found += wanted.facts(line.strip(ROW + JUMP))
            if seq >= to_seq:
                break
        self.seq, self._base_seq, self._placed = seq, base_seq, placed

    def _jump(self) -> int:
        """What the next jump adds to the seq."""
        count = self._jumps[self._jumped]
        self._jumped += 1
        return count

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
            part = first + b"".join([_listed(self._list(seq0)) + other for other in others])
        pieces = part.split(HOLE)
        count = len(pieces) - 1
        if not count:
            return part
        whole = [b""] * (2 * count + 1)
        whole[::2] = pieces
        whole[1::2] = map(_ENVELOPE.__mod__, zip(range(seq0, seq0 + count), self._place(count), strict=True))
        return b"".join(whole)

    def _list(self, base_seq: int) -> range:
        """The numbers of the next list."""
        count, distance = next(self._lists, (-1, 0))
        first = base_seq - distance
        if not 0 <= count <= self._raw_len or first < 0:
            raise CodecError(f"a list of {count} numbers from {first} on")
        return range(first, first + count)


def _type(start: bytes, wanted: Wanted) -> str | None:
    """The type that a line with ``start`` before its hole has; None when it is not wanted."""
    type = start[len(_TYPE) : -1].decode("utf-8", "surrogatepass")
    if start != _TYPE + start[len(_TYPE) : -1] + b'"' or '"' in type or "\\" in type:
        raise CodecError("a hole that is not behind a type")
    return type if wanted.takes(type) else None


def _citing_fact(
    session: SessionId, seq: Seq, time: int, type: str, tail: bytes, sources: range
) -> Recorded | None:
    """The fact of a line with a hole and a list, without making the line; None when the whole line must be read."""
    for end, op in _CITED:
        # A list that stands here is that of the event, and not one of the same name in its data.
        if tail.endswith(end):
            return fact_of_tail(session, seq, time, type, tail[: -len(end)] + b"}", op, sources)
    return None


def _whole(start: bytes, seq: int, time: int, tail: bytes, sources: range | None) -> bytes:
    """The line with a hole between ``start`` and ``tail``, as it was."""
    if sources is not None:
        tail = tail.replace(LIST, _listed(sources))
    return start + _ENVELOPE % (seq, time) + tail


def _listed(seqs: range) -> bytes:
    """Consecutive integers as a JSON list without its brackets."""
    return b",".join(digits.consecutive(seqs.start, len(seqs)))
