"""One session of a SQL store: appends, reads, seals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from playhead.eventstore import envelope
from playhead.eventstore.chain import Chain
from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import (
    CorruptLog,
    IdempotencyConflict,
    ReadOnlySession,
    UsageError,
    WrongExpectedSeq,
)
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.findings import damage
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Idem, Position, Seq, SessionId
from playhead.eventstore.log import Appended, NewEvent, SessionInfo
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import commits, exchanges, reading, sealing, session_row
from playhead.eventstore.sql.columns import escape
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.session_row import SessionRow

if TYPE_CHECKING:
    from playhead.eventstore.sql.store import SqlStore

_SEAL_ROW_BYTES = 8 << 20


class Entry(NamedTuple):
    """A line to write, with what its row says of it."""

    type: str
    time_ms: int
    line: bytes


class Growth(NamedTuple):
    """What was written: ``n`` facts from ``seq0`` on. ``row`` and ``chain`` are those of the session behind them."""

    row: SessionRow
    chain: Chain
    seq0: int
    n: int
    size_bytes: int


class SqlSession:
    """A session of a ``SqlStore``; see ``log.Session`` for what is promised."""

    def __init__(self, store: SqlStore, row: SessionRow) -> None:
        self._store = store
        self._row = row
        self._chain: Chain | None = None  # the chain at ``_row``, once an append has needed it
        self._unsealed_bytes = 0

    @property
    def id(self) -> SessionId:
        return self._row.session

    @property
    def row_id(self) -> int:
        """The number of the session's row."""
        return self._row.id

    @property
    def generation(self) -> int:
        """Which log of this id it is, counted from 1 in the order they came."""
        return self._row.generation

    @property
    def next_seq(self) -> Seq:
        return Seq(self._fresh().next_seq)

    @property
    def info(self) -> SessionInfo:
        with self._store.database.read() as link:
            self._adopt(session_row.load(link, self._row.id))
            count = link.one("SELECT count(*) FROM session WHERE key = ?", (self._row.key,))[0]
        return self._row.info(count)

    def _fresh(self) -> SessionRow:
        with self._store.database.read() as link:
            self._adopt(session_row.load(link, self._row.id))
        return self._row

    def _reaching(self, to_seq: int | None) -> SessionRow:
        """A row that knows of all facts before ``to_seq``, or of all: what is stored already does not change."""
        return self._row if to_seq is not None and to_seq <= self._row.next_seq else self._fresh()

    def _adopt(self, row: SessionRow) -> None:
        if row.lines != self._row.lines:
            self._chain = None
        self._row = row

    # Appending

    def append(
        self, events: Iterable[NewEvent], *, expected_seq: int | None = None, idem: Idem | str | None = None
    ) -> Appended:
        """Add events at the end, all or none; durable when this returns. See ``log.Session.append``."""
        new = list(events)
        if not new:
            raise UsageError(f"session {self.id!r}: an append needs at least one event")
        if self._row.dialect != Native.name:
            raise ReadOnlySession(self.id)
        now = self._store.clock()
        with self._store.database.write() as link:
            if idem is not None:
                earlier = commits.of_key(link, self._row.id, escape(idem))
                if earlier is not None:
                    return self._earlier(link, earlier, new, idem)
            type_ids = self._store.types.ids(link, {event.type for event in new})
            growth, done = self._write(link, new, type_ids, expected_seq, now, idem)
        self._store.types.remember(type_ids)
        self.adopt(growth)
        return done

    def _write(
        self,
        link: Link,
        new: list[NewEvent],
        type_ids: dict[str, int],
        expected_seq: int | None,
        now: int,
        idem: str | None,
    ) -> tuple[Growth, Appended]:
        times = [now if event.time_ms is None else event.time_ms for event in new]

        def entries(seq: int) -> list[Entry]:
            return [
                Entry(event.type, time, event.line(seq + at, now))
                for at, (event, time) in enumerate(zip(new, times, strict=True))
            ]

        growth = self.grow(link, entries, type_ids, expected_seq)
        key = None if idem is None else escape(idem)
        position = commits.place(link, growth.row.id, [(growth.seq0, growth.n)], now, idem=key)
        return growth, Appended(Seq(growth.seq0), Seq(growth.row.next_seq), position)

    def grow(
        self,
        link: Link,
        entries: Callable[[int], list[Entry]],
        type_ids: Mapping[str, int],
        expected_seq: int | None,
    ) -> Growth:
        """Write the lines that ``entries`` makes for the next seq; they have no positions yet.

        Raises ``WrongExpectedSeq``, and has then changed nothing. ``adopt`` the growth once it is committed.
        """
        before = self._row
        chain = self._chain or reading.chain_at(link, before, before.lines)
        while True:
            if expected_seq is None or expected_seq == before.next_seq:
                lines = entries(before.next_seq)
                row, grown = _grown(before, chain, lines)
                if session_row.save(link, row, before=before):
                    break
            current = session_row.load(link, before.id, lock=True)
            if current == before:
                assert expected_seq is not None
                raise WrongExpectedSeq(self.id, expected_seq, before.next_seq)
            before = current
            chain = reading.chain_at(link, before, before.lines)
        link.many(
            "INSERT INTO event (session_id, line_no, seq0, n, type_id, time_ms, line) VALUES (?, ?, ?, 1, ?, ?, ?)",
            [
                (row.id, before.lines + at, before.next_seq + at, type_ids[type], time_ms, line)
                for at, (type, time_ms, line) in enumerate(lines)
            ],
        )
        return Growth(row, grown, before.next_seq, len(lines), sum(len(line) for _, _, line in lines))

    def adopt(self, growth: Growth) -> None:
        """Take over a growth that was committed, and seal when enough has come together."""
        self._row, self._chain = growth.row, growth.chain
        self._unsealed_bytes += growth.size_bytes
        unsealed = growth.row.lines - growth.row.sealed_lines
        if unsealed >= sealing.SEAL_LINES or self._unsealed_bytes >= _SEAL_ROW_BYTES:
            self.seal()

    def _earlier(self, link: Link, commit: commits.Commit, new: list[NewEvent], idem: str) -> Appended:
        """The result of the append that used this key before, when it was for the same events."""
        row = session_row.load(link, self._row.id)
        start = reading.line_of_seq(link, row.id, commit.seq0)
        old: list[Recorded] = []
        for block in reading.blocks(reading.within(link), row, start):
            for line in block.split(b"\n")[:-1]:
                old += [
                    fact
                    for fact in envelope.facts(line, row.session)
                    if commit.seq0 <= fact.seq < commit.seq0 + commit.n
                ]
            if len(old) >= commit.n:
                break
        if len(old) != len(new) or any(not _same(event, fact) for event, fact in zip(new, old, strict=True)):
            raise IdempotencyConflict(self.id, idem)
        return Appended(Seq(commit.seq0), Seq(commit.seq0 + commit.n), Position(commit.pos0))

    def seal(self) -> None:
        """Turn the unsealed rows into a compressed segment. Readers and hashes see no difference."""
        with self._store.database.write() as link:
            self._row = sealing.seal_session(link, self._row.id)
        self._unsealed_bytes = 0

    # Reading

    def read(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        types: Iterable[str] | None = None,
        strict: bool = False,
    ) -> Iterator[Recorded]:
        """Stored facts with ``from_seq <= seq < to_seq`` in order, of the given ``types`` or of all.

        Packed rows come as the single facts that they hold. ``strict`` raises ``CorruptLog`` before the first
        fact when the log is damaged, wherever the damage is.
        """
        row = self._reaching(to_seq)
        if strict:
            self.require_sound()
        wanted = None if types is None else frozenset(types)
        return reading.facts(self._store.database.read, row, from_seq, to_seq, wanted)

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
        strict: bool = False,
    ) -> Iterator[Recorded]:
        """Logical events in the current vocabulary, whatever format the log has; ranges as in ``read``.

        Without ``deltas`` the pieces of streamed text, reasoning and tool arguments are left out, and so are events
        of the types in ``without``; what is left out is not even decoded. A retired shape comes as it is stored.
        ``strict`` raises ``CorruptLog`` for it, and for damage anywhere in the log. Raises ``UsageError`` when no
        package brings the format's dialect.
        """
        row = self._reaching(to_seq)
        if strict:
            self.require_sound()
        dialect = self._store.dialect(row.dialect)
        return reading.logical(
            self._store.database.read,
            row,
            dialect,
            from_seq,
            to_seq,
            deltas=deltas,
            without=without,
            strict=strict,
        )

    def joined_events(self) -> Iterator[Recorded]:
        """All events as ``events`` gives them, but a run of deltas of one block may come as one ``assistant/chunk``.

        It has the seq and the time of the first delta and the text of all. Who wants to know what a stream adds up to,
        not how it came, saves most of the reading.
        """
        row = self._fresh()
        return reading.logical(self._store.database.read, row, self._store.dialect(row.dialect), joined=True)

    def lines(self, *, near_seq: int = 0) -> Iterator[bytes]:
        """The stored lines, verbatim, without line ends; the header is not among them.

        With ``near_seq`` they begin somewhere before the first event of this seq or later, and what lies far before
        is not read.
        """
        for block in self._blocks(near_seq):
            yield from block.split(b"\n")[:-1]

    def blocks(self) -> Iterator[bytes]:
        """The stored lines in blocks of about 1 MiB, each line ended by LF."""
        return self._blocks(0)

    def _blocks(self, near_seq: int) -> Iterator[bytes]:
        row = self._fresh()
        from_line = 0
        if near_seq:
            with self._store.database.read() as link:
                from_line = reading.line_of_seq(link, row.id, near_seq)
        return reading.blocks(reading.paged(self._store.database.read), row, from_line)

    # Beside the log

    def keep_exchange(self, exchange: Exchange) -> int:
        """Keep the bytes of a model call; its number in the session. See ``log.Session.keep_exchange``."""
        cleaned = exchange.cleaned()
        with self._store.database.write() as link:
            return exchanges.keep(link, self._row.id, cleaned)

    def exchanges(self, *, turn: int | None = None, step: int | None = None) -> Iterator[Exchange]:
        """The kept exchanges in order. Raises ``CorruptLog`` at one that was changed in the store."""
        return exchanges.of_session(self._store.database.read, self._row.id, self.id, turn, step)

    @property
    def header(self) -> SessionHeader:
        """Who the session is."""
        return self._row.parsed_header()

    @property
    def header_line(self) -> bytes:
        """The header, verbatim, without line end."""
        return self._row.header_line()

    def require_sound(self) -> None:
        """Raise ``CorruptLog`` for the first damage of the log, saying how much lies behind it."""
        found = damage(self._fresh().decoded_findings())
        if not found:
            return
        first = min(found, key=lambda finding: (finding.line is None, finding.line or 0))
        behind = ""
        if first.line is not None:
            whole = self._facts_behind(first.line)
            behind = f"; {whole} whole record{'' if whole == 1 else 's'} behind it" if whole else ""
        where = f"line {first.line}" if first.line is not None else "the file"
        if first.byte is not None:
            where += f" (byte {first.byte})"
        raise CorruptLog(
            self.id,
            f"{where}: {first.message}{behind}",
            seq=first.seq,
            line=first.line,
            byte=first.byte,
            kind=first.kind,
        )

    def _facts_behind(self, physical_line: int) -> int:
        """How many facts stand on lines behind this one (the header is line 1)."""
        facts = 0
        fetch = reading.paged(self._store.database.read)
        for block in reading.blocks(fetch, self._row, min(physical_line - 1, self._row.lines)):
            facts += sum(envelope.view(line).n for line in block.split(b"\n")[:-1])
        return facts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._row.dialect == Native.name:
            self.seal()


def _grown(before: SessionRow, chain: Chain, entries: list[Entry]) -> tuple[SessionRow, Chain]:
    """The row and the chain of a session behind ``entries``."""
    grown = chain.copy()
    grown.feed(b"".join(line + b"\n" for _, _, line in entries), len(entries))
    times = [time_ms for _, time_ms, _ in entries]
    next_seq = before.next_seq + len(entries)
    row = before._replace(
        next_seq=next_seq,
        lines=before.lines + len(entries),
        events=before.events + len(entries),
        first_ms=min(times) if before.first_ms is None else min(before.first_ms, *times),
        last_ms=max(times) if before.last_ms is None else max(before.last_ms, *times),
        chain=grown.value,
        head=grown.head(next_seq),
    )
    return row, grown


def _same(event: NewEvent, fact: Recorded) -> bool:
    """True when ``event`` says what ``fact`` says; times do not count."""
    line = dataclasses.replace(event, time_ms=fact.time_ms).line(fact.seq, fact.time_ms)
    return envelope.facts(line, fact.session) == [fact]
