"""A log in memory: the whole contract, and nothing beside it. The smallest example of a backend."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Iterable, Iterator
from types import TracebackType
from typing import Self

from playhead.eventstore import envelope
from playhead.eventstore.chain import Chain
from playhead.eventstore.codecs.wanted import is_delta
from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import (
    IdempotencyConflict,
    SessionExists,
    SessionNotFound,
    UsageError,
    WrongExpectedSeq,
)
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.feed import Bell, Subscription, position_of, seq_of
from playhead.eventstore.header import SessionHeader, same_creation
from playhead.eventstore.ids import Idem, Position, Seq, SessionId
from playhead.eventstore.log import Appended, Clock, NewEvent, SessionInfo
from playhead.eventstore.recorded import Recorded


class MemorySession:
    """A session of a ``MemoryLog``."""

    def __init__(self, log: MemoryLog, header: SessionHeader, idem: str | None) -> None:
        self._log = log
        self.header = header
        self.header_line = header.new_line()
        self.created_with = idem
        self._lines: list[bytes] = []
        self._facts: list[Recorded] = []
        self._keys: dict[str, Appended] = {}
        self._exchanges: list[Exchange] = []

    @property
    def id(self) -> SessionId:
        return self.header.id

    @property
    def next_seq(self) -> Seq:
        return Seq(len(self._facts))

    @property
    def info(self) -> SessionInfo:
        chain = Chain.begin(self.header_line)
        chain.feed(b"".join(line + b"\n" for line in self._lines))
        times = [fact.time_ms for fact in self._facts]
        return SessionInfo(
            id=self.id,
            generation=1,
            generations=1,
            dialect=Native.name,
            header=self.header,
            next_seq=self.next_seq,
            lines=len(self._lines),
            events=len(self._facts),
            head=chain.head(self.next_seq),
            first_ms=min(times, default=None),
            last_ms=max(times, default=None),
        )

    def append(
        self, events: Iterable[NewEvent], *, expected_seq: int | None = None, idem: Idem | str | None = None
    ) -> Appended:
        """See ``log.Session.append``. Durable as long as the process."""
        new = list(events)
        if not new:
            raise UsageError(f"session {self.id!r}: an append needs at least one event")
        now = self._log.clock()
        with self._log.lock:
            if idem is not None and idem in self._keys:
                return self._earlier(self._keys[idem], new, idem)
            seq0 = self.next_seq
            if expected_seq is not None and expected_seq != seq0:
                raise WrongExpectedSeq(self.id, expected_seq, seq0)
            lines = [event.line(seq0 + at, now) for at, event in enumerate(new)]
            position = Position(len(self._log.order) + 1)
            facts = [
                fact
                for at, line in enumerate(lines)
                for fact in envelope.facts(line, self.id, Position(position + at))
            ]
            self._lines += lines
            self._facts += facts
            self._log.order += facts
            done = Appended(seq0, self.next_seq, position)
            if idem is not None:
                self._keys[idem] = done
            self._log.bell.ring()
            return done

    def take(self, lines: list[bytes]) -> None:
        """Keep the lines that an empty session begins with. Raises ``UsageError`` when one is no sound event."""
        position = len(self._log.order) + 1
        facts: list[Recorded] = []
        for line in lines:
            found = envelope.facts(line, self.id, Position(position + len(facts)))
            if envelope.view(line).defect is not None or len(found) != 1 or found[0].seq != len(facts):
                raise UsageError(
                    f"session {self.id!r}: line {len(facts) + 2} is no event of seq {len(facts)}"
                )
            facts += found
        self._lines += lines
        self._facts += facts
        self._log.order += facts

    def _earlier(self, done: Appended, new: list[NewEvent], idem: str) -> Appended:
        old = self._facts[done.from_seq : done.to_seq]
        again = [
            dataclasses.replace(event, time_ms=fact.time_ms).line(fact.seq, fact.time_ms)
            for event, fact in zip(new, old, strict=False)
        ]
        if len(new) != len(old) or again != self._lines[done.from_seq : done.to_seq]:
            raise IdempotencyConflict(self.id, idem)
        return done

    def read(
        self, from_seq: int = 0, to_seq: int | None = None, *, types: Iterable[str] | None = None
    ) -> Iterator[Recorded]:
        """See ``log.Session.read``."""
        wanted = None if types is None else frozenset(types)
        end = len(self._facts) if to_seq is None else min(to_seq, len(self._facts))
        for fact in self._facts[max(0, from_seq) : max(0, end)]:
            if wanted is None or fact.type in wanted:
                yield fact

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        """See ``log.Session.events``."""
        for fact in self.read(from_seq, to_seq):
            if fact.type not in without and (deltas or not is_delta(fact)):
                yield fact

    def lines(self) -> Iterator[bytes]:
        """See ``log.Session.lines``."""
        return iter(list(self._lines))

    def keep_exchange(self, exchange: Exchange) -> int:
        """See ``log.Session.keep_exchange``."""
        cleaned = exchange.cleaned()
        with self._log.lock:
            self._exchanges.append(cleaned)
            return len(self._exchanges) - 1

    def exchanges(self, *, turn: int | None = None, step: int | None = None) -> Iterator[Exchange]:
        """See ``log.Session.exchanges``."""
        for exchange in list(self._exchanges):
            if turn in (None, exchange.turn) and step in (None, exchange.step):
                yield exchange

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class MemoryLog:
    """A store that lives as long as its process. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.order: list[Recorded] = []
        self.bell = Bell()
        self._sessions: dict[str, MemorySession] = {}

    @property
    def position(self) -> Position:
        return Position(len(self.order))

    def create(self, header: SessionHeader, *, idem: Idem | str | None = None) -> MemorySession:
        """See ``log.Store.create``."""
        with self.lock:
            taken = self._sessions.get(header.id)
            if taken is None:
                taken = self._sessions[header.id] = MemorySession(self, header, idem)
                return taken
            again = idem is not None and taken.created_with == idem
            if again and same_creation(taken.header_line, header.line()):
                return taken
            raise SessionExists(header.id)

    def create_from(self, header: SessionHeader, blocks: Iterable[bytes]) -> MemorySession:
        """See ``log.Store.create_from``."""
        with self.lock:
            if header.id in self._sessions:
                raise SessionExists(header.id)
            lines = [line for block in blocks for line in block.split(b"\n")[:-1]]
            made = MemorySession(self, header, None)
            made.take(lines)
            self._sessions[header.id] = made
            self.bell.ring()
            return made

    def session(self, id: str, *, generation: int | None = None) -> MemorySession:
        """See ``log.Store.session``; there is one generation."""
        found = self._sessions.get(id)
        if found is None:
            raise SessionNotFound(id)
        if generation not in (None, 1):
            raise UsageError(f"session {id!r} has generations 1 to 1, not {generation}")
        return found

    def sessions(
        self,
        *,
        id_prefix: str | None = None,
        cwd: str | None = None,
        parent: str | None = None,
        all_generations: bool = False,  # noqa: ARG002 - there is one of each
    ) -> list[SessionInfo]:
        """See ``log.Store.sessions``; ``all_generations`` changes nothing, since there is one of each."""
        infos = [found.info for found in self._sessions.values()]
        fitting = [
            info
            for info in infos
            if (id_prefix is None or info.id.startswith(id_prefix))
            and (cwd is None or info.header.cwd == cwd)
            and (parent is None or info.header.parent == parent)
        ]
        return sorted(fitting, key=lambda info: (-info.header.created_ms, info.id))

    def read_all(self, after: int = 0, *, limit: int | None = None) -> Iterator[Recorded]:
        """See ``log.Store.read_all``."""
        end = None if limit is None else max(0, after) + limit
        return iter(self.order[max(0, after) : end])

    def subscribe(
        self, session: str | None = None, *, after: int | None = None, timeout_s: float | None = None
    ) -> Subscription:
        """See ``log.Store.subscribe``."""
        if session is None:
            return Subscription(self._pull_all, position_of, after or 0, self.bell, timeout_s=timeout_s)
        of = self.session(session)

        def pull(seq: int, limit: int) -> Iterator[Recorded]:
            return of.read(seq + 1, seq + 1 + limit)

        return Subscription(pull, seq_of, -1 if after is None else after, self.bell, timeout_s=timeout_s)

    def _pull_all(self, position: int, limit: int) -> Iterator[Recorded]:
        return self.read_all(position, limit=limit)

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
