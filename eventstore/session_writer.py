"""How a live session's facts reach its store: queued at once, durable soon after.

``live`` decides and accepts; a ``SessionWriter`` keeps. The writer of a SQL store gathers the facts of all sessions of
a process into one transaction at a time (``sql/writer.py``); ``DirectWriter`` appends each fact by itself.
"""

from __future__ import annotations

from typing import Protocol

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.log import NewEvent, Session
from playhead.eventstore.recorded import Recorded


class SessionWriter(Protocol):
    """Keeps the facts of one session. It is the only writer of that session as long as it is open."""

    @property
    def header(self) -> SessionHeader: ...

    @property
    def next_seq(self) -> Seq:
        """The seq of the next fact to ``put``."""
        ...

    def put(self, fact: Recorded, line: bytes) -> None:
        """Take the next fact, with its log line (without line end). It does not wait for the disk.

        Raises ``WrongExpectedSeq`` for a fact that is not the next one, and what an earlier commit of this session
        failed with; then nothing was taken.
        """
        ...

    async def room(self) -> None:
        """Returns once the queue is below its bound: what a fast producer awaits between facts."""
        ...

    async def flush(self) -> None:
        """Returns once everything put so far is durable; raises what its commit failed with."""
        ...

    async def close(self) -> None:
        """Flush, and let go of the session; it takes nothing more. Raises what ``flush`` raises."""
        ...


class DirectWriter:
    """Appends every fact to ``session`` as it comes, each in a commit of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def header(self) -> SessionHeader:
        return self._session.header

    @property
    def next_seq(self) -> Seq:
        return self._session.next_seq

    def put(self, fact: Recorded, line: bytes) -> None:  # noqa: ARG002 - the store writes its own
        """See ``SessionWriter``; durable when it returns."""
        event = NewEvent(
            fact.type,
            fact.json,
            fact.time_ms,
            surface_op=fact.surface_op,
            source_seqs=fact.source_seqs,
            ignorable=fact.ignorable,
        )
        self._session.append([event], expected_seq=fact.seq)

    async def room(self) -> None:
        """There always is."""

    async def flush(self) -> None:
        """Nothing is ever pending."""

    async def close(self) -> None:
        """Nothing is held."""
