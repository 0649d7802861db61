"""Taking a source log in: new events, a new generation, or nothing.

The first log of an id is written in one pass. When the store already has logs under that id and header, or when
the numbering of the file runs back, the file is first outlined into *branches* (a stretch of lines whose
numbering only goes forward; where it runs back to seq s, a branch begins that shares the lines below s), and
each branch is compared with what is there by its hash chain:

- a stored log that is a prefix of the branch is extended by what follows;
- a branch that is a prefix of a stored log, or equal to it, adds nothing;
- anything else is a new generation.

Each branch is a pass over the file and a copy of what it shares, so a file of too many of them
(``MAX_BRANCHES``, ``MAX_BRANCH_LINES``) is not interpreted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from playhead.eventstore import envelope
from playhead.eventstore.chain import Chain
from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import NotALog, UsageError
from playhead.eventstore.findings import Finding
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.line_records import Defect
from playhead.eventstore.source import LogSource
from playhead.eventstore.sql import reading, session_row
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.finding_list import FindingList
from playhead.eventstore.sql.sealing import RanBack, SegmentWriter
from playhead.eventstore.sql.session_row import SessionRow, header_columns

MAX_BRANCHES = 1000
"""The most branches of one file that are kept as generations."""

MAX_BRANCH_LINES = 20_000_000
"""The most lines of one file times its branches, where it has more than two."""


class Place(NamedTuple):
    """Where a line lies in its file: physical line (the header is 1) and byte offset in the decoded log."""

    line: int
    byte: int


@dataclass(slots=True)
class Branch:
    """Lines of a file whose numbering only goes forward.

    ``ranges`` are half-open ranges of line indexes in the file (the line behind the header is 0). ``own_line``
    is the first line of the branch that no earlier branch has, ``own_events`` counts the facts from there on.
    """

    ranges: list[tuple[int, int]]
    own_line: int = 0
    own_events: int = 0
    lines: int = 0
    next_seq: int = 0
    last_ms: int = 0


@dataclass(frozen=True, slots=True)
class Fork:
    """Where the numbering of a file runs back: the branch before it, the one behind it, and the place."""

    before: Branch
    behind: Branch
    seq: int
    expected: int
    place: Place

    def finding(self) -> Finding:
        later = "later" if self.behind.last_ms >= self.before.last_ms else "earlier"
        return Finding(
            kind="branch",
            message=(
                f"the numbering ran back: expected seq {self.expected}, got {self.seq}, so a second writer is the "
                f"cause; two branches from seq {self.seq}, kept as generations: {self.expected - self.seq} records "
                f"before this line, {self.behind.own_events} from it on, the {later} ones by time"
            ),
            line=self.place.line,
            byte=self.place.byte,
            seq=self.seq,
        )


@dataclass(slots=True)
class Taken:
    """A branch in the store: its session as it now is, and what was added to it.

    ``lines`` counts those of the branch, ``added_lines`` those that the store did not have.
    """

    row: SessionRow
    own_line: int
    lines: int
    added_lines: int = 0
    new: bool = False
    ranges: list[tuple[int, int]] = field(default_factory=list)


def take_new(link: Link, source: LogSource, generation: int) -> tuple[Taken, FindingList]:
    """Write a log of which nothing is stored, in one pass; what became of it, and what is wrong with its lines.

    Raises ``RanBack`` where the numbering runs back.
    """
    writer = SegmentWriter(link, _new_session(link, source, generation))
    for block in source.blocks():
        writer.write(block)
    row = writer.finish()
    return Taken(row, 0, row.lines, row.lines, True, writer.ranges), writer.findings


def take_lines(link: Link, header: SessionHeader, blocks: Iterable[bytes]) -> Taken:
    """Write a native session that begins with the lines of ``blocks``, each one sound event, in one pass.

    Raises ``UsageError`` for other lines.
    """
    writer = SegmentWriter(
        link, session_row.insert(link, empty_row(header, header.new_line(), Native.name, 1))
    )
    try:
        for block in blocks:
            writer.write(block)
        row = writer.finish()
    except RanBack as error:
        message = f"session {header.id!r}, line {error.line + 2}: the numbering runs back"
        raise UsageError(message) from None
    for found in writer.findings.listed()[:1]:
        raise UsageError(f"session {header.id!r}, line {found.line}: {found.message}")
    if row.events != row.lines:
        raise UsageError(f"session {header.id!r}: a line packs several events")
    return Taken(row, 0, row.lines, row.lines, True, writer.ranges)


def take_outlined(link: Link, source: LogSource, stored: list[SessionRow]) -> tuple[list[Taken], FindingList]:
    """Compare each branch of a log with what is stored under its id, and write what is new.

    Gives what became of each branch, in order, and what is wrong with the lines of the file, the old ones
    among them. Raises ``NotALog`` for a file of too many branches.
    """
    branches, findings = outline(source)
    generation = max((row.generation for row in stored), default=0)
    same_header = [row for row in stored if row.header == source.header_line]
    taken = []
    for branch in branches:
        row, is_new = _stored_part(link, source, branch, same_header), False
        if row is None:
            generation += 1
            row, is_new = _new_session(link, source, generation), True
        if row.lines >= branch.lines and not is_new:
            result = Taken(row, branch.own_line, branch.lines)
        else:
            writer = SegmentWriter(link, row)
            for block in _branch_blocks(source, branch, row.lines):
                writer.write(block)
            added = branch.lines - row.lines
            result = Taken(writer.finish(), branch.own_line, branch.lines, added, is_new, writer.ranges)
        same_header = [other for other in same_header if other.id != result.row.id] + [result.row]
        taken.append(result)
    return taken, findings


def outline(source: LogSource) -> tuple[list[Branch], FindingList]:
    """The branches of a log in the order in which they begin; a finding for each place where one does, then
    those of the lines. Raises ``NotALog`` where there are too many branches."""
    branch = Branch(ranges=[(0, 0)])
    branches = [branch]
    forks: list[Fork] = []
    defects = FindingList()
    last_seqs = array("q")  # of the current branch: the last seq on or before each of its lines
    at, byte = 0, len(source.header_line) + 1
    for block in source.blocks():
        for line in block.split(b"\n")[:-1]:
            seen = envelope.view(line)
            place = Place(at + 2, byte)
            if seen.n and seen.seq0 < branch.next_seq:
                keep = bisect_left(last_seqs, seen.seq0)
                del last_seqs[keep:]
                shared = _front(branch.ranges, keep)
                shared_seqs = last_seqs[-1] + 1 if last_seqs else 0
                other = Branch(ranges=[*shared, (at, at)], own_line=keep, lines=keep, next_seq=shared_seqs)
                forks.append(Fork(branch, other, seen.seq0, branch.next_seq, place))
                branches.append(other)
                branch = other
            _add_defects(defects, line, seen, branch.next_seq, place)
            if seen.n:
                branch.next_seq = seen.seq0 + seen.n
                branch.own_events += seen.n
                branch.last_ms = seen.t1
            last_seqs.append(branch.next_seq - 1)
            branch.ranges[-1] = (branch.ranges[-1][0], at + 1)
            branch.lines += 1
            at += 1
            byte += len(line) + 1
        _require_few(branches, at, byte)
    findings = FindingList(fork.finding() for fork in forks)
    findings.extend(defects)
    return branches, findings


def _add_defects(
    defects: FindingList, line: bytes, seen: envelope.LineView, expected: int, place: Place
) -> None:
    """Add what is wrong with a line, as ``segments.seal`` tells it."""
    where = {"line": place.line, "byte": place.byte, "seq": seen.seq0, "size_bytes": len(line)}
    if seen.defect is not None:
        defects.add_defect(seen.defect, **where)
    if seen.n and seen.seq0 > expected:
        gap = Defect("seq-gap", f"expected seq {expected}, got {seen.seq0}")
        defects.add_defect(gap, **where)


def _require_few(branches: list[Branch], lines: int, byte: int) -> None:
    count = len(branches)
    if count > MAX_BRANCHES or (count > 2 and count * lines > MAX_BRANCH_LINES):
        message = f"the numbering runs back {count - 1} times in {lines} lines: too often to tell whose line is whose"
        raise NotALog("too-many-branches", message, line=lines + 1, byte=byte)


def _front(ranges: list[tuple[int, int]], lines: int) -> list[tuple[int, int]]:
    """The first ``lines`` lines of ``ranges``."""
    front = []
    for start, end in ranges:
        size = min(end - start, lines)
        if size:
            front.append((start, start + size))
        lines -= size
    return front


def _branch_blocks(source: LogSource, branch: Branch, from_line: int) -> Iterator[bytes]:
    """The lines of a branch from its own line ``from_line`` on."""
    skip = from_line
    rest = []
    for start, end in branch.ranges:
        gone = min(skip, end - start)
        skip -= gone
        if start + gone < end:
            rest.append((start + gone, end))
    at = 0
    for block in source.blocks():
        count = block.count(b"\n")
        lines: list[bytes] = []
        for start, end in rest:
            first, last = max(start, at), min(end, at + count)
            if first >= last:
                continue
            if (first, last) == (at, at + count):
                yield block
                continue
            lines = lines or block.split(b"\n")
            yield b"\n".join(lines[first - at : last - at]) + b"\n"
        at += count


def _stored_part(
    link: Link, source: LogSource, branch: Branch, stored: list[SessionRow]
) -> SessionRow | None:
    """The stored log that shares all its lines with the branch, or all the branch's; the longest there is."""
    shorter = sorted((row for row in stored if row.lines <= branch.lines), key=lambda row: row.lines)
    heads = _heads(source, branch, sorted({row.lines for row in shorter} | {branch.lines}))
    for row in reversed(shorter):
        grows = row.lines < branch.lines
        if heads[row.lines].head(row.next_seq) == row.head and not (grows and row.dialect == Native.name):
            return row
    for row in stored:
        if row.lines > branch.lines:
            chain = reading.chain_at(link, row, branch.lines)
            if chain.head(branch.next_seq) == heads[branch.lines].head(branch.next_seq):
                return row
    return None


