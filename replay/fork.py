"""A session that goes on from a place in another one.

The source is a session of any format, imported or native; it is only read. The fork is a native session: a header that
names its parent, the events of the parent up to the place in their native form (``native_events.py``: of a source of
format 0 or 1, and of a native one, every event with its seq, time and ids), and ``session/end-seed`` behind them unless
they end with one. What the parent had queued in its inbox stays the parent's: folds of the inbox pass over the first
``seedLength`` events.

The place must not lie inside a turn, and nothing before it may be damaged. In the *repaired* view both is mended: a
turn that is open there is closed with the events of ``repair.py``, and where the numbering breaks off the log ends. The
closing events are inherited like the others; a fork is the only place where they are ever written.

A fork is put aside first (``LineSpool``), so that nothing is made of one that turns out to be impossible, and then
written as a whole. Source: docs/formats.md, "Forks".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playhead.eventstore import envelope
from playhead.eventstore import fork as rules
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.findings import Finding, damage
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import Session, Store
from playhead.eventstore.recorded import Recorded
from playhead.projections.repaired import Repaired
from playhead.replay.line_spool import LineSpool
from playhead.replay.native_events import NativeEvents


@dataclass(frozen=True, slots=True)
class Branch:
    """All of a fork, not written anywhere yet.

    ``header.seed_length`` events are inherited; ``events`` counts the marker behind them as well. ``closers`` of them
    were added to close a turn. ``at`` is the last seq of the source that is in it, -1 for none. ``left_out`` counts
    events of the source that have no place in a native session, ``lost`` those that lie behind a damage.
    """

    header: SessionHeader
    events: int
    at: int
    closers: int
    left_out: int
    lost: int
    _spool: LineSpool

    def blocks(self) -> Iterator[bytes]:
        """The lines behind the header, as ``log.Store.create_from`` takes them."""
        return self._spool.blocks()

    def facts(self) -> Iterator[Recorded]:
        """The events."""
        for block in self.blocks():
            for line in block.split(b"\n")[:-1]:
                yield from envelope.facts(line, self.header.id)


@contextmanager
def branch(
    session: Session,
    id: str,
    created_ms: int,
    *,
    at: int | None = None,
    repaired: bool = False,
    cwd: str | None = None,
) -> Iterator[Branch]:
    """The fork of ``session`` behind the event ``at``, by default its last, as long as the context lasts.

    ``id`` and ``created_ms`` are the fork's own; the marker behind the seed has the same time. It works in the folder
    ``cwd``, by default where the source did. Raises
    ``InvalidBoundary``; ``OpenTurn`` and ``CorruptLog`` for what ``repaired`` would mend, and ``CorruptLog`` for a
    place behind a gap, which nothing mends.
    """
    events = session.next_seq
    if at is not None and not 0 <= at < events:
        raise rules.InvalidBoundary(session.id, at, events)
    end, lost = _end_of(session, events if at is None else at + 1, at, repaired)
    stored: Iterable[Recorded] = session.events(0, end)
    if repaired:
        stored = Repaired(session, end).events()
    native = NativeEvents(session.header)
    last: Recorded | None = None
    inherited = 0
    with LineSpool() as spool:
        for fact in rules.seed(stored, session=session.id):
            inherited += 1
            for last in native.feed(fact):
                spool.add(last.line())
        for last in native.rest():
            spool.add(last.line())
        header = rules.child_header(session.header, SessionId(id), created_ms, native.next_seq, cwd=cwd)
        marker = rules.end_seed([] if last is None else [last])
        for event in marker:
            spool.add(event.line(native.next_seq, created_ms))
        yield Branch(
            header=header,
            events=native.next_seq + len(marker),
            at=end - 1,
            closers=inherited - end,
            left_out=native.left_out,
            lost=lost,
            _spool=spool,
        )


def fork(
    session: Session,
    store: Store,
    id: str,
    created_ms: int,
    *,
    at: int | None = None,
    repaired: bool = False,
    cwd: str | None = None,
) -> Session:
    """The fork of ``session`` behind the event ``at`` as a new session of ``store``; there whole, or not at all.

    See ``branch``. Raises ``SessionExists`` when the store has a session ``id``.
    """
    with branch(session, id, created_ms, at=at, repaired=repaired, cwd=cwd) as made:
        return store.create_from(made.header, made.blocks())


def _end_of(session: Session, end: int, at: int | None, repaired: bool) -> tuple[int, int]:
    """The seq behind the last event to inherit, and how many events of the log lie behind a damage there.

    A place that the caller named is good when all before it is; else no damage may be anywhere.
    """
    damaged = damage(session.info.findings)
    if not damaged:
        return end, 0
    readable = _readable(session, end)
    if readable < end and (at is not None or not repaired):
        message = f"seq {readable} is missing, {_first(damaged)}; {_ways_out(readable, at is None)}"
        raise CorruptLog(session.id, message, seq=readable, kind="seq-gap")
    before = [finding for finding in damaged if at is None or (finding.seq is not None and finding.seq < end)]
    if before and not repaired:
        finding = before[0]
        message = f"{_first(before)}; {_ways_out(readable, repair=True)}"
        raise CorruptLog(
            session.id, message, seq=finding.seq, line=finding.line, byte=finding.byte, kind=finding.kind
        )
    return readable, session.info.events - readable if at is None else 0


def _readable(session: Session, end: int) -> int:
    """How many facts, up to ``end``, are numbered from 0 without a gap."""
    count = 0
    for fact in session.read(0, end):
        if fact.seq != count:
            break
        count += 1
    return count


def _first(damaged: list[Finding]) -> str:
    finding = damaged[0]
    where = f"line {finding.line}: " if finding.line is not None else ""
    more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
    return f"the log is damaged: {where}{finding.message}{more}"


def _ways_out(readable: int, repair: bool) -> str:
    ways = ["--repaired forks what can be read before the damage"] if repair else []
    if readable:
        ways.append(f"--at takes a place up to seq {readable - 1}")
    return ", ".join(ways) or "nothing before it can be forked"
