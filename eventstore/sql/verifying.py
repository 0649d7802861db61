"""Verification: every stored byte against something else that knows it.

Lines and headers are covered by the hash chain, everything else in a row by its check, the places of facts by
the tiling of the commit log, and files by their SHA-256. A problem names the session and the range of lines
and seqs; after one, the rest of that session is still looked at, but its head can no longer be computed.

A consistent rewrite of the whole store passes all this. ``heads`` writes down what a store holds now, and
``compare_heads`` finds any change below what was written down, however consistent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast

import msgspec

from playhead.eventstore import envelope, invariants, segments
from playhead.eventstore.chain import Chain
from playhead.eventstore.dialect import Dialect
from playhead.eventstore.errors import CorruptLog, PlayheadError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.sql import artifacts, commits, reading, rebuilding, session_row
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.engine import Database, Link
from playhead.eventstore.sql.row_check import COLUMNS, row_check
from playhead.eventstore.sql.session_row import SessionRow, header_columns

_PAGE = 8
_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was stored (``error``), or that breaks a rule of the log (``warning``).

    ``session`` is the id, with ``generation``; None for what concerns the whole store. Lines are physical
    lines (the header is line 1), ``to_line`` and ``to_seq`` are exclusive.
    """

    kind: str
    message: str
    session: str | None = None
    generation: int | None = None
    from_line: int | None = None
    to_line: int | None = None
    from_seq: int | None = None
    to_seq: int | None = None
    path: str | None = None
    severity: Literal["error", "warning"] = "error"


class Head(msgspec.Struct, frozen=True, rename={"id": "session"}):
    """The hash head of a session as it stood when it had ``lines`` lines and went on at ``next_seq``."""

    store: str
    id: str
    generation: int
    lines: int
    next_seq: int
    head: str


def verify(
    database: Database, dialect_of: Callable[[str], Dialect], session_id: int | None = None
) -> Iterator[Problem]:
    """The problems of a store, or of one session (by row id) and its files.

    ``dialect_of`` gives the dialect of a name: the rules of logs are checked on logical events.
    """
    with database.read() as link:
        rows = session_row.every(link)
        checks = {found[0]: found[1] for found in link.all('SELECT id, "check" FROM session')}
    chosen = [row for row in rows if session_id is None or row.id == session_id]
    placed, problems = _placed(database, {row.id: row for row in rows})
    if session_id is None:
        yield from problems
        yield from _orphans(database)
        yield from _generations(rows)
    for row in chosen:
        whole = True
        for problem in _Session(database, row, checks[row.id], placed.get(row.id, [])).problems():
            whole = False
            yield problem
        if whole:
            yield from _rule_breaches(database, row, dialect_of)
    yield from _files(database, rows, session_id)


# The commit log


def _placed(
    database: Database, sessions: dict[int, SessionRow]
) -> tuple[dict[int, list[tuple[int, int]]], list[Problem]]:
    """The ranges (seq0, n) of facts that the commit log places, joined, by session row; and its problems."""
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    problems = []
    with database.read() as link:
        expected = 1
        for commit, check in commits.every(link):
            owner = sessions.get(commit.session_id)
            name, generation = (owner.session, owner.generation) if owner else (None, None)
            end = commit.seq0 + commit.n

            def problem(
                kind: str,
                message: str,
                name: str | None = name,
                generation: int | None = generation,
                start: int = commit.seq0,
                end: int = end,
            ) -> Problem:
                return Problem(kind, message, name, generation, from_seq=start, to_seq=end)

            if check != commit.check():
                problems.append(problem("commit-check", f"the commit at position {commit.pos0} was changed"))
            if owner is None:
                problems.append(
                    problem("commit-session", f"the commit at position {commit.pos0} has no session")
                )
            if commit.pos0 != expected:
                message = f"positions {expected} to {commit.pos0 - 1} belong to no commit"
                if commit.pos0 < expected:
                    message = f"positions {commit.pos0} to {expected - 1} belong to two commits"
                problems.append(problem("commit-gap", message))
            expected = commit.pos0 + commit.n
            known = ranges[commit.session_id]
            if known and sum(known[-1]) == commit.seq0:
                known[-1] = (known[-1][0], known[-1][1] + commit.n)
            else:
                known.append((commit.seq0, commit.n))
        pos, session_count, artifact_count = link.one(
            "SELECT pos, sessions, artifacts FROM store WHERE id = 1"
        )
        files = link.one("SELECT count(*) FROM artifact")[0]
    if pos != expected - 1:
        problems.append(
            Problem("commit-gap", f"the store counts {pos} facts, the commit log places {expected - 1}")
        )
    if session_count != len(sessions):
        problems.append(
            Problem("session-count", f"the store counts {session_count} sessions, {len(sessions)} are there")
        )
    if artifact_count != files:
        problems.append(
            Problem("artifact-count", f"the store counts {artifact_count} files, {files} are there")
        )
    return ranges, problems


