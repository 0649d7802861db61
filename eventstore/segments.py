"""Sealed segments: a stretch of log lines as one compressed value, with what an index needs to know of it.

``seal`` looks at every line once: it notes numbering, times, types and defects, and encodes. What it returns
has been decoded again and compared with the lines. ``runs`` is tried first; lines that it cannot hold, or
does not give back byte for byte, go into ``lines``, which holds anything.
Source: docs/formats.md, "Segments".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from playhead.eventstore import chunk_rows, envelope
from playhead.eventstore.codecs import (
    CODECS,
    LINES,
    RUNS,
    Codec,
    CodecError,
    Wanted,
    compress,
    decompress,
    delta_run,
    runs,
)
from playhead.eventstore.line_records import Defect
from playhead.eventstore.recorded import Recorded

__all__ = ["CodecError", "LineDefect", "Segment", "pieces", "seal", "segment_facts", "unseal"]


MAX_DEFECTS = 1000
"""More defects than this of one segment are counted, not described: a block of garbage has one in each line."""


class LineDefect(NamedTuple):
    """A defective line in a block.

    ``line`` counts from 0 and ``byte`` is its offset, both in the block; ``size_bytes`` is its length without
    LF; ``seq`` is the number concerned, -1 when unknown. The kinds are those of ``envelope.view``, and
    ``seq-gap``.
    """

    line: int
    byte: int
    size_bytes: int
    seq: int
    defect: Defect


@dataclass(frozen=True, slots=True)
class Segment:
    """What one sealed row holds.

    ``lines`` counts physical lines, ``n`` facts. ``seq0`` is the seq of the first fact, ``next_seq`` the one
    behind the last; without facts both are the seq expected. ``ranges`` are (seq0, n) of the gap-free
    stretches, ``t0`` and ``t1`` the lowest and highest time of a fact, ``types`` counts facts per type.
    ``raw_len`` is the size of the lines with their LFs. ``unlisted`` counts the defects beyond the first
    ``MAX_DEFECTS``.
    """

    lines: int
    seq0: int
    n: int
    next_seq: int
    ranges: tuple[tuple[int, int], ...]
    t0: int | None
    t1: int | None
    types: dict[str, int]
    codec: int
    raw_len: int
    body: bytes
    defects: tuple[LineDefect, ...]
    unlisted: int


def seal(block: bytes, expected_seq: int) -> tuple[Segment | None, int]:
    """The segment of the lines of ``block``, each ended by LF, and how many bytes of it went in.

    The segment ends before the first line whose seq is lower than the one expected there, else with the
    block; it is None when that is the first line. A higher seq is a ``seq-gap`` and begins a new range. A
    line that stands for no fact is kept as a defect. Raises ``ValueError`` when the last line has no LF.
    """
    if not block.endswith(b"\n"):
        raise ValueError("a block is whole lines, each ended by LF")
    if not any(mark in block for mark in runs.MARKS):
        survey = _Survey(expected_seq)
        writer = runs.Writer(expected_seq)
        used = _scan_runs(block, survey, writer)
        body = compress(writer.content())
        if _holds(RUNS, body, block[:used]):
            return survey.segment(RUNS, used, body), used
    survey = _Survey(expected_seq)
    used = _scan_lines(block, 0, len(block), survey, None)
    body = compress(block[:used])
    if not _holds(LINES, body, block[:used]):
        raise CodecError("the lines do not come back from their compressed form")
    return survey.segment(LINES, used, body), used


def unseal(codec: int, body: bytes, raw_len: int) -> bytes:
    """The lines of a segment, each ended by LF. Raises ``CodecError`` for any inconsistency."""
    return b"".join(pieces(codec, body, raw_len))


def pieces(codec: int, body: bytes, raw_len: int) -> Iterator[bytes]:
    """The lines of a segment, some at a time. Raises ``CodecError`` for any inconsistency, also in the middle."""
    reader = _codec(codec)
    yield from reader.pieces(decompress(body, reader.content_limit(raw_len)), raw_len)


def segment_facts(codec: int, body: bytes, raw_len: int, wanted: Wanted) -> Iterator[list[Recorded]]:
    """The wanted facts of a segment in order, some at a time; what is not wanted is passed over undecoded.

    Raises ``CodecError`` for any inconsistency, also in the middle.
    """
    reader = _codec(codec)
    return reader.facts(decompress(body, reader.content_limit(raw_len)), raw_len, wanted)


def _codec(number: int) -> Codec:
    try:
        return CODECS[number]
    except KeyError:
        raise CodecError(f"codec {number} is not known to this release") from None


def _holds(codec: int, body: bytes, block: bytes) -> bool:
    """True when ``body`` gives exactly the lines of ``block``."""
    at = 0
    try:
        for piece in pieces(codec, body, len(block)):
            if not block.startswith(piece, at):
                return False
            at += len(piece)
    except CodecError:
        return False
    return at == len(block)


def _scan_runs(block: bytes, survey: _Survey, writer: runs.Writer) -> int:
    """Note and write the lines of ``block``; where the first one that runs back begins, else the end."""
    at = 0
    while at < len(block):
        run, end = delta_run.take(block, at)
        if run is not None and run.seq0 == survey.next_seq:
            survey.add_run(run)
            writer.run(run)
        else:
            if run is not None:
                end = block.index(b"\n", at) + 1
            elif end == at:
                end = delta_run.next_start(block, at)
            stopped = _scan_lines(block, at, end, survey, writer)
            if stopped < end:
                return stopped
        at = end
    return at


def _scan_lines(block: bytes, at: int, end: int, survey: _Survey, writer: runs.Writer | None) -> int:
    """The same for the lines between ``at`` and ``end``, one by one."""
    for line in block[at : end - 1].split(b"\n"):
        event = envelope.plain(line)
        if event is not None and event.seq == survey.next_seq:
            survey.add_event(event)
            if writer is not None:
                writer.event(line, event)
        else:
            view = envelope.view(line)
            if view.n and view.seq0 < survey.next_seq:
                return at
            survey.add_line(line, at, view)
            if writer is not None:
                writer.line(line, view)
        at += len(line) + 1
    return at


class _Survey:
    """What the lines of a segment say, gathered line by line."""

    def __init__(self, expected_seq: int) -> None:
        self.next_seq = expected_seq
        self._lines = 0
        self._range_seq = expected_seq
        self._ranges: list[tuple[int, int]] = []
        self._times: list[int] = []
        self._types: defaultdict[str, int] = defaultdict(int)
        self._defects: list[LineDefect] = []
        self._unlisted = 0

    def add_event(self, event: envelope.Envelope) -> None:
        """Note a line that is one sound event, with ``next_seq``."""
        self._types[event.type] += 1
        self._times.append(event.time)
        self._lines += 1
        self.next_seq += 1

    def add_run(self, run: delta_run.DeltaRun) -> None:
        """Note a run that begins at ``next_seq``."""
        count = len(run.times)
        self._lines += count
        self._times += (min(run.times), max(run.times))
        self._types[chunk_rows.EVENT_TYPE] += count
        self.next_seq += count

    def add_line(self, line: bytes, at: int, view: envelope.LineView) -> None:
        """Note a line whose seq, if it states one, is not below ``next_seq``."""
        if view.defect is not None:
            self._add_defect(at, len(line), view.seq0, view.defect)
        if view.n:
            if view.seq0 > self.next_seq:
                gap = Defect("seq-gap", f"expected seq {self.next_seq}, got {view.seq0}")
                self._add_defect(at, len(line), view.seq0, gap)
                self._end_range()
                self._range_seq = view.seq0
            self._times += (view.t0, view.t1)
            self._types[view.type] += view.n
            self.next_seq = view.seq0 + view.n
        self._lines += 1

    def _add_defect(self, at: int, size_bytes: int, seq: int, defect: Defect) -> None:
        if len(self._defects) < MAX_DEFECTS:
            self._defects.append(LineDefect(self._lines, at, size_bytes, seq, defect))
        else:
            self._unlisted += 1

    def _end_range(self) -> None:
        if self.next_seq > self._range_seq:
            self._ranges.append((self._range_seq, self.next_seq - self._range_seq))

    def segment(self, codec: int, raw_len: int, body: bytes) -> Segment | None:
        """The segment of the lines noted; None when there are none."""
        if not self._lines:
            return None
        self._end_range()
        return Segment(
            lines=self._lines,
            seq0=self._ranges[0][0] if self._ranges else self.next_seq,
            n=sum(n for _, n in self._ranges),
            next_seq=self.next_seq,
            ranges=tuple(self._ranges),
            t0=min(self._times, default=None),
            t1=max(self._times, default=None),
            types=dict(self._types),
            codec=codec,
            raw_len=raw_len,
            body=body,
            defects=tuple(self._defects),
            unlisted=self._unlisted,
        )
