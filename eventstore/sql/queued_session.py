"""The queue of one session in front of the writer, and the errors that whoever fills it may meet."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING

from playhead.eventstore.errors import PlayheadError, UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql.sql_session import Entry, SqlSession

if TYPE_CHECKING:
    from playhead.eventstore.sql.writer import Writer

QUEUE_BYTES = 4 << 20
"""A session with so much queued makes its producer wait, in ``room``."""


class WriterClosed(UsageError):
    """The writer takes nothing more."""

    code = "writer-closed"


class CommitFailed(PlayheadError):
    """Facts that were accepted could not be made durable; ``from_seq`` is the first of them."""

    code = "commit-failed"

    def __init__(self, session: str, from_seq: int, reason: str) -> None:
        self.session = session
        self.from_seq = from_seq
        self.reason = reason
        super().__init__(
            f"session {session!r}: everything from seq {from_seq} on was not stored: {reason}; "
            "see to the cause, then open the session again"
        )

    def again(self) -> CommitFailed:
        """The same error for somebody else: one that is raised twice would collect both traces."""
        other = CommitFailed(self.session, self.from_seq, self.reason)
        other.__cause__ = self.__cause__
        return other


class QueuedSession:
    """The way of one session's facts into the store; see ``session_writer.SessionWriter``.

    ``durable_seq`` is the seq behind the last fact that is in the store.
    """

    def __init__(self, writer: Writer, session: SqlSession) -> None:
        self._writer = writer
        self.session = session
        self.header: SessionHeader = session.header
        self.durable_seq: Seq = session.next_seq
        self.failure: CommitFailed | None = None
        self.is_told = False  # somebody was given the failure
        self.is_closed = False
        self.queued: list[Entry] = []
        self.queued_bytes = 0
        self.since = 0.0
        self.waiting: list[tuple[int, Future[None]]] = []
        self._taken_to: int = self.durable_seq

    @property
    def next_seq(self) -> Seq:
        """The seq of the next fact to ``put``."""
        return Seq(self._taken_to + len(self.queued))

    def take(self) -> list[Entry]:
        """What is queued, which the writer takes over."""
        self._taken_to += len(self.queued)
        taken, self.queued = self.queued, []
        self.queued_bytes = 0
        return taken

    def arrived(self) -> list[Future[None]]:
        """Those that need wait no longer: what they wait for is durable, or will never be."""
        done = [waiter for until, waiter in self.waiting if self.failure or until <= self.durable_seq]
        self.waiting = [pair for pair in self.waiting if not self.failure and pair[0] > self.durable_seq]
        return done

    def put(self, fact: Recorded, line: bytes) -> None:
        """See ``SessionWriter.put``. Raises ``CommitFailed``, ``WriterClosed``, ``WrongExpectedSeq``."""
        self._writer.put(self, fact.seq, Entry(fact.type, fact.time_ms, line))

    def flushed(self) -> Future[None]:
        """Done once everything put so far is durable, or with the error that it failed with. For threads."""
        return self._writer.flushed(self)

    async def flush(self) -> None:
        """See ``SessionWriter.flush``."""
        await _awaited(self.flushed())

    async def room(self) -> None:
        """See ``SessionWriter.room``."""
        if self.queued_bytes >= QUEUE_BYTES:
            await self.flush()

    async def close(self) -> None:
        """See ``SessionWriter.close``; the session is sealed as well."""
        left = self.left()
        await self.flush()
        await _awaited(left)

    def left(self) -> Future[None]:
        """Takes nothing more; done once what was put is committed and sealed, or has failed. For threads."""
        return self._writer.leave(self)


def closed(session: str) -> WriterClosed:
    """The error of who puts something into a queue that takes nothing more."""
    return WriterClosed(f"session {session!r} was closed, or the store's writer; open it again")


async def _awaited(waited_for: Future[None]) -> None:
    if waited_for.done():
        waited_for.result()
    else:
        await asyncio.wrap_future(waited_for)
