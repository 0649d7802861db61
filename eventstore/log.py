"""The contract of a log: what every backend promises.

``MemoryLog`` (``memory.py``) is the smallest example; ``sql/`` is the one that keeps. One contract suite
(``tests/eventstore/contract.py``) runs on all of them.

Appends are atomic and durable when they return; seq is dense in a session and position in a store; ranges of
seq are half-open; times are epoch milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from playhead.eventstore import json_text
from playhead.eventstore.errors import UsageError
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.feed import Subscription
from playhead.eventstore.findings import Finding
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Idem, Position, Seq, SessionId, is_safe_integer
from playhead.eventstore.recorded import Recorded, SurfaceOp, event_object

Clock = Callable[[], int]
"""Gives the time as epoch milliseconds."""


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A fact to append. ``data`` is a JSON value or a typed event; without ``time_ms`` the store's clock tells."""

    type: str
    data: Any
    time_ms: int | None = None
    surface_op: SurfaceOp | None = None
    source_seqs: Sequence[int] | None = None
    ignorable: bool = False

    def line(self, seq: int, time_ms: int) -> bytes:
        """The log line of this event at ``seq``, without line end; ``time_ms`` where it has no time of its own.

        Raises ``NotLosslessJson`` when the data would not come back as it is, ``UsageError`` for a type or a time that
        would not.
        """
        time_ms = time_ms if self.time_ms is None else self.time_ms
        if not isinstance(self.type, str):
            raise UsageError(f"the type of an event is text, not {self.type!r}")
        if not is_safe_integer(time_ms):
            raise UsageError(f"{self.type} at {time_ms!r}: a time is a whole number of epoch milliseconds")
        data = self.data.to_json() if hasattr(self.data, "to_json") else self.data
        json_text.require_lossless(data)
        event = event_object(
            self.type,
            seq,
            int(time_ms),
            data,
            surface_op=self.surface_op,
            source_seqs=self.source_seqs,
            ignorable=self.ignorable,
        )
        return json_text.dumps(event)


@dataclass(frozen=True, slots=True)
class Appended:
    """Where an append landed: seqs ``from_seq`` to ``to_seq`` (half-open), the first at ``position``."""

    from_seq: Seq
    to_seq: Seq
    position: Position


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a store knows of a session without reading its log.

    ``generation`` counts from 1 in the order in which differing logs of one id came; ``generations`` is how
    many there are. ``lines`` counts stored lines without the header, ``events`` the facts in them. ``head`` is
    the hash head (32 bytes). ``first_ms`` and ``last_ms`` are the lowest and highest time of a fact.
    """

    id: SessionId
    generation: int
    generations: int
    dialect: str
    header: SessionHeader
    next_seq: Seq
    lines: int
    events: int
    head: bytes
    first_ms: int | None
    last_ms: int | None
    findings: tuple[Finding, ...] = ()


class Session(Protocol):
    """One session of a store."""

    @property
    def id(self) -> SessionId: ...

    @property
    def header(self) -> SessionHeader:
        """Who the session is; it never changes."""
        ...

    @property
    def info(self) -> SessionInfo:
        """The state as of now."""
        ...

    @property
    def next_seq(self) -> Seq: ...

    def append(
        self, events: Iterable[NewEvent], *, expected_seq: int | None = None, idem: Idem | str | None = None
    ) -> Appended:
        """Add ``events`` at the end, all or none; they are durable when this returns.

        ``expected_seq`` must be the session's next seq, else ``WrongExpectedSeq``. A key ``idem`` that was
        used before returns the earlier result when types and data are the same (times do not count), else
        raises ``IdempotencyConflict``. An empty append is a ``UsageError``, and a type or a time that is none; an
        imported session raises ``ReadOnlySession``; a value that JSON would change raises ``NotLosslessJson``.
        """
        ...

    def read(
        self, from_seq: int = 0, to_seq: int | None = None, *, types: Iterable[str] | None = None
    ) -> Iterator[Recorded]:
        """Stored facts with ``from_seq <= seq < to_seq`` in order, of the given ``types`` or of all."""
        ...

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        """Logical events in the current vocabulary, in order; ranges as in ``read``.

        Without ``deltas`` the pieces of streamed text, reasoning and tool arguments are left out. So are events of
        the types in ``without``: a caller who does not look at them saves what reading them takes.
        """
        ...

    def lines(self) -> Iterator[bytes]:
        """The stored lines, verbatim, without line ends; the header is not among them."""
        ...

    def keep_exchange(self, exchange: Exchange) -> int:
        """Keep the bytes of a model call beside the log, imported or not; its number in the session, from 0.

        No seq, head or export changes. What can be a credential is cleaned away first, see ``Exchange.cleaned``.
        """
        ...

    def exchanges(self, *, turn: int | None = None, step: int | None = None) -> Iterator[Exchange]:
        """The kept exchanges in the order in which they were kept; those of a turn, or of a step, where it is given."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    """Many sessions, one order."""

    def create(self, header: SessionHeader, *, idem: Idem | str | None = None) -> Session:
        """A new, empty session. The same key and header again give the same session.

        Raises ``SessionExists`` for an id that is taken, ``UsageError`` for a header that could not be read again.
        """
        ...

    def create_from(self, header: SessionHeader, blocks: Iterable[bytes]) -> Session:
        """A new session that begins with the events in ``blocks``: whole or, when anything fails, not there at all.

        A block is any number of lines of format 0, each ended by LF; together their seqs go from 0 without a gap.
        They are kept byte for byte and not held in memory. ``blocks`` is read while the store is locked, so it must
        not read from this store. Raises ``SessionExists``, and ``UsageError`` for lines that are no sound events.
        """
        ...

    def session(self, id: str, *, generation: int | None = None) -> Session:
        """The session of exactly this id; without ``generation`` the newest format, then the latest event.

        Raises ``SessionNotFound``.
        """
        ...

    def sessions(
        self,
        *,
        id_prefix: str | None = None,
        cwd: str | None = None,
        parent: str | None = None,
        all_generations: bool = False,
    ) -> list[SessionInfo]:
        """The sessions that fit, newest ``created_ms`` first, then by id."""
        ...

    def read_all(self, after: int = 0, *, limit: int | None = None) -> Iterator[Recorded]:
        """Facts of all sessions with position greater than ``after``, in commit order, at most ``limit``."""
        ...

    def subscribe(
        self, session: str | None = None, *, after: int | None = None, timeout_s: float | None = None
    ) -> Subscription:
        """Committed facts as they come, first those that are there: of all sessions, or of one.

        ``after`` is a position, or for one session a seq; what lies behind it is given, by default everything.
        ``CAUGHT_UP`` comes once, between old and new. It ends when it is closed, or after ``timeout_s`` without
        anything new. Raises ``SessionNotFound``.
        """
        ...

    @property
    def position(self) -> Position:
        """The position of the last committed fact; 0 in an empty store."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
