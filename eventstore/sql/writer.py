"""The writer of a process: one thread that commits the facts of all its live sessions, one transaction at a time.

Whoever has a fact queues it and goes on. The thread takes everything that queued while the last transaction ran, for
all sessions, and commits it together (group commit). Token deltas may wait up to ``WINDOW_MS`` for company; once
somebody waits in ``flush``, or much has come together, it begins at once. So at most that window of a stream is lost
when the process is killed, and nothing that was flushed.

A session that another process has written to fails alone: its facts are refused with ``WrongExpectedSeq``, and those
of the others are committed. When the database refuses the transaction (a full disk, a lost connection), every session
in it fails. A session that failed takes no more facts, so that its log has no hole; open it again to go on.

``close`` commits what is queued and seals the sessions.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self

from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import PlayheadError, ReadOnlySession, UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import commits
from playhead.eventstore.sql.sql_session import Entry, Growth, SqlSession

if TYPE_CHECKING:
    from playhead.eventstore.sql.store import SqlStore

log = logging.getLogger("playhead.eventstore")

WINDOW_MS = 20
"""How long a queued fact may wait for others before its transaction begins."""

QUEUE_BYTES = 4 << 20
"""A session with so much queued makes its producer wait, in ``room``."""

_DELTA = "assistant/chunk"


class WriterClosed(UsageError):
    """The writer takes nothing more."""

    code = "writer-closed"


class CommitFailed(PlayheadError):
    """Facts that were accepted could not be made durable; ``from_seq`` is the first of them."""

    code = "commit-failed"

    def __init__(self, session: str, from_seq: int, reason: str) -> None:
        self.session = session
        self.from_seq = from_seq
        super().__init__(
            f"session {session!r}: everything from seq {from_seq} on was not stored: {reason}; "
            "see to the cause, then open the session again"
        )


class QueuedSession:
    """The way of one session's facts into the store; see ``session_writer.SessionWriter``."""

    def __init__(self, writer: Writer, session: SqlSession) -> None:
        self._writer = writer
        self.session = session
        self.header: SessionHeader = session.header
        self.next_seq: Seq = session.next_seq
        self.durable_seq: Seq = self.next_seq
        self.failure: CommitFailed | None = None
        self.is_told = False  # somebody was given the failure
        self.queued: list[Entry] = []
        self.queued_bytes = 0
        self.since = 0.0
        self.urgent = False
        self.waiting: list[tuple[int, Future[None]]] = []

    def take(self) -> list[Entry]:
        """What is queued, which the writer takes over."""
        taken, self.queued = self.queued, []
        self.queued_bytes, self.urgent = 0, False
        return taken

    def arrived(self) -> list[Future[None]]:
        """Those that need wait no longer: what they wait for is durable, or will never be."""
        done = [waiter for until, waiter in self.waiting if self.failure or until <= self.durable_seq]
        self.waiting = [pair for pair in self.waiting if not self.failure and pair[0] > self.durable_seq]
        return done

    def put(self, fact: Recorded, line: bytes) -> None:
        """See ``SessionWriter.put``. Raises ``CommitFailed``, ``WriterClosed``."""
        self._writer.put(self, Entry(fact.type, fact.time_ms, line))

    def flushed(self) -> Future[None]:
        """Done once everything put so far is durable, or with the error that it failed with. For threads."""
        return self._writer.flushed(self)

    async def flush(self) -> None:
        """See ``SessionWriter.flush``."""
        waited_for = self.flushed()
        if waited_for.done():
            waited_for.result()
            return
        await asyncio.wrap_future(waited_for)

    async def room(self) -> None:
        """See ``SessionWriter.room``."""
        if self.queued_bytes >= QUEUE_BYTES:
            await self.flush()