def _heads(source: LogSource, branch: Branch, counts: list[int]) -> dict[int, Chain]:
    """The chain of a branch after each of ``counts`` lines, which are in order."""
    chain = Chain.begin(source.header_line)
    found = {count: chain.copy() for count in counts[:1] if count == 0}
    waiting = deque(counts[len(found) :])
    for block in _branch_blocks(source, branch, 0):
        begin, end = chain.lines, chain.lines + block.count(b"\n")
        if not waiting or end < waiting[0]:
            chain.feed(block, end - begin)
            continue
        lines = block.split(b"\n")
        while waiting and waiting[0] <= end:
            upto = waiting.popleft()
            if upto > chain.lines:
                part = lines[chain.lines - begin : upto - begin]
                chain.feed(b"\n".join(part) + b"\n", len(part))
            found[upto] = chain.copy()
        if chain.lines < end:
            rest = lines[chain.lines - begin : end - begin]
            chain.feed(b"\n".join(rest) + b"\n", len(rest))
    return found


def _new_session(link: Link, source: LogSource, generation: int) -> SessionRow:
    return session_row.insert(link, empty_row(source.header, source.header_line, source.dialect, generation))


def empty_row(header: SessionHeader, line: bytes, dialect: str, generation: int) -> SessionRow:
    """The row of a session without lines, not yet stored; ``line`` is the header as it stands in the log."""
    chain = Chain.begin(line)
    return SessionRow(
        id=0,
        generation=generation,
        dialect=dialect,
        header=line,
        next_seq=0,
        lines=0,
        events=0,
        first_ms=None,
        last_ms=None,
        chain=chain.value,
        head=chain.head(0),
        sealed_lines=0,
        artifacts=0,
        findings=None,
        idem=None,
        **header_columns(header),
    )
