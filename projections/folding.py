"""Folding a session: whole, up to a seq, from a checkpoint, or in its repaired view.

Unknown events. A type that nobody registered, on an event that is not marked ignorable, may change the meaning of
what follows. The fold goes past it and says so in ``Folded.unknown``; ``strict`` raises ``UnknownEventType``; a type
in ``ignorable`` is the caller's word that it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol

from playhead.eventstore.errors import UnknownEventType
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.eventstore.repair import OpenTurn
from playhead.projections.projection import EVERY_TYPE, Projection, Row, S


class Foldable(Protocol):
    """A session that can be folded."""

    @property
    def header(self) -> SessionHeader: ...

    def events(
        self, from_seq: int = 0, to_seq: int | None = None, *, deltas: bool = True
    ) -> Iterator[Recorded]:
        """Logical events in order; without ``deltas`` those that only carry streamed text are left out."""
        ...


@dataclass(frozen=True)
class Folded(Generic[S]):
    """A state and how far it goes. ``next_seq`` is the seq behind the last event seen.

    ``unknown`` holds (type, seq) of the first event of each type that nobody knows and that may matter.
    """

    state: S
    next_seq: Seq
    unknown: tuple[tuple[str, int], ...] = ()

    @property
    def complete(self) -> bool:
        """False when the interpretation may miss something."""
        return not self.unknown


def begin(projection: Projection[S], header: SessionHeader) -> Folded[S]:
    """The fold of a session without events."""
    return Folded(projection.initial(header), Seq(0))


def advance(
    projection: Projection[S],
    folded: Folded[S],
    events: Iterable[Recorded],
    *,
    strict: bool = False,
    ignorable: Collection[str] = (),
    emitted: list[Row] | None = None,
) -> Folded[S]:
    """The fold after ``events``, which go on where ``folded`` stops. ``emitted`` takes the rows they add."""
    state, next_seq, unknown = folded.state, folded.next_seq, folded.unknown
    handles, apply = projection.handles, projection.apply
    emit = None if emitted is None else projection.emit
    for event in events:
        next_seq = Seq(event.seq + 1)
        if event.type in handles:
            state = apply(state, event)
            if emit is not None and emitted is not None:
                emitted.extend(emit(state, event))
            if handles is not EVERY_TYPE:
                continue
        if event.type not in event_types and not event.ignorable and event.type not in ignorable:
            if strict:
                raise UnknownEventType(event.type, event.seq, event.session)
            if all(event.type != tag for tag, _ in unknown):
                unknown = (*unknown, (event.type, event.seq))
    return Folded(state, next_seq, unknown)


def fold(
    session: Foldable,
    projection: Projection[S],
    *,
    at: int | None = None,
    since: Folded[S] | None = None,
    repaired: bool = False,
    strict: bool = False,
    ignorable: Collection[str] = (),
) -> Folded[S]:
    """The state of ``session`` after its last event, or after the event ``at``.

    ``since`` is an earlier fold of the same session to go on from. ``repaired`` adds the events that close what a
    crash left open. Raises ``UnknownEventType`` when ``strict``, see above.
    """
    folded = begin(projection, session.header) if since is None else since
    to_seq = None if at is None else at + 1
    events = session.events(folded.next_seq, to_seq, deltas=projection.deltas)
    if repaired:
        events = with_closers(session, events, to_seq)
    return advance(projection, folded, events, strict=strict, ignorable=ignorable)


def with_closers(session: Foldable, events: Iterator[Recorded], to_seq: int | None) -> Iterator[Recorded]:
    """``events`` up to the end of the log, then the events that repair would append there."""
    yield from events
    turn = OpenTurn()
    for event in session.events(0, to_seq, deltas=False):
        turn.feed(event)
    yield from turn.closers()
