"""The writer of a process: one thread that commits the facts of all its live sessions, one transaction at a time.

Whoever has a fact queues it and goes on. The thread takes everything that queued while the last transaction ran, for
all sessions, and commits it together (group commit). Token deltas may wait up to ``WINDOW_MS`` for company; once
somebody waits in ``flush``, or much has come together, it begins at once. So at most that window of a stream, and the
transaction that runs, are lost when the process is killed, and nothing that was flushed.

A session that another process has written to fails alone: its facts are refused with ``WrongExpectedSeq``, and those
of the others are committed. So does one whose facts the database does not take. When the database itself fails (a full
disk, a lost connection), every session in the transaction fails. A session that failed takes no more facts, so that
its log has no hole; open it again to go on.

``close`` commits what is queued and seals the sessions; so does the end of the interpreter. A writer belongs to the
process that made it, and refuses to work in a forked one.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import (
    PlayheadError,
    ReadOnlySession,
    StoreUnavailable,
    WrongExpectedSeq,
)
from playhead.eventstore.ids import Seq
from playhead.eventstore.sql import commits
from playhead.eventstore.sql.queued_session import (
    QUEUE_BYTES,
    CommitFailed,
    QueuedSession,
    WriterClosed,
    closed,
)
from playhead.eventstore.sql.sql_session import Entry, Growth, SqlSession

if TYPE_CHECKING:
    from playhead.eventstore.sql.store import SqlStore

__all__ = ["CommitFailed", "QueuedSession", "Writer", "WriterClosed"]

log = logging.getLogger("playhead.eventstore")

WINDOW_MS = 20
"""How long a queued fact may wait for others before its transaction begins."""

MOST_QUEUED_BYTES = 32 << 20
"""With so much queued even ``put`` waits: for producers that never look whether there is room."""

_DELTA = "assistant/chunk"


class _Part(NamedTuple):
    """What a transaction is to store of one session."""

    queue: QueuedSession
    entries: list[Entry]


class Writer:
    """The writer of ``store`` in this process. Threads and loops may share it; use it in ``with``."""

    def __init__(self, store: SqlStore, *, window_ms: float = WINDOW_MS) -> None:
        self._store = store
        self._window_s = window_ms / 1000
        self._process = os.getpid()
        self._wake = threading.Condition()
        self._sessions: dict[int, QueuedSession] = {}
        self._pending: dict[int, QueuedSession] = {}  # those with something queued, longest waiting first
        self._leaving: list[tuple[QueuedSession, Future[None]]] = []
        self._urgent = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="playhead-writer", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def open(self, session: SqlSession) -> QueuedSession:
        """The queue of ``session``; the same one for the same session. Raises ``ReadOnlySession``."""
        if session.info.dialect != Native.name:
            raise ReadOnlySession(session.id)
        found = self.opened(session)
        if found is None:
            made = QueuedSession(self, self._store.of_row(session.row_id))  # nobody else changes this object
            found = self._opened(session, made)
            assert found is not None
        return found

    def opened(self, session: SqlSession) -> QueuedSession | None:
        """The queue of ``session`` where it has one that takes facts; none is made."""
        return self._opened(session, None)

    def _opened(self, session: SqlSession, made: QueuedSession | None) -> QueuedSession | None:
        with self._entered(session.id):
            found = self._sessions.get(session.row_id)
            if found is None or found.failure is not None or found.is_closed:
                found = made
                if made is not None:
                    self._sessions[session.row_id] = made
            return found

    def put(self, queue: QueuedSession, seq: int, entry: Entry) -> None:
        """Queue one line. See ``QueuedSession.put``."""
        with self._entered(queue.session.id):
            self._wake.wait_for(
                lambda: queue.queued_bytes < MOST_QUEUED_BYTES or queue.failure or self._closing
            )
            if queue.failure is not None:
                queue.is_told = True
                raise queue.failure.again()
            if self._closing or queue.is_closed:
                raise closed(queue.session.id)
            if seq != queue.next_seq:
                raise WrongExpectedSeq(queue.session.id, seq, queue.next_seq)
            queue.queued.append(entry)
            queue.queued_bytes += len(entry.line)
            key = queue.session.row_id
            is_first = key not in self._pending
            if is_first:
                queue.since = time.monotonic()
                self._pending[key] = queue
            is_urgent = entry.type != _DELTA or queue.queued_bytes >= QUEUE_BYTES // 4
            if is_first or (is_urgent and not self._urgent):
                self._urgent = self._urgent or is_urgent
                self._wake.notify_all()

    def flushed(self, queue: QueuedSession) -> Future[None]:
        """See ``QueuedSession.flushed``."""
        done: Future[None] = Future()
        with self._entered(queue.session.id):
            if queue.failure is not None:
                queue.is_told = True
                done.set_exception(queue.failure.again())
            elif queue.durable_seq == queue.next_seq:
                done.set_result(None)
            else:
                queue.waiting.append((queue.next_seq, done))
                self._urgent = True
                self._wake.notify_all()
        return done

    def leave(self, queue: QueuedSession) -> Future[None]:
        """Take nothing more for ``queue``; done once what it has is committed and sealed."""
        done: Future[None] = Future()
        with self._entered(queue.session.id):
            if queue.is_closed or self._closing:
                done.set_result(None)
            else:
                queue.is_closed = True
                self._leaving.append((queue, done))
                self._wake.notify_all()
        return done

    def close(self) -> None:
        """Commit everything queued, seal the sessions, and end. Raises the first failure that nobody was told of."""
        if self._process != os.getpid():
            return  # a forked process: what is queued is the business of the one that made the writer
        atexit.unregister(self._at_exit)
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        for queue in self._sessions.values():
            if queue.failure is not None and not queue.is_told:
                raise queue.failure.again()

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

    def _entered(self, session: str) -> threading.Condition:
        if self._process != os.getpid():
            raise WriterClosed(
                f"session {session!r}: its writer belongs to the process that this one was forked from; "
                "open the store and a writer here"
            )
        return self._wake

    def _at_exit(self) -> None:
        try:
            self.close()
        except CommitFailed as error:
            log.error("%s", error)

    # The thread

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._commit(self._batch())
                self._see_off()
            for queue in self._sessions.values():
                self._seal(queue)
        except BaseException as error:  # nobody may wait for a thread that is gone
            log.exception("the writer failed")
            self._give_up(error)

    def _wait_for_work(self) -> bool:
        """Returns when a transaction is due or somebody leaves; False when nothing more comes."""
        with self._wake:
            while not (self._is_due() or self._leaving):
                if self._closing and not self._pending:
                    return False
                self._wake.wait(self._due_in())
        return True

    def _is_due(self) -> bool:
        due_in = self._due_in()
        return due_in is not None and (self._urgent or self._closing or due_in <= 0)

    def _due_in(self) -> float | None:
        for queue in self._pending.values():
            return queue.since + self._window_s - time.monotonic()
        return None

    def _batch(self) -> list[_Part]:
        """Everything queued. Two processes lock sessions in the same order, so neither waits for the other in vain."""
        with self._wake:
            pending, self._pending, self._urgent = self._pending, {}, False
            parts = [_Part(queue, queue.take()) for _, queue in sorted(pending.items())]
            self._wake.notify_all()  # there is room
            return parts

    def _commit(self, batch: Sequence[_Part]) -> None:
        if not batch:
            return
        outcomes = self._outcomes(batch)
        for part, outcome in zip(batch, outcomes, strict=True):
            self._settle(part, outcome if isinstance(outcome, Exception) else None)
        for (queue, _), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Growth):
                self._adopt(queue, outcome)

    def _outcomes(self, batch: Sequence[_Part]) -> list[Growth | Exception]:
        """What became of each part: committed together, or one by one where one of them spoils the transaction."""
        try:
            return self._together(batch)
        except StoreUnavailable as error:
            return [error] * len(batch)
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [outcome for part in batch for outcome in self._outcomes([part])]

    def _together(self, batch: Sequence[_Part]) -> list[Growth | Exception]:
        outcomes: list[Growth | Exception] = []
        with self._store.database.write() as link:
            types = {entry.type for _, entries in batch for entry in entries}
            type_ids = self._store.types.ids(link, types)
            for queue, entries in batch:
                try:
                    outcomes.append(
                        queue.session.grow(link, _as_they_are(entries), type_ids, queue.durable_seq)
                    )
                except PlayheadError as error:
                    outcomes.append(error)
            grown = [outcome for outcome in outcomes if isinstance(outcome, Growth)]
            if grown:
                commits.place_all(link, [(one.row.id, one.seq0, one.n) for one in grown], self._store.clock())
        self._store.types.remember(type_ids)
        return outcomes

    def _settle(self, part: _Part, cause: BaseException | None) -> None:
        """The facts of ``part`` are durable, or failed by ``cause``; then what queued behind them is dropped too."""
        queue = part.queue
        with self._wake:
            if cause is None:
                queue.durable_seq = Seq(queue.durable_seq + len(part.entries))
            else:
                queue.failure = CommitFailed(queue.session.id, queue.durable_seq, _reason(cause))
                queue.failure.__cause__ = cause
                queue.take()
                self._pending.pop(queue.session.row_id, None)
                self._wake.notify_all()
            waiters = queue.arrived()
        for waiter in waiters:
            if not waiter.set_running_or_notify_cancel():
                continue  # who waited gave up
            if queue.failure is None:
                waiter.set_result(None)
            else:
                queue.is_told = True
                waiter.set_exception(queue.failure.again())

    def _adopt(self, queue: QueuedSession, growth: Growth) -> None:
        try:
            queue.session.adopt(growth)
        except Exception:
            # The facts are durable; sealing them is only a matter of space, and is tried again.
            log.exception("session %r could not be sealed", queue.session.id)

    def _see_off(self) -> None:
        """Let those go that want to leave, and have nothing queued any more."""
        with self._wake:
            gone = [pair for pair in self._leaving if not pair[0].queued]
            self._leaving = [pair for pair in self._leaving if pair[0].queued]
        for queue, done in gone:
            self._seal(queue)
            with self._wake:
                is_settled = queue.failure is None or queue.is_told
                if is_settled and self._sessions.get(queue.session.row_id) is queue:
                    del self._sessions[queue.session.row_id]
            if done.set_running_or_notify_cancel():
                done.set_result(None)

    def _seal(self, queue: QueuedSession) -> None:
        if queue.failure is not None or queue.durable_seq == 0:
            return
        try:
            queue.session.seal()
        except Exception:
            log.exception("session %r could not be sealed", queue.session.id)

    def _give_up(self, cause: BaseException) -> None:
        with self._wake:
            self._closing = True
            queues = [queue for queue in self._sessions.values() if queue.failure is None]
        for queue in queues:
            self._settle(_Part(queue, []), cause)
        for _, done in self._leaving:
            if done.set_running_or_notify_cancel():
                done.set_result(None)


def _reason(cause: BaseException) -> str:
    if isinstance(cause, WrongExpectedSeq):
        return f"somebody else wrote to it, and it is at seq {cause.actual} now"
    return str(cause) or type(cause).__name__


def _as_they_are(entries: list[Entry]) -> Callable[[int], list[Entry]]:
    return lambda _seq: entries
