"""The model calls of a session turn by turn, from its beginning or from any turn on.

Nothing that a fold of calls knows goes over a ``turn/start``, but where requests go (``request/header``,
``request/context``) and what was inherited (``session/end-seed``). So a fold may begin at any ``turn/start`` once these
few events before it have been seen, and a store passes over all others without decoding them. One thing is not the
same: provider and model of a call without a message come from the latest header or context, also where a message in
between names others.

The fold reads no deltas, and takes the chunks of a call for those that its message names. What streamed is told by the
log itself: where chunks are events, those of a call lie between the end of what came before it and its own end, a delta
before any other chunk among them. ``TurnCalls.begins`` says where that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from playhead.eventstore import chunk_rows
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.projections.attempt import Attempt as Call
from playhead.projections.attempt_fold import HANDLES, Attempts, after, begin, calls
from playhead.projections.folding import Foldable
from playhead.projections.inherited import MARKER
from playhead.replay.stream import is_embedded

_TURN_START = "turn/start"
_CARRIED = frozenset({_TURN_START, "request/header", "request/context", MARKER})
"""What must be seen of the part of a log before a ``turn/start`` to begin there."""

_SHOWS_CHUNKS = frozenset({chunk_rows.EVENT_TYPE, "assistant/message", "llm/retry"})
"""The types of events that can be the first sign of a call whose chunks are events."""


@dataclass(frozen=True, slots=True)
class TurnCalls:
    """The ``calls`` of one turn, in order.

    ``begins`` gives, by the seq of a call whose chunks are events, from where on they can lie.
    """

    calls: tuple[Call, ...]
    begins: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a fold of calls can begin: at ``from_seq``, with ``state``, which holds no calls."""

    state: Attempts
    from_seq: int = 0

    @property
    def turn(self) -> int | None:
        """The turn that begins here; None at the beginning of a log."""
        return self.state.turn


def first_entry(session: Foldable) -> Entry:
    """The beginning of the log."""
    return Entry(begin(session.header))


def turn_entries(session: Foldable, to_seq: int | None = None) -> Iterator[Entry]:
    """The entry behind every ``turn/start`` before ``to_seq``, in order."""
    state = begin(session.header)
    for event in session.events(0, to_seq, deltas=False, without=_not_in(_CARRIED)):
        if event.type in _CARRIED:
            state = after(state, event)
            if event.type == _TURN_START:
                yield Entry(state, event.seq + 1)


def turns_from(session: Foldable, entry: Entry) -> Iterator[TurnCalls]:
    """The calls of one turn after the other from ``entry`` on, each turn as it ends; those of an open turn last."""
    return turns_of(entry, session.events(entry.from_seq, deltas=False, without=_not_in(HANDLES)))


def turn_at(session: Foldable, entry: Entry) -> Iterator[TurnCalls]:
    """The same up to the next ``turn/start``, which is all that is read."""
    return turns_of(
        entry, _up_to_turn_start(session.events(entry.from_seq, deltas=False, without=_not_in(HANDLES)))
    )


def _not_in(types: frozenset[str]) -> frozenset[str]:
    """The types of events that a reader of ``types`` can do without."""
    return frozenset(event_types) - types


def _up_to_turn_start(events: Iterator[Recorded]) -> Iterator[Recorded]:
    """``events`` up to the first ``turn/start``, and it as well: it ends a turn that nothing else has ended."""
    for event in events:
        yield event
        if event.type == _TURN_START:
            return


def turns_of(entry: Entry, events: Iterable[Recorded]) -> Iterator[TurnCalls]:
    """The calls in ``events``, which go on from ``entry``; deltas among them change nothing."""
    state, bound = entry.state, entry.from_seq
    begins: dict[int, int] = {}
    for event in events:
        if event.type not in HANDLES:
            continue
        before, state = state, after(state, event)
        if state is before:
            continue
        is_chunk = event.type == chunk_rows.EVENT_TYPE
        if event.type in _SHOWS_CHUNKS and _newest_seq(state) == event.seq and not is_embedded(event):
            # What is open has the chunks before it.
            begins[event.seq] = bound if before.open is None else event.seq
        if not is_chunk or state.open is None:
            bound = event.seq + 1
        if state.turns:
            for turn in state.turns:
                yield TurnCalls(turn, begins)
            state, begins = replace(state, turns=()), {}
    rest = tuple(calls(state))
    if rest:
        yield TurnCalls(rest, begins)


def _newest_seq(state: Attempts) -> int | None:
    """The seq of the call that was seen last."""
    if state.open is not None:
        return state.open.seq
    return state.recent[-1].seq if state.recent else None
