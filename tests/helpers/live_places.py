"""The places where a live session may be kept: in memory, on SQLite fact by fact, on SQLite through the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripted_model import settled, ticking

import playhead
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.log import NewEvent, Session
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql.writer import QueuedSession, Writer
from playhead.live.session import LiveSession


class Watched:
    """A queue of the writer, and whether anything waits for its disk."""

    def __init__(self, queue: QueuedSession) -> None:
        self.queue = queue
        self.header = queue.header
        self._waiting = 0

    @property
    def next_seq(self) -> Seq:
        return self.queue.next_seq

    @property
    def is_busy(self) -> bool:
        return self._waiting > 0 or self.queue.durable_seq != self.queue.next_seq

    def put(self, fact: Recorded, line: bytes) -> None:
        self.queue.put(fact, line)

    async def room(self) -> None:
        await self._awaited(self.queue.room())

    async def flush(self) -> None:
        await self._awaited(self.queue.flush())

    async def close(self) -> None:
        await self._awaited(self.queue.close())

    async def settled(self) -> None:
        """Returns when nothing is left to run but what waits for the world; the disk is not the world."""
        quiet = 0
        while quiet < 2:
            await settled()
            quiet += 1
            while self.is_busy:
                await asyncio.sleep(0.0005)
                quiet = 0

    async def _awaited(self, wait: Coroutine[Any, Any, None]) -> None:
        self._waiting += 1
        try:
            await wait
        finally:
            self._waiting -= 1


@dataclass
class Place:
    """Where sessions are kept; ``writer`` is None where each fact is appended by itself."""

    store: Any
    writer: Writer | None = None
    queue: Watched | None = None

    def live(self, events: list[NewEvent] | None = None, seed_length: int | None = None) -> LiveSession:
        """A live session that begins with ``events``."""
        session: Session = self.store.create(SessionHeader(SessionId("s1"), 1, seed_length=seed_length))
        if events:
            session.append(events)
        if self.writer is not None:
            self.queue = Watched(self.writer.open(self.store.session("s1")))
        return LiveSession(session, ticking(), self.queue)

    async def settled(self) -> None:
        """Returns when nothing is left to run but what waits for the world; the disk is not the world."""
        await (settled() if self.queue is None else self.queue.settled())

    def stored(self) -> Session:
        """The session as the store has it, everything flushed."""
        if self.queue is not None:
            self.queue.queue.flushed().result(30)
        found: Session = self.store.session("s1")
        return found


PLACES = ("memory", "sqlite", "writer")


@contextmanager
def live_place(kind: str, folder: Path) -> Iterator[Place]:
    """An empty place of one of ``PLACES``."""
    if kind == "memory":
        yield Place(MemoryLog(ticking()))
        return
    with playhead.open_store(str(folder / "store.sqlite")) as store:
        if kind == "sqlite":
            yield Place(store)
            return
        with Writer(store, window_ms=1) as writer:
            yield Place(store, writer)
