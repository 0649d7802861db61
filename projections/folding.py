"""Folding a session: whole, up to a seq, from a checkpoint, or in its repaired view.

Unknown events. A type that nobody registered, on an event that is not marked ignorable, may change the meaning of
what follows. The fold goes past it and says so in ``Folded.unknown``; ``strict`` raises ``UnknownEventType``; a type
in ``ignorable`` is the caller's word that it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol

from playhead.eventstore.errors import UnknownEventType
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.eventstore.repair import TURN_TYPES, OpenTurn
from playhead.projections.projection import EVERY_TYPE, Projection, Row, S


class Foldable(Protocol):
    """A session that can be folded."""

    @property
    def header(self) -> SessionHeader: ...

    @property
    def next_seq(self) -> Seq:
        """The seq behind the last event."""
        ...

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        """Logical events in order, none of a type in ``without``.

        Without ``deltas`` those that only carry streamed text are left out too.
        """
        ...


@dataclass(frozen=True)
class Folded(Generic[S]):
    """A state and how far it goes: ``next_seq`` is the seq of the first event that is not in it.

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


def left_out(projection: Projection[Any]) -> frozenset[str]:
    """The types of events that ``projection`` need not be shown: those that are known, and that it does not handle.

    An unknown type is never among them: the fold has to see its events to say so.
    """
    if projection.handles is EVERY_TYPE:
        return frozenset()
    return frozenset(event_types) - projection.handles


def advance(
    projection: Projection[S],
    folded: Folded[S],
    events: Iterable[Recorded],
    *,
    strict: bool = False,
    ignorable: Collection[str] = (),
    emitted: list[Row] | None = None,
) -> Folded[S]:
    """The fold after ``events``, which go on where ``folded`` stops. ``emitted`` takes the rows they add.

    Events of the types in ``left_out`` may be missing. Then ``next_seq``, which is behind the last of ``events``, may
    be lower than it could be; that is no harm, since reading such events again adds nothing.
    """
    state, unknown = folded.state, folded.unknown
    handles, apply = projection.handles, projection.apply
    emit = None if emitted is None else projection.emit
    event = None
    for event in events:
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
    return Folded(state, folded.next_seq if event is None else Seq(event.seq + 1), unknown)


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
    end_seq = session.next_seq if at is None else min(at + 1, session.next_seq)
    if end_seq > folded.next_seq:
        without = left_out(projection)
        events = session.events(folded.next_seq, end_seq, deltas=projection.deltas, without=without)
        folded = advance(projection, folded, events, strict=strict, ignorable=ignorable)
        folded = replace(folded, next_seq=Seq(end_seq))
    if repaired:
        folded = advance(
            projection, folded, closing_events(session, end_seq), strict=strict, ignorable=ignorable
        )
    return folded


def closing_events(session: Foldable, end_seq: int) -> list[Recorded]:
    """The events that repair would append to ``session`` when it ends before ``end_seq``."""
    turn = OpenTurn()
    for event in session.events(0, end_seq, deltas=False, without=frozenset(event_types) - TURN_TYPES):
        turn.feed(event)
    # Seq and time go on from the last event, whatever it is.
    for event in session.events(0 if turn.last is None else turn.last.seq + 1, end_seq):
        turn.feed(event)
    return turn.closers()
