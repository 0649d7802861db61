"""The verification of one session: its row, its segments, its unsealed rows, and the rules of its log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import cast

from playhead.eventstore import envelope, invariants, segments
from playhead.eventstore.chain import Chain
from playhead.eventstore.codecs.wanted import is_delta
from playhead.eventstore.dialect import Dialect
from playhead.eventstore.errors import CorruptLog, PlayheadError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import artifacts, reading
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.engine import Link, held
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.row_check import COLUMNS, row_check
from playhead.eventstore.sql.session_row import SessionRow, header_columns

_PAGE = 8

EventWatch = Callable[[str, int, Iterator[Recorded]], Iterator[Recorded]]
"""Is given the events of a session, behind its id and its generation, and passes each of them on.

Token deltas that follow each other may come joined; positions are left out. The events may end with an exception.
"""


class PlainFile:
    """A plain log file that is nothing but its session's header, its first lines and a tail.

    Its hash is taken from the lines while they are verified, so that they need not be decoded again.
    """

    def __init__(self, row: artifacts.ArtifactRow, tail: bytes, header: bytes) -> None:
        self.id = row.id
        self._sha256 = row.sha256
        self._tail = tail
        self._digest = hashlib.sha256(header + b"\n")
        self._left = row.lines

    @classmethod
    def of(cls, row: artifacts.ArtifactRow, owner: SessionRow) -> PlainFile | None:
        """The file of ``row``, when it is as simple as that."""
        if row.layout != "jsonl":
            return None
        opened = row.opened()
        simple = opened.spans == [artifacts.Span(owner.id, 0, row.lines)]
        return cls(row, opened.tail, owner.header) if simple else None

    def feed(self, block: bytes, lines: int) -> None:
        """Take the next lines of the session, each ended by LF."""
        if lines > self._left:
            block = b"".join(line + b"\n" for line in block.split(b"\n")[: self._left])
            lines = self._left
        self._digest.update(block)
        self._left -= lines

    def is_whole(self) -> bool:
        """True when the lines that were fed give the file's SHA-256."""
        self._digest.update(self._tail)
        return self._digest.digest() == self._sha256