class Writer:
    """The writer of ``store`` in this process. Threads and loops may share it; use it in ``with``."""

    def __init__(self, store: SqlStore, *, window_ms: float = WINDOW_MS) -> None:
        self._store = store
        self._window_s = window_ms / 1000
        self._sessions: dict[int, QueuedSession] = {}
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="playhead-writer", daemon=True)
        self._thread.start()

    def open(self, session: SqlSession) -> QueuedSession:
        """The queue of ``session``; the same one for the same session. Raises ``ReadOnlySession``."""
        if session.info.dialect != Native.name:
            raise ReadOnlySession(session.id)
        with self._wake:
            found = self._sessions.get(session.row_id)
            if found is None or found.failure is not None:
                found = self._sessions[session.row_id] = QueuedSession(self, session)
            return found

    def put(self, queue: QueuedSession, entry: Entry) -> None:
        """Queue one line. See ``QueuedSession.put``."""
        with self._wake:
            if queue.failure is not None:
                queue.is_told = True
                raise queue.failure
            if self._closing:
                raise WriterClosed(
                    f"session {queue.session.id!r}: the store's writer was closed; open the store again"
                )
            if not queue.queued:
                queue.since = time.monotonic()
                self._wake.notify()
            queue.queued.append(entry)
            queue.queued_bytes += len(entry.line)
            queue.next_seq = Seq(queue.next_seq + 1)
            if not queue.urgent and (entry.type != _DELTA or queue.queued_bytes >= QUEUE_BYTES // 4):
                queue.urgent = True
                self._wake.notify()

    def flushed(self, queue: QueuedSession) -> Future[None]:
        """See ``QueuedSession.flushed``."""
        done: Future[None] = Future()
        with self._wake:
            if queue.failure is not None:
                queue.is_told = True
                done.set_exception(queue.failure)
            elif queue.durable_seq == queue.next_seq:
                done.set_result(None)
            else:
                queue.waiting.append((queue.next_seq, done))
                queue.urgent = True
                self._wake.notify()
        return done

    def close(self) -> None:
        """Commit everything queued, seal the sessions, and end. Raises the first failure that nobody was told of."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        for queue in self._sessions.values():
            if queue.failure is None:
                queue.session.seal()
        for queue in self._sessions.values():
            if queue.failure is not None and not queue.is_told:
                raise queue.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CommitFailed:
            if error is None:
                raise

    # The thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._is_due():
                    if self._closing and not self._queues():
                        return
                    self._wake.wait(self._due_in())
                batch = [(queue, queue.take()) for queue in self._queues()]
            self._commit(batch)

    def _queues(self) -> list[QueuedSession]:
        return [queue for queue in self._sessions.values() if queue.queued]

    def _is_due(self) -> bool:
        queues = self._queues()
        if not queues:
            return False
        urgent = self._closing or any(queue.urgent for queue in queues)
        return urgent or min(queue.since for queue in queues) + self._window_s <= time.monotonic()

    def _due_in(self) -> float | None:
        queues = self._queues()
        if not queues:
            return None
        return max(0.0, min(queue.since for queue in queues) + self._window_s - time.monotonic())

    def _commit(self, batch: list[tuple[QueuedSession, list[Entry]]]) -> None:
        grown: list[tuple[QueuedSession, Growth]] = []
        failed: dict[int, Exception] = {}
        try:
            with self._store.database.write() as link:
                types = {entry.type for _, entries in batch for entry in entries}
                type_ids = self._store.types.ids(link, types)
                for queue, entries in batch:
                    try:
                        growth = queue.session.grow(link, _as_they_are(entries), type_ids, queue.durable_seq)
                    except PlayheadError as error:
                        failed[id(queue)] = error
                    else:
                        grown.append((queue, growth))
                now = self._store.clock()
                for _, growth in grown:
                    commits.place(link, growth.row.id, [(growth.seq0, growth.n)], now)
        except Exception as error:
            failed = {id(queue): error for queue, _ in batch}
        else:
            self._store.types.remember(type_ids)
        for queue, entries in batch:
            self._settle(queue, len(entries), failed.get(id(queue)))
        for queue, growth in grown:
            if id(queue) not in failed:
                self._adopt(queue, growth)

    def _settle(self, queue: QueuedSession, count: int, cause: Exception | None) -> None:
        """``count`` facts are durable, or failed by ``cause``; then what queued behind them is dropped too."""
        with self._wake:
            if cause is None:
                queue.durable_seq = Seq(queue.durable_seq + count)
            else:
                reason = str(cause) or type(cause).__name__
                queue.failure = CommitFailed(queue.session.id, queue.durable_seq, reason)
                queue.failure.__cause__ = cause
                queue.take()
            waiters = queue.arrived()
            queue.is_told = queue.failure is not None and bool(waiters)
        for waiter in waiters:
            if queue.failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(queue.failure)

    def _adopt(self, queue: QueuedSession, growth: Growth) -> None:
        try:
            queue.session.adopt(growth)
        except Exception:
            # The facts are durable; sealing them is only a matter of space, and is tried again.
            log.exception("session %r could not be sealed", queue.session.id)


def _as_they_are(entries: list[Entry]) -> Callable[[int], list[Entry]]:
    return lambda _seq: entries
