"""Taking a source log in: new events, a new generation, or nothing.

The first log of an id is written in one pass. When the store already has logs under that id and header, or when
the numbering of the file runs back, the file is first outlined into *branches* (a stretch of lines whose
numbering only goes forward; where it runs back to seq s, a branch begins that shares the lines below s), and
each branch is compared with what is there by its hash chain:

- a stored log that is a prefix of the branch is extended by what follows;
- a branch that is a prefix of a stored log, or equal to it, adds nothing;
- anything else is a new generation.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from playhead.eventstore import envelope
from playhead.eventstore.chain import Chain
from playhead.eventstore.dialect import Native
from playhead.eventstore.findings import Finding
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.source import LogSource
from playhead.eventstore.sql import reading, session_row
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.sealing import Place, SegmentWriter
from playhead.eventstore.sql.session_row import SessionRow, header_columns

MAX_FINDINGS = 1000
"""More findings than this of one log are counted, not kept."""


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
    """A branch in the store: its session as it now is, and what was added to it."""

    row: SessionRow
    own_line: int
    lines: int
    new: bool = False
    ranges: list[tuple[int, int]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def take_new(link: Link, source: LogSource, generation: int) -> Taken:
    """Write a log of which nothing is stored, in one pass. Raises ``RanBack`` where the numbering runs back."""
    writer = SegmentWriter(link, _new_session(link, source, generation))
    place = Place(2, len(source.header_line) + 1)
    for block in source.blocks():
        writer.write(block, place)
        place = Place(place.line + block.count(b"\n"), place.byte + len(block))
    row = writer.finish()
    return Taken(row, 0, row.lines, new=True, ranges=writer.ranges, findings=writer.findings)


def take_outlined(
    link: Link, source: LogSource, stored: list[SessionRow]
) -> tuple[list[Taken], list[Finding]]:
    """Compare each branch of a log with what is stored under its id, and write what is new.

    Gives what became of each branch, in order, and the findings about the branching itself.
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
            for block, place in _branch_blocks(source, branch, row.lines):
                writer.write(block, place)
            result = Taken(
                writer.finish(), branch.own_line, branch.lines, is_new, writer.ranges, writer.findings
            )
        same_header = [other for other in same_header if other.id != result.row.id] + [result.row]
        taken.append(result)
    return taken, findings


def outline(source: LogSource) -> tuple[list[Branch], list[Finding]]:
    """The branches of a log in the order in which they begin, and a finding for each place where one does."""
    branch = Branch(ranges=[(0, 0)])
    branches = [branch]
    forks: list[Fork] = []
    last_seqs = array("q")  # of the current branch: the last seq on or before each of its lines
    at, byte = 0, len(source.header_line) + 1
    for block in source.blocks():
        for line in block.split(b"\n")[:-1]:
            seen = envelope.view(line)
            if seen.n and seen.seq0 < branch.next_seq:
                keep = bisect_left(last_seqs, seen.seq0)
                del last_seqs[keep:]
                shared = _front(branch.ranges, keep)
                other = Branch(ranges=[*shared, (at, at)], own_line=keep, lines=keep)
                forks.append(Fork(branch, other, seen.seq0, branch.next_seq, Place(at + 2, byte)))
                branches.append(other)
                branch = other
            if seen.n:
                branch.next_seq = seen.seq0 + seen.n
                branch.own_events += seen.n
                branch.last_ms = seen.t1
            last_seqs.append(branch.next_seq - 1)
            branch.ranges[-1] = (branch.ranges[-1][0], at + 1)
            branch.lines += 1
            at += 1
            byte += len(line) + 1
    return branches, [fork.finding() for fork in forks]


def _front(ranges: list[tuple[int, int]], lines: int) -> list[tuple[int, int]]:
    """The first ``lines`` lines of ``ranges``."""
    front = []
    for start, end in ranges:
        size = min(end - start, lines)
        if size:
            front.append((start, start + size))
        lines -= size
    return front


def _branch_blocks(source: LogSource, branch: Branch, from_line: int) -> Iterator[tuple[bytes, Place]]:
    """The lines of a branch from its own line ``from_line`` on, with the places where they lie in the file."""
    wanted = branch.ranges
    skip = from_line
    rest = []
    for start, end in wanted:
        gone = min(skip, end - start)
        skip -= gone
        if start + gone < end:
            rest.append((start + gone, end))
    at, byte = 0, len(source.header_line) + 1
    for block in source.blocks():
        count = block.count(b"\n")
        for start, end in rest:
            first, last = max(start, at), min(end, at + count)
            if first >= last:
                continue
            if (first, last) == (at, at + count):
                yield block, Place(at + 2, byte)
                continue
            lines = block.split(b"\n")
            before = sum(len(line) + 1 for line in lines[: first - at])
            yield (
                b"".join(line + b"\n" for line in lines[first - at : last - at]),
                Place(first + 2, byte + before),
            )
        at += count
        byte += len(block)


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
    """The chain of a branch after each of ``counts`` lines."""
    chain = Chain.begin(source.header_line)
    found = {}
    waiting = list(counts)
    if waiting and waiting[0] == 0:
        found[waiting.pop(0)] = chain.copy()
    for block, _ in _branch_blocks(source, branch, 0):
        count = block.count(b"\n")
        while waiting and chain.lines + count >= waiting[0]:
            lines = block.split(b"\n")
            part = b"".join(line + b"\n" for line in lines[: waiting[0] - chain.lines])
            block, count = block[len(part) :], count - (waiting[0] - chain.lines)
            chain.feed(part)
            found[waiting.pop(0)] = chain.copy()
        if count:
            chain.feed(block, count)
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


def few(findings: list[Finding]) -> list[Finding]:
    """At most ``MAX_FINDINGS`` findings; what was left out is counted in the last."""
    if len(findings) <= MAX_FINDINGS:
        return findings
    more = len(findings) - MAX_FINDINGS
    return [*findings[:MAX_FINDINGS], Finding("more", f"{more} more findings of this log are not listed")]
