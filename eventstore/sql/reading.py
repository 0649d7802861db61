"""Reading a session's lines and facts, wherever they lie.

Each page is read in a short transaction of its own. That is safe: a line, once stored, never changes, and
sealing moves lines from rows to a segment in one transaction, so a reader that asks for line k finds it in the
one place or in the other. PostgreSQL gives each statement the state of its own moment: there, sealing may come
between the look into the one place and the other, so the first is looked into again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from playhead.eventstore import segments
from playhead.eventstore.chain import LEAF_LINES, Chain
from playhead.eventstore.codecs.wanted import Wanted
from playhead.eventstore.dialect import Dialect
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import commits
from playhead.eventstore.sql.engine import Link, Reads, held
from playhead.eventstore.sql.session_row import SessionRow

ADVICE = "; run `playhead verify`"
"""How the message of an error about changed stored bytes ends."""

PAGE_ROWS, PAGE_BYTES = 1024, 1 << 20
"""A page of unsealed rows has at most so many of them, and no more bytes of lines unless the first alone has more."""

_SEGMENT_COLUMNS = "line0, lines, seq0, n, codec, raw_len, body"


class StoredSegment(NamedTuple):
    """A segment as readers need it."""

    line0: int
    lines: int
    seq0: int
    n: int
    codec: int
    raw_len: int
    body: bytes

    @property
    def line_count(self) -> int:
        return self.lines

    def block(self, session: str) -> bytes:
        """The lines, each ended by LF. Raises ``CorruptLog`` for a body that does not decode."""
        return b"".join(self.pieces(session))

    def pieces(self, session: str) -> Iterator[bytes]:
        """The same, some lines at a time."""
        try:
            yield from segments.pieces(self.codec, self.body, self.raw_len)
        except (segments.CodecError, TypeError) as error:  # a damaged cell may even have become text
            raise CorruptLog(
                session,
                f"lines {self.line0 + 2} to {self.line0 + self.lines + 1} (seq {self.seq0} on) cannot be decoded: "
                f"{error}{ADVICE}",
                seq=self.seq0,
                line=self.line0 + 2,
                kind="bad-segment",
            ) from error

    def facts(self, wanted: Wanted) -> Iterator[list[Recorded]]:
        """The wanted facts in order, some at a time. Raises like ``block``."""
        try:
            yield from segments.segment_facts(self.codec, self.body, self.raw_len, wanted)
        except (segments.CodecError, TypeError):
            self.block(wanted.session)
            raise


class StoredLines(NamedTuple):
    """A page of unsealed rows: ``lines`` from ``line0`` on."""

    line0: int
    lines: list[bytes]

    @property
    def line_count(self) -> int:
        return len(self.lines)

    def require_bytes(self, session: str) -> None:
        """Raise ``CorruptLog`` for a line that somebody put there as text."""
        for at, line in enumerate(self.lines, self.line0 + 2):
            if not isinstance(line, bytes):
                message = f"line {at} was changed in the store{ADVICE}"
                raise CorruptLog(session, message, line=at, kind="bad-row")

    def block(self, _session: str) -> bytes:
        """The lines, each ended by LF."""
        return b"\n".join(self.lines) + b"\n"

    def pieces(self, session: str) -> Iterator[bytes]:
        """The same."""
        yield self.block(session)

    def facts(self, wanted: Wanted) -> Iterator[list[Recorded]]:
        """The wanted facts in order, some at a time."""
        yield from map(wanted.facts, self.lines)


Page = StoredSegment | StoredLines


def page_at(link: Link, session_id: int, line_no: int) -> Page | None:
    """The page that holds line ``line_no`` (from 0), or None at the end of the log."""
    return (
        _segment_at(link, session_id, line_no)
        or rows_at(link, session_id, line_no)
        or _segment_at(link, session_id, line_no)
    )


def _segment_at(link: Link, session_id: int, line_no: int) -> StoredSegment | None:
    found = link.one(
        f"SELECT {_SEGMENT_COLUMNS} FROM segment WHERE session_id = ? AND line0 <= ? ORDER BY line0 DESC LIMIT 1",
        (session_id, line_no),
    )
    return StoredSegment(*found) if found is not None and line_no < found[0] + found[1] else None


def rows_in_page(link: Link, session_id: int, after: int) -> int:
    """How many of the unsealed rows behind line ``after`` make a page; 0 where there are none."""
    sql = f"SELECT length(line) FROM event WHERE session_id = ? AND line_no > ? ORDER BY line_no LIMIT {PAGE_ROWS}"
    rows = size_bytes = 0
    with link.each(
        sql, (session_id, after)
    ) as sizes:  # SQLite walks over whole lines: no further than it has to
        for (size,) in sizes:
            size_bytes += size
            if rows and size_bytes > PAGE_BYTES:
                break
            rows += 1
    return rows


def rows_at(link: Link, session_id: int, line_no: int) -> StoredLines | None:
    """The unsealed rows from ``line_no`` on, as far as they follow each other and fill a page; None for none."""
    rows = link.all(
        "SELECT line_no, line FROM event WHERE session_id = ? AND line_no >= ? ORDER BY line_no LIMIT ?",
        (session_id, line_no, rows_in_page(link, session_id, line_no - 1)),
    )
    if not rows or rows[0][0] != line_no:
        return None
    count = next((at for at, row in enumerate(rows) if row[0] != line_no + at), len(rows))
    return StoredLines(line_no, [row[1] for row in rows[:count]])


def pages(
    fetch: Callable[[int, int], Page | None], row: SessionRow, from_line: int = 0, to_line: int | None = None
) -> Iterator[Page]:
    """The pages of a session from the one that holds ``from_line``, up to line ``to_line`` (or the end as of
    ``row``). ``fetch`` is ``paged(database)`` or ``within(link)``. Raises ``CorruptLog`` where lines are missing."""
    end = row.lines if to_line is None else min(to_line, row.lines)
    at = from_line
    while at < end:
        page = fetch(row.id, at)
        if page is None:
            raise CorruptLog(
                row.session,
                f"line {at + 2} of {row.lines + 1} is missing from the store{ADVICE}",
                line=at + 2,
                kind="missing-lines",
            )
        if isinstance(page, StoredLines):
            page.require_bytes(row.session)
        yield page
        at = page.line0 + page.line_count


def paged(reads: Reads) -> Callable[[int, int], Page | None]:
    """Fetches each page through ``reads``."""

    def fetch(session_id: int, line_no: int) -> Page | None:
        with reads() as link:
            return page_at(link, session_id, line_no)

    return fetch


def within(link: Link) -> Callable[[int, int], Page | None]:
    """Fetches pages inside an open transaction."""
    return paged(held(link))


def blocks(
    fetch: Callable[[int, int], Page | None], row: SessionRow, from_line: int = 0, to_line: int | None = None
) -> Iterator[bytes]:
    """The lines ``from_line`` to ``to_line`` (half-open) in blocks, each line ended by LF."""
    end = row.lines if to_line is None else min(to_line, row.lines)
    for page in pages(fetch, row, from_line, end):
        skip, keep = max(0, from_line - page.line0), min(page.line_count, end - page.line0)
        if skip or keep < page.line_count:
            lines = page.block(row.session).split(b"\n")[skip:keep]
            yield b"".join(line + b"\n" for line in lines)
        else:
            yield from page.pieces(row.session)


def chain_at(link: Link, row: SessionRow, line_no: int) -> Chain:
    """The chain of a session after its first ``line_no`` lines."""
    if line_no == 0:
        return Chain.begin(row.header_line())
    found = link.one(
        "SELECT line0, lines, chain FROM segment WHERE session_id = ? AND line0 + lines <= ? "
        "ORDER BY line0 DESC LIMIT 1",
        (row.id, line_no),
    )
    chain = Chain.begin(row.header_line())
    if found is not None:
        sealed = found[0] + found[1]
        chain = Chain(found[2], sealed - sealed % LEAF_LINES)
    for block in blocks(within(link), row, chain.lines, line_no):
        chain.feed(block)
    return chain


def line_of_seq(link: Link, session_id: int, seq: int) -> int:
    """A line at or before the first line with a fact of ``seq`` or above."""
    found = link.one(
        "SELECT max(line_no) FROM event WHERE session_id = ? AND seq0 <= ? AND n > 0", (session_id, seq)
    )[0]
    if found is not None:
        return int(found)
    found = link.one("SELECT max(line0) FROM segment WHERE session_id = ? AND seq0 <= ?", (session_id, seq))[
        0
    ]
    return int(found or 0)


class Positions:
    """Gives facts of one session their positions; the facts must come in order."""

    def __init__(self, reads: Reads, session_id: int, from_seq: int) -> None:
        self._reads = reads
        self._session_id = session_id
        self._from_seq = from_seq
        self._page: list[commits.Commit] = []
        self._at = 0
        self._known, self._behind = 0, 0
        self._ahead = 0

    def place(self, facts: list[Recorded]) -> None:
        """Give ``facts`` their positions; one that the commit log does not know keeps None."""
        position: Any  # a Position, without the call that says so
        for fact in facts:
            seq = fact.seq
            if self._known <= seq < self._behind or self._found(seq):
                position = self._ahead + seq
                fact.position = position

    def _found(self, seq: int) -> bool:
        """Whether a commit holds ``seq``; it is remembered then."""
        while True:
            while self._at < len(self._page):
                commit = self._page[self._at]
                if seq < commit.seq0:
                    return False
                if seq < commit.seq0 + commit.n:
                    self._known, self._behind = commit.seq0, commit.seq0 + commit.n
                    self._ahead = commit.pos0 - commit.seq0
                    return True
                self._at += 1
            with self._reads() as link:
                self._page = commits.page_of_session(link, self._session_id, max(seq, self._from_seq))
            self._at = 0
            if not self._page:
                return False


def facts(
    reads: Reads,
    row: SessionRow,
    from_seq: int = 0,
    to_seq: int | None = None,
    types: Collection[str] | None = None,
    *,
    deltas: bool = True,
    without: Collection[str] = (),
    joined: bool = False,
    placed: bool = True,
) -> Iterator[Recorded]:
    """The facts of a session in order, of ``types`` or of all, none of a type in ``without``.

    What is not asked for is passed over undecoded: token deltas where ``deltas`` is False, and other types. Deltas of
    one run may come as one where they are to be ``joined``. They have their positions unless ``placed`` is False.
    """
    return chain.from_iterable(_batches(reads, row, from_seq, to_seq, types, deltas, without, joined, placed))


def _batches(
    reads: Reads,
    row: SessionRow,
    from_seq: int,
    to_seq: int | None,
    types: Collection[str] | None,
    deltas: bool,
    without: Collection[str],
    joined: bool,
    placed: bool,
) -> Iterator[list[Recorded]]:
    """The same, some at a time."""
    end = row.next_seq if to_seq is None else min(to_seq, row.next_seq)
    if from_seq >= end:
        return
    wanted = Wanted.of(row.session, from_seq, end, types, deltas, without, joined)
    start = 0
    if from_seq > 0:
        with reads() as link:
            start = line_of_seq(link, row.id, from_seq)
    positions = Positions(reads, row.id, from_seq) if placed else None
    for page in pages(paged(reads), row, start):
        last = None
        for batch in page.facts(wanted):
            if batch:
                if positions is not None:
                    positions.place(batch)
                last = batch[-1]
                yield batch
        if last is not None:
            # What was read as rows may have been sealed since, into a segment that goes further.
            wanted = wanted.after(last.seq)
        if isinstance(page, StoredSegment) and page.seq0 + page.n >= end:
            return


def logical(
    reads: Reads,
    row: SessionRow,
    dialect: Dialect,
    from_seq: int = 0,
    to_seq: int | None = None,
    *,
    deltas: bool = True,
    without: Collection[str] = (),
    strict: bool = False,
    joined: bool = False,
    placed: bool = True,
) -> Iterator[Recorded]:
    """The events of a session in the current vocabulary, of the facts with ``from_seq <= seq < to_seq``.

    Left out are token deltas where ``deltas`` is False, and the types in ``without``; facts that the dialect has no
    part in are then not even read, and those before ``from_seq`` only once an event depends on them. Deltas of one run
    may come as one where they are to be ``joined``. They have their positions unless ``placed`` is False. A retired
    shape that the dialect cannot read comes as it is stored; ``strict`` raises ``CorruptLog`` for it.
    """
    state: Any = dialect.initial(row.parsed_header())
    touches, left_out = dialect.touches, frozenset(without)
    unread: list[str] = []
    if touches is not None:
        unread = [type for type in left_out if left_out.issuperset(touches.get(type, ()))]
    remembered = touches if dialect.remembers is None else frozenset(dialect.remembers).difference(unread)
    knows_earlier = from_seq == 0 or state is None
    for fact in facts(
        reads, row, from_seq, to_seq, deltas=deltas, without=unread, joined=joined, placed=placed
    ):
        if touches is not None and fact.type not in touches:
            yield fact
            continue
        if not knows_earlier and (remembered is None or fact.type in remembered):
            knows_earlier = True
            for earlier in facts(reads, row, 0, from_seq, remembered, deltas=deltas):
                state, _ = _stepped(dialect, state, earlier, strict)
        state, events = _stepped(dialect, state, fact, strict)
        for event in events:
            if event.type not in left_out:
                yield event


def _stepped(dialect: Dialect, state: Any, fact: Recorded, strict: bool) -> tuple[Any, Sequence[Recorded]]:
    """What ``dialect`` makes of ``fact``; a retired shape that it cannot read stays as it is unless ``strict``."""
    try:
        return dialect.step(state, fact)
    except CorruptLog:
        if strict:
            raise
        return state, (fact,)
