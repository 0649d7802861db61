"""Sealing: a finished stretch of rows becomes one compressed segment.

``SegmentWriter`` takes lines in order and writes segments; import uses it directly, and ``seal_session`` for
the rows of a live session. Nothing that a reader or a hash can see changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from playhead.eventstore import json_text, segments
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.sql import reading, session_row
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.finding_list import FindingList
from playhead.eventstore.sql.row_check import COLUMNS, row_check
from playhead.eventstore.sql.session_row import SessionRow

SEAL_LINES = 4096
"""A live session is sealed when it has this many unsealed rows."""

SEAL_BYTES = 1 << 20
"""A segment is written when this many bytes of lines have come together."""

MAX_SEGMENT_LINES = 1 << 16
"""More lines than this are cut into several segments: a megabyte of empty lines has a million of them."""

_TOP_UP_BYTES = SEAL_BYTES // 2
_SEGMENT = COLUMNS["segment"]
_INSERT = (
    f'INSERT INTO segment ({", ".join(_SEGMENT)}, "check") VALUES ({", ".join("?" * (len(_SEGMENT) + 1))})'
)


class RanBack(Exception):
    """The numbering of the lines runs back at line ``line`` of the session (from 0)."""

    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(line)


class SegmentWriter:
    """Appends lines to a session as segments. ``row`` is kept as it will be when ``finish`` returns.

    ``ranges`` collects the (seq0, n) of the facts that were added. ``findings`` is what is wrong with the
    lines of a log that is written from its first line on, with their places in its file; for one that grows,
    they are not complete. A last segment that is still small is written again with the new lines at its end.
    """

    def __init__(self, link: Link, row: SessionRow) -> None:
        self._link = link
        self.row = row
        self._chain = reading.chain_at(link, row, row.lines)
        self._buffer: list[bytes] = []
        self._size = 0
        self._begun = False
        self._again = 0  # lines at the front of the buffer that were in a segment before
        self._line0 = row.lines
        self._byte = len(row.header) + 1
        self._expected = row.next_seq
        self.ranges: list[tuple[int, int]] = []
        self.findings = FindingList()

    def write(self, block: bytes) -> None:
        """Add the lines of ``block``, each ended by LF."""
        if not self._begun:
            self._begun = True
            self._take_back_last_segment()
        for part in _of_few_lines(block):
            self._buffer.append(part)
            self._size += len(part)
            if self._size >= SEAL_BYTES or part is not block:
                self._flush()

    def finish(self) -> SessionRow:
        """Write what is left; the session's row as it now is (not yet saved)."""
        self._flush()
        return self.row

    def _take_back_last_segment(self) -> None:
        if not self.row.lines:
            return
        last = self._link.one(
            "SELECT line0, lines, seq0, n, codec, raw_len, body FROM segment WHERE session_id = ? "
            "AND line0 + lines = ? AND raw_len < ?",
            (self.row.id, self.row.lines, _TOP_UP_BYTES),
        )
        if last is None:
            return
        segment = reading.StoredSegment(*last)
        self._buffer.append(segment.block(self.row.session))
        self._size += segment.raw_len
        self._again = segment.lines
        self._line0 = segment.line0
        self._expected = segment.seq0
        self._link.run("DELETE FROM segment WHERE session_id = ? AND line0 = ?", (self.row.id, segment.line0))

    def _flush(self) -> None:
        if not self._buffer:
            return
        block = b"".join(self._buffer) if len(self._buffer) > 1 else self._buffer[0]
        segment, used = segments.seal(block, self._expected)
        if segment is None or used < len(block):
            raise RanBack(self._line0 + (segment.lines if segment else 0))
        new = block[len(self._buffer[0]) :] if self._again else block
        self._chain.feed(new, segment.lines - self._again)
        self._insert(segment)
        self._note(segment)
        row, added = self.row, _without_front(segment.ranges, row_next=self.row.next_seq)
        self.ranges += added
        self.row = row._replace(
            next_seq=segment.next_seq,
            lines=self._line0 + segment.lines,
            events=row.events + sum(n for _, n in added),
            first_ms=_lowest(row.first_ms, segment.t0),
            last_ms=_highest(row.last_ms, segment.t1),
            chain=self._chain.value,
            head=self._chain.head(segment.next_seq),
            sealed_lines=self._line0 + segment.lines,
        )
        self._line0 = self.row.lines
        self._expected = segment.next_seq
        self._byte += len(block)
        self._buffer, self._size, self._again = [], 0, 0

    def _insert(self, segment: segments.Segment) -> None:
        values = (
            self.row.id,
            self._line0,
            segment.lines,
            segment.seq0,
            segment.n,
            segment.t0,
            segment.t1,
            json_text.dumps(segment.types),
            segment.codec,
            segment.raw_len,
            self._chain.value,
            segment.body,
        )
        self._link.run(_INSERT, (*values, row_check("segment", values)))

    def _note(self, segment: segments.Segment) -> None:
        for found in segment.defects:
            self.findings.add_defect(
                found.defect,
                line=self._line0 + found.line + 2,
                byte=self._byte + found.byte,
                seq=found.seq,
                size_bytes=found.size_bytes,
            )
        self.findings.count(segment.unlisted)


def _of_few_lines(block: bytes) -> Iterator[bytes]:
    """``block``, cut where it has more than ``MAX_SEGMENT_LINES`` lines."""
    if block.count(b"\n") <= MAX_SEGMENT_LINES:
        yield block
        return
    lines = block.split(b"\n")[:-1]
    for at in range(0, len(lines), MAX_SEGMENT_LINES):
        yield b"\n".join(lines[at : at + MAX_SEGMENT_LINES]) + b"\n"


def _without_front(ranges: tuple[tuple[int, int], ...], row_next: int) -> list[tuple[int, int]]:
    """The parts of ``ranges`` from seq ``row_next`` on: what is new."""
    new = []
    for seq0, n in ranges:
        skip = max(0, min(n, row_next - seq0))
        if n > skip:
            new.append((seq0 + skip, n - skip))
    return new


def _lowest(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)


def _highest(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def seal_session(link: Link, row_id: int) -> SessionRow:
    """Seal all rows of a session; its row afterwards. Without unsealed rows nothing happens."""
    row = session_row.load(link, row_id, lock=True)
    if row.sealed_lines == row.lines:
        return row
    sealed = row._replace(lines=row.sealed_lines, next_seq=_seq_at(link, row))
    writer = SegmentWriter(link, sealed)
    for page in reading.pages(_rows_only(link), row, row.sealed_lines):
        writer.write(page.block(row.session))
    done = writer.finish()
    if (done.lines, done.next_seq, done.chain, done.head) != (row.lines, row.next_seq, row.chain, row.head):
        raise CorruptLog(
            row.session, "the unsealed rows do not fit the session's head; run `playhead verify`"
        )
    link.run("DELETE FROM event WHERE session_id = ? AND line_no < ?", (row.id, row.lines))
    row = row._replace(sealed_lines=row.lines)
    session_row.save(link, row)
    return row


def _seq_at(link: Link, row: SessionRow) -> int:
    """The seq of the first unsealed row."""
    found = link.one(
        "SELECT seq0 FROM event WHERE session_id = ? AND line_no = ?", (row.id, row.sealed_lines)
    )
    return row.next_seq if found is None else int(found[0])


def _rows_only(link: Link) -> Callable[[int, int], reading.Page | None]:
    """Fetches unsealed rows while segments of the same lines are being written."""
    return lambda session_id, line_no: reading.rows_at(link, session_id, line_no)