def _orphans(database: Database) -> Iterator[Problem]:
    """Rows whose session or file is not there."""
    for table in ("segment", "event", "artifact"):
        with database.read() as link:
            found = link.all(
                f"SELECT DISTINCT session_id FROM {table} "
                "WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM session)"
            )
        for (row_id,) in found:
            yield Problem("session-missing", f"{table} rows of session row {row_id}, which is not there")
    with database.read() as link:
        found = link.all(
            "SELECT DISTINCT artifact_id FROM artifact_part WHERE artifact_id NOT IN (SELECT id FROM artifact)"
        )
    for (row_id,) in found:
        yield Problem("artifact-missing", f"parts of file row {row_id}, which is not there")


def _generations(rows: list[SessionRow]) -> Iterator[Problem]:
    by_key: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row.generation)
    for key, found in by_key.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield Problem(
                "generation-missing", f"generations {sorted(found)} are not 1 to {len(found)}", unescape(key)
            )


# One session


class _Session:
    """The verification of one session."""

    def __init__(
        self, database: Database, row: SessionRow, check: bytes, placed: list[tuple[int, int]]
    ) -> None:
        self._database = database
        self._row = row
        self._check = check
        self._chain: Chain | None = Chain.begin(row.header)
        self._line = 0
        self._placed = placed
        self._gaps = len(placed) > 1  # then a segment's seqs cannot be told from its row
        self._ranges: list[tuple[int, int]] = []

    def problems(self) -> Iterator[Problem]:
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
            with self._database.read() as link:
                page = link.all(
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
        with self._database.read() as link:
            names = {number: unescape(name) for number, name in link.all("SELECT id, name FROM type")}
        after = -(2**63)
        while True:
            with self._database.read() as link:
                page = link.all(
                    "SELECT line_no, seq0, n, type_id, time_ms, line FROM event WHERE session_id = ? AND line_no > ? "
                    f"ORDER BY line_no LIMIT {_ROWS}",
                    (self._row.id, after),
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


def _rule_breaches(
    database: Database, row: SessionRow, dialect_of: Callable[[str], Dialect]
) -> Iterator[Problem]:
    """What breaks a rule of the log, as warnings: it was stored like that."""

    def warning(kind: str, message: str, seq: int | None) -> Problem:
        end = None if seq is None else seq + 1
        return Problem(
            kind, message, row.session, row.generation, from_seq=seq, to_seq=end, severity="warning"
        )

    try:
        dialect = dialect_of(row.dialect)
        events = reading.logical(database, row, dialect, deltas=False, strict=True)
        for found in invariants.check(events, seed_length=row.seed_length or 0):
            yield warning("rule", f"{found.owner}/{found.rule}: {found.message}", found.seq)
    except CorruptLog as error:
        yield warning("retired-shape", str(error), error.seq)
    except PlayheadError as error:
        yield warning("no-dialect", str(error), None)


# Files


def _files(database: Database, rows: list[SessionRow], session_id: int | None) -> Iterator[Problem]:
    """Problems of the imported files: of all, or of those of one session."""
    sessions = {row.id: row for row in rows}
    counted: dict[int, int] = defaultdict(int)
    with database.read() as link:
        ids = [found[0] for found in link.all("SELECT id FROM artifact ORDER BY id")]
    for artifact_id in ids:
        with database.read() as link:
            row = artifacts.load(link, artifact_id)
            check = link.one('SELECT "check" FROM artifact WHERE id = ?', (artifact_id,))[0]
        if row.session_id is not None:
            counted[row.session_id] += 1
        if session_id is None or row.session_id == session_id:
            yield from _file(database, row, check, sessions.get(row.session_id or 0))
    for row_id, session in sessions.items():
        if session_id in (None, row_id) and counted[row_id] != session.artifacts:
            yield Problem(
                "artifact-count",
                f"the session counts {session.artifacts} files, {counted[row_id]} are there",
                session.session,
                session.generation,
                2,
                session.lines + 2,
                0,
                session.next_seq,
            )


def _file(
    database: Database, row: artifacts.ArtifactRow, check: bytes, owner: SessionRow | None
) -> Iterator[Problem]:
    def problem(kind: str, message: str, *, warning: bool = False) -> Problem:
        return Problem(
            kind,
            message,
            owner.session if owner else None,
            owner.generation if owner else None,
            from_line=2 if owner else None,
            to_line=row.lines + 2 if owner else None,
            path=unescape(row.path),
            severity="warning" if warning else "error",
        )

    if check != row.check():
        yield problem("artifact-check", "the row of the file was changed")
        return
    with database.read() as link:
        parts = _part_checks(link, row.id)
        for number, (part_no, values, stored) in enumerate(parts):
            if part_no != number or stored != row_check("artifact_part", values):
                yield problem("artifact-part", f"part {number} of the file was changed or is missing")
                return
    try:
        rebuilt = rebuilding.rebuild(database, row, cast(BinaryIO, _Nowhere()))
    except PlayheadError as error:
        yield problem("artifact", str(error))
        return
    if not rebuilt.same:
        yield problem("recipe", rebuilt.reason, warning=True)


def _part_checks(link: Link, artifact_id: int) -> Iterator[tuple[int, tuple[int, int, bytes], bytes]]:
    number = -1
    while True:
        found = link.one(
            'SELECT part_no, body, "check" FROM artifact_part WHERE artifact_id = ? AND part_no > ? '
            "ORDER BY part_no LIMIT 1",
            (artifact_id, number),
        )
        if found is None:
            return
        number = found[0]
        yield number, (artifact_id, number, found[1]), found[2]


class _Nowhere:
    """Takes bytes and keeps none."""

    def write(self, piece: bytes) -> int:
        return len(piece)


# Heads kept elsewhere


def heads(database: Database) -> list[Head]:
    """The heads of all sessions as of now."""
    with database.read() as link:
        store = str(link.one("SELECT store_uuid FROM store WHERE id = 1")[0])
        rows = session_row.every(link)
    return [Head(store, row.session, row.generation, row.lines, row.next_seq, row.head.hex()) for row in rows]


def compare_heads(database: Database, kept: Iterable[Head]) -> Iterator[Problem]:
    """What changed below heads that were kept. Growth since then is no change."""
    with database.read() as link:
        store = str(link.one("SELECT store_uuid FROM store WHERE id = 1")[0])
        rows = {(row.session, row.generation): row for row in session_row.every(link)}
    for head in kept:
        if head.store != store:
            yield Problem(
                "other-store",
                f"the head was kept of store {head.store}; this is {store}",
                head.id,
                head.generation,
            )
            continue
        row = rows.get((SessionId(head.id), head.generation))
        whole = (2, head.lines + 2, 0, head.next_seq)
        if row is None:
            yield Problem(
                "session-missing", "the session is not there any more", head.id, head.generation, *whole
            )
        elif row.lines < head.lines:
            message = f"the session had {head.lines} lines, and has {row.lines}: its end was cut off"
            yield Problem(
                "cut",
                message,
                head.id,
                head.generation,
                row.lines + 2,
                head.lines + 2,
                row.next_seq,
                head.next_seq,
            )
        elif not _agrees(database, row, head):
            yield Problem(
                "rewritten", "the lines are not those of the kept head", head.id, head.generation, *whole
            )


def _agrees(database: Database, row: SessionRow, head: Head) -> bool:
    chain = Chain.begin(row.header)
    try:
        for block in reading.blocks(reading.paged(database), row, 0, head.lines):
            chain.feed(block)
    except PlayheadError:
        return False
    return chain.head(head.next_seq).hex() == head.head
