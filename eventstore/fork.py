"""Where a session may be forked, what the child's header says, and where its own events begin.

A fork copies the events up to an inclusive boundary, by default all, with their seqs, times and message ids.
The copied prefix must not end inside an open turn; events behind a closed turn are fine. The child has an id
and a creation time of its own, the parent's folder, the parent's id, and the number of copied events as its
``seedLength``. It inherits no delegation depth, origin or preset.

Three boundaries must not be mixed up:

* ``seedLength`` in the header: events inherited from the parent, fixed for life;
* the last ``session/end-seed`` in the log: the end of what the current lifecycle started from. It is appended
  when a session is made from a seed, an empty one too, unless the seed already ends with one;
* the first live seq: the length of the seed, so past a marker that the seed brought along.

Source: docs/formats.md, "Forks".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId, is_safe_integer
from playhead.eventstore.log import NewEvent
from playhead.eventstore.recorded import Recorded

END_SEED = "session/end-seed"
"""The type of the marker behind a seed."""


class ForkError(UsageError):
    """The session cannot be forked there."""

    code = "fork"


class InvalidBoundary(ForkError):
    """The boundary is no seq of the session; ``events`` is how many it has."""

    code = "INVALID_BOUNDARY"

    def __init__(self, session: str, boundary: object, events: int) -> None:
        self.session = session
        self.boundary = boundary
        self.events = events
        has = f"its seqs are 0 to {events - 1}" if events else "it has no events"
        super().__init__(f"session {session!r} cannot be forked at seq {boundary!r}: {has}")


class OpenTurn(ForkError):
    """The boundary lies inside a turn; ``turn_start`` is the seq at which that begins.

    The place before it is always one where no turn is open.
    """

    code = "OPEN_TURN"

    def __init__(self, session: str, boundary: int, turn_start: int) -> None:
        self.session = session
        self.boundary = boundary
        self.turn_start = turn_start
        before = f"fork at seq {turn_start - 1}" if turn_start else "there is no earlier place to fork at"
        super().__init__(
            f"session {session!r} has an open turn at seq {boundary}: it begins at seq {turn_start}; {before}, "
            "or at the end of the turn or behind it, or let the fork close it (--repaired)"
        )


def seed(facts: Iterable[Recorded], boundary: int | None = None, *, session: str = "") -> Iterator[Recorded]:
    """The facts that a fork of ``facts`` at ``boundary`` inherits, one by one, unchanged.

    ``facts`` is the whole log of ``session``. ``boundary`` is the last seq that is copied; None copies all, of
    an empty log too. A seed is good only when it came to its end: the errors are raised behind the facts that they
    are about. Raises ``InvalidBoundary``, ``OpenTurn``, and ``CorruptLog`` where a seq is missing.
    """
    if boundary is not None and (not is_safe_integer(boundary) or boundary < 0):
        raise InvalidBoundary(session, boundary, sum(1 for _ in facts))
    next_seq, turn_start = 0, None
    for fact in facts:
        if fact.seq != next_seq:
            message = (
                f"seq {next_seq} is missing, seq {fact.seq} follows: what is behind it cannot be inherited"
            )
            raise CorruptLog(session, message, seq=next_seq, kind="seq-gap")
        next_seq = fact.seq + 1
        turn_start = turn_open_after(turn_start, fact)
        yield fact
        if fact.seq == boundary:
            break
    if boundary is not None and boundary != next_seq - 1:
        raise InvalidBoundary(session, boundary, next_seq)
    if turn_start is not None:
        raise OpenTurn(session, next_seq - 1, turn_start)


def turn_open_after(turn_start: int | None, fact: Recorded) -> int | None:
    """The seq of the ``turn/start`` since which a turn is open, once ``fact`` is seen; None when none is."""
    if fact.type == "turn/end":
        return None
    if fact.type == "turn/start" and turn_start is None:
        return fact.seq
    return turn_start


def child_header(
    parent: SessionHeader, id: SessionId, created_ms: int, seed_length: int, *, cwd: str | None = None
) -> SessionHeader:
    """The header of a fork of ``parent`` that inherits ``seed_length`` events; the working folder too, unless given."""
    return SessionHeader(
        id=id,
        created_ms=created_ms,
        cwd=parent.cwd if cwd is None else cwd,
        parent=parent.id,
        seed_length=seed_length,
    )


def end_seed(seed: Sequence[Recorded] | None) -> list[NewEvent]:
    """The marker to append behind ``seed``; nothing where it ends with one, or where there is no seed (None)."""
    if seed is None or (seed and seed[-1].type == END_SEED):
        return []
    return [NewEvent(END_SEED, {})]


def first_live_seq(seed: Sequence[Recorded] | None) -> int:
    """The seq from which on facts are the session's own, in this lifecycle; 0 without a seed."""
    return seed[-1].seq + 1 if seed else 0
