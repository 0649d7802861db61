"""The places where a live session may be kept: in memory, on SQLite fact by fact, on SQLite through the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripted_model import settled, ticking

import playhead
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent, Session
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.sql.writer import QueuedSession, Writer
from playhead.live.session import LiveSession


@dataclass
class Place:
    """Where sessions are kept; ``writer`` is None where each fact is appended by itself."""

    store: Any
    writer: Writer | None = None
    queue: QueuedSession | None = None

    def live(self, events: list[NewEvent] | None = None, seed_length: int | None = None) -> LiveSession:
        """A live session that begins with ``events``."""
        session: Session = self.store.create(SessionHeader(SessionId("s1"), 1, seed_length=seed_length))
        if events:
            session.append(events)
        if self.writer is not None:
            self.queue = self.writer.open(self.store.session("s1"))
        return LiveSession(session, ticking(), self.queue)

    async def settled(self) -> None:
        """Returns when nothing is left to run but what waits for the world; the disk is not the world."""
        quiet = 0
        while quiet < 2:
            await settled()
            quiet += 1
            while self.queue is not None and self.queue.durable_seq != self.queue.next_seq:
                await asyncio.sleep(0.001)
                quiet = 0

    def stored(self) -> Session:
        """The session as the store has it, everything flushed."""
        if self.queue is not None:
            self.queue.flushed().result(30)
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