class SessionCheck:
    """Looks at every line of one session. ``files`` are hashed from the lines as they go by."""

    def __init__(
        self, link: Link, row: SessionRow, check: bytes, placed: list[tuple[int, int]], files: list[PlainFile]
    ) -> None:
        self._link = link
        self._row = row
        self._check = check
        self._chain: Chain | None = Chain.begin(row.header)
        self._line = 0
        self._placed = placed
        self._gaps = len(placed) > 1  # then a segment's seqs cannot be told from its row
        self._ranges: list[tuple[int, int]] = []
        self._files = files

    def problems(self) -> Iterator[Problem]:
        """What is not as it was stored. ``placed`` are the ranges (seq0, n) that the commit log gives the session."""
        row = self._row
        if row.check() != self._check:
            yield self._problem("session-check", "the row of the session was changed", 0, row.lines)
        yield from self._header()
        yield from self._segments()
        yield from self._rows()
        if self._line != row.lines:
            yield self._problem(
                "lines-missing",
                f"{row.lines} lines were stored, {self._line} are there",
                min(self._line, row.lines),
                row.lines,
            )
        if row.sealed_lines > row.lines:
            yield self._problem("session-check", "more lines are sealed than stored", 0, row.lines)
        if self._chain is not None and self._line == row.lines:
            if (self._chain.value, self._chain.head(max(row.next_seq, 0))) != (row.chain, row.head):
                start = row.sealed_lines if row.sealed_lines < row.lines else 0
                yield self._problem("head", "the lines do not give the head of the session", start, row.lines)
            if self._ranges != self._placed:
                yield self._problem(
                    "positions", "the commit log places other seqs than the lines have", 0, row.lines
                )
            if sum(n for _, n in self._ranges) != row.events:
                yield self._problem(
                    "session-check", "the session counts other facts than its lines have", 0, row.lines
                )

    def _header(self) -> Iterator[Problem]:
        row = self._row
        try:
            derived = header_columns(SessionHeader.parse(row.header))
        except PlayheadError as error:
            yield self._problem("header", f"the header cannot be read: {error}", 0, 0)
            return
        for name, value in derived.items():
            if getattr(row, name) != value:
                yield self._problem("header", f"column {name} is not what the header says", 0, 0)

    def _segments(self) -> Iterator[Problem]:
        columns = COLUMNS["segment"]
        after = -(2**63)
        while True:
            page = self._link.all(
                f'SELECT {", ".join(columns)}, "check" FROM segment WHERE session_id = ? AND line0 > ? '
                f"ORDER BY line0 LIMIT {_PAGE}",
                (self._row.id, after),
            )
            for found in page:
                yield from self._segment(dict(zip(columns, found[:-1], strict=True)), found[-1])
                after = found[1]
            if not page:
                return

    def _segment(self, found: dict[str, object], check: bytes) -> Iterator[Problem]:
        line0, lines, seq0 = cast(int, found["line0"]), cast(int, found["lines"]), cast(int, found["seq0"])
        seqs = (seq0, seq0 + cast(int, found["n"]))
        if check != row_check("segment", list(found.values())):
            yield self._problem(
                "segment-check", "a sealed stretch of lines was changed", line0, line0 + lines, seqs
            )
            self._lost(line0 + lines)
            return
        if line0 != self._line:
            start, end = sorted((line0, self._line))
            yield self._problem("lines-missing", "lines are missing, or there twice", start, end)
            self._chain = None
        try:
            block = segments.unseal(
                cast(int, found["codec"]), cast(bytes, found["body"]), cast(int, found["raw_len"])
            )
        except segments.CodecError as error:
            yield self._problem(
                "segment-body", f"a sealed stretch cannot be decoded: {error}", line0, line0 + lines, seqs
            )
            self._lost(line0 + lines)
            return
        for file in self._files:
            file.feed(block, lines)
        if self._chain is not None:
            self._chain.feed(block, lines)
            if self._chain.value != found["chain"]:
                yield self._problem(
                    "chain", "the lines do not give the stored hash", line0, line0 + lines, seqs
                )
                self._chain = None
        self._line = line0 + lines
        if self._gaps:
            for line in block.split(b"\n")[:-1]:
                seen = envelope.view(line)
                self._add_range(seen.seq0, seen.n)
        else:
            self._add_range(seq0, seqs[1] - seq0)

    def _rows(self) -> Iterator[Problem]:
        names = {number: unescape(name) for number, name in self._link.all("SELECT id, name FROM type")}
        after = -(2**63)
        while True:
            page = self._link.all(
                "SELECT line_no, seq0, n, type_id, time_ms, line FROM event WHERE session_id = ? AND line_no > ? "
                "ORDER BY line_no LIMIT ?",
                (self._row.id, after, reading.rows_in_page(self._link, self._row.id, after)),
            )
            for line_no, seq0, n, type_id, time_ms, line in page:
                after = line_no
                if line_no != self._line:
                    start, end = sorted((line_no, self._line))
                    yield self._problem("lines-missing", "lines are missing, or there twice", start, end)
                    self._chain = None
                self._line = line_no + 1
                seen = envelope.view(line)
                if (seen.seq0, seen.n, seen.t0, seen.type) != (seq0, n, time_ms, names.get(type_id)):
                    yield self._problem(
                        "event-row",
                        "a row says other things than its line",
                        line_no,
                        line_no + 1,
                        (seq0, seq0 + n),
                    )
                self._add_range(seen.seq0, seen.n)
                for file in self._files:
                    file.feed(line + b"\n", 1)
                if self._chain is not None:
                    self._chain.feed(line + b"\n", 1)
            if not page:
                return

    def _add_range(self, seq0: int, n: int) -> None:
        if not n:
            return
        if self._ranges and sum(self._ranges[-1]) == seq0:
            self._ranges[-1] = (self._ranges[-1][0], self._ranges[-1][1] + n)
        else:
            self._ranges.append((seq0, n))

    def _lost(self, line: int) -> None:
        """Go on behind a stretch whose lines are not known."""
        self._line = line
        self._chain = None

    def _problem(
        self,
        kind: str,
        message: str,
        from_line: int | None = None,
        to_line: int | None = None,
        seqs: tuple[int, int] | None = None,
    ) -> Problem:
        start, end = seqs if seqs else (None, None)
        if seqs is None and (from_line, to_line) == (0, self._row.lines):
            start, end = 0, self._row.next_seq
        return Problem(
            kind,
            message,
            self._row.session,
            self._row.generation,
            None if from_line is None else from_line + 2,
            None if to_line is None else to_line + 2,
            start,
            end,
        )


def rule_breaches(
    link: Link, row: SessionRow, dialect_of: Callable[[str], Dialect], watch: EventWatch | None = None
) -> Iterator[Problem]:
    """What breaks a rule of the log, as warnings: it was stored like that.

    Token deltas are held against no rule. They are read only for ``watch``, neighbouring ones joined.
    """

    def warning(kind: str, message: str, seq: int | None) -> Problem:
        end = None if seq is None else seq + 1
        return Problem(
            kind, message, row.session, row.generation, from_seq=seq, to_seq=end, severity="warning"
        )

    try:
        dialect = dialect_of(row.dialect)
        deltas = watch is not None
        events = reading.logical(
            held(link), row, dialect, deltas=deltas, joined=deltas, strict=True, placed=False
        )
        if watch is not None:
            events = watch(row.session, row.generation, events)
        for found in invariants.check(events, seed_length=row.seed_length or 0, excused=is_delta):
            yield warning("rule", f"{found.owner}/{found.rule}: {found.message}", found.seq)
    except CorruptLog as error:
        yield warning("retired-shape", str(error), error.seq)
    except PlayheadError as error:
        yield warning("no-dialect", str(error), None)
