"""A session in the process that writes it.

A fact is accepted first: it gets its seq, goes to the writer, and changes what the session knows of itself. Then the
observers see it, in the order in which they came; that is the one live stream of a session. An observer that fails
is logged and changes nothing. While observers run, nothing may be appended: what one wants to add has to wait until
they are done.

Before a fact is accepted, those who ``guard`` the session may refuse it: what they raise is raised, and nothing was
appended.

The session keeps what a request is made of (the messages on its surface, the last header), not its whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from playhead.eventstore import envelope, members
from playhead.eventstore.errors import UsageError, WrongExpectedSeq
from playhead.eventstore.fork import END_SEED
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.log import Clock, NewEvent, Session
from playhead.eventstore.recorded import Recorded, SurfaceOp
from playhead.eventstore.registered import Registered
from playhead.eventstore.repair import OpenTurn
from playhead.eventstore.session_writer import DirectWriter, SessionWriter
from playhead.live.notices import contained
from playhead.projections import surface as surfaces
from playhead.projections.surface import Surface

Observer = Callable[[Recorded], Any]

Guard = Callable[[Recorded], None]
"""Raises what a fact is refused with."""


class AppendWhileObserved(UsageError):
    """An observer tried to append to the session that it observes; nothing was appended."""

    code = "append-while-observed"

    def __init__(self, session: str, type: str) -> None:
        self.session = session
        super().__init__(
            f"session {session!r}: {type} cannot be appended while observers of another event run; "
            "append it after they are done, for example with loop.call_soon"
        )


class LiveSession:
    """See above. ``from_seq`` is the first seq of the session's own events, behind what it inherited.

    Raises ``WrongExpectedSeq`` where ``writer`` has facts that ``session`` does not show yet, or the other way round.
    """

    def __init__(self, session: Session, clock: Clock, writer: SessionWriter | None = None) -> None:
        self._writer = writer or DirectWriter(session)
        self._clock = clock
        self._observers: Registered[Observer] = Registered()
        self._guards: Registered[Guard] = Registered()
        self._observed = False
        self._surface = Surface()
        self._messages: dict[int, dict[str, Any]] = {}
        self._open = OpenTurn()
        self.next_seq = Seq(0)
        self.from_seq = session.header.seed_length or 0
        self.last_turn = 0
        self.request_header: dict[str, Any] | None = None
        self.request_context: dict[str, Any] | None = None
        self.stored = session
        for fact in session.events(deltas=False):
            self._learn(fact)
        for fact in session.events(self.next_seq):  # a log that ends in mid-stream ends with deltas
            self._learn(fact)
        if self.next_seq != self._writer.next_seq:
            raise WrongExpectedSeq(session.id, self._writer.next_seq, self.next_seq)

    @property
    def id(self) -> SessionId:
        return self.header.id

    @property
    def header(self) -> SessionHeader:
        return self._writer.header

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call ``observer`` with every event accepted from now on, at once; gives what takes it off again."""
        return self._observers.add(observer)

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Ask ``guard`` before a fact is accepted, from now on; gives what takes it off again."""
        return self._guards.add(guard)

    def append(
        self,
        type: str,
        data: Any,
        *,
        surface_op: SurfaceOp | None = None,
        source_seqs: Sequence[int] | None = None,
    ) -> Recorded:
        """Accept an event; it is in the log, and observed, when this returns, and durable after a ``flush``.

        Raises ``NotLosslessJson`` for data that JSON would change, ``AppendWhileObserved``, what a guard refuses it
        with, and what an earlier commit failed with; then nothing was appended.
        """
        if self._observed:
            raise AppendWhileObserved(self.id, type)
        observers = iter(self._observers)  # those of before: who comes while it is accepted sees the next one
        event = NewEvent(type, data, surface_op=surface_op, source_seqs=source_seqs)
        fact = self._accept(event, self._clock())
        self._observed = True
        try:
            for observer in observers:
                contained(observer, fact)
        finally:
            self._observed = False
        return fact

    def resume(self) -> list[Recorded]:
        """Close what a crash left open, and mark the end of what this process found; gives what was appended.

        Nobody observes these events. A session that was left in order, and ends with the mark, does not grow.
        """
        added = []
        for closer in self._open.closers():
            event = NewEvent(
                closer.type, closer.json, surface_op=closer.surface_op, source_seqs=closer.source_seqs
            )
            added.append(self._accept(event, closer.time_ms))
        last = self._open.last
        if last is None or last.type != END_SEED:
            added.append(self._accept(NewEvent(END_SEED, {}), self._clock()))
        return added

    def messages(self) -> list[dict[str, Any]]:
        """What the model sees now, in order: the messages of a request. They are shared: do not change them."""
        return [self._messages[entry.seq] for entry in self._surface.entries() if entry.seq in self._messages]

    async def room(self) -> None:
        """Returns once the writer can take more."""
        await self._writer.room()

    async def flush(self) -> None:
        """Returns once every accepted event is durable; raises what the commit failed with."""
        await self._writer.flush()

    async def close(self) -> None:
        """Flush, and let go of the writer: nothing can be appended any more. Raises what ``flush`` raises."""
        await self._writer.close()

    def _accept(self, event: NewEvent, time_ms: int) -> Recorded:
        line = event.line(self.next_seq, time_ms)
        (fact,) = envelope.facts(line, self.id, None)
        for guard in self._guards:
            guard(fact)
        self._writer.put(fact, line)
        self._learn(fact)
        return fact

    def _learn(self, fact: Recorded) -> None:
        self.next_seq = Seq(fact.seq + 1)
        self._open.feed(fact)
        match fact.type:
            case "turn/start":
                self.last_turn = int(members.number(members.of(fact), "turn") or 0)
            case "request/header":
                self.request_header = members.inner(members.of(fact), "header")
            case "request/context":
                self.request_context = members.of(fact)
        if fact.surface_op is None:
            return
        before = self._surface
        self._surface = surfaces.apply(before, fact)
        if self._surface.generation != before.generation:
            kept = {entry.seq for entry in self._surface.entries()}
            self._messages = {seq: held for seq, held in self._messages.items() if seq in kept}
        message = surfaces.message_of(fact)
        if message is not None:
            self._messages[fact.seq] = message
