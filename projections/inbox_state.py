"""What the inbox audit keeps: the lists, one record a message, and a journal of everything that happened.

A message is *live* while it is queued, or claimed in a turn that is still open; then it is closed and put aside.
Each id has one record, whatever happened to it: an id that is queued again after its end begins another *stay*,
and its record tells the last one. The journal of links tells all of them.

========== ==================================================================================
verdict    meaning, and ``reason`` with ``detail``
========== ==================================================================================
admitted   it entered the conversation as ``user/message`` at ``admitted_seq``
refused    it was claimed, and a pre-step decision rejected the step: its turn ended ``blocked``
lost       it was claimed and never delivered: the turn ended ``aborted`` (detail: by whom), with an
           ``error`` (its code), was ``interrupted``, or ended otherwise; ``left-out``: the turn went
           on without it; ``outside-turn``: it was claimed where no turn was open
cancelled  it was taken out of its list: ``removed`` while others stayed, ``cleared`` with all that was
           queued, or ``stopped``: cleared in a turn that ended aborted (by whom)
replaced   another message, ``replaced_by``, took its place
pending    it is in a list
open       it was claimed in a turn that has no end yet
========== ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from playhead.eventstore.header import SessionHeader
from playhead.projections.growing import Index, Journal
from playhead.projections.inbox_lists import Lists, Splice, Target
from playhead.projections.projection import Breach

Verdict = Literal["admitted", "refused", "lost", "cancelled", "replaced", "pending", "open"]
VERDICTS: tuple[Verdict, ...] = (
    "lost",
    "refused",
    "cancelled",
    "replaced",
    "open",
    "pending",
    "admitted",
)
"""Every verdict, those that need a look first."""

Kind = Literal[
    "inserted", "edited", "moved", "replaced", "cancelled", "claimed", "admitted", "refused", "lost"
]
"""What a link of a chain says; ``edited`` is a new content under the same id."""


class Claim(msgspec.Struct, frozen=True):
    """When a message was taken, and in front of which step. ``place`` is where it stood, 0 for first in line.

    ``turn`` is None where no turn was open.
    """

    seq: int
    time_ms: int
    turn: int | None
    step: int
    place: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message id. ``number`` counts ids in the order in which they came, from 0.

    ``standing`` is a final verdict, ``queued``, or ``claimed``. ``inserted_*``, ``target`` and ``place`` are
    those of the last stay; a move changes the target, not when the stay began. ``seq`` is that of the last event
    that changed the record, ``boundaries`` how many boundaries had passed then.
    """

    id: str
    number: int
    source: str
    source_kind: str
    text: str
    target: Target
    place: int
    inserted_seq: int
    inserted_ms: int
    seq: int
    boundaries: int = 0
    standing: Literal["queued", "claimed", "admitted", "refused", "lost", "cancelled", "replaced"] = "queued"
    reason: str | None = None
    detail: str | None = None
    stays: int = 1
    claim: Claim | None = None
    ended_seq: int | None = None
    ended_ms: int | None = None
    admitted_seq: int | None = None
    replaced_by: str | None = None
    replaces: tuple[str, ...] = ()

    @property
    def waited_ms(self) -> int | None:
        """From insertion to claim; None without a claim, and when the clock ran back between them."""
        if self.claim is None or self.claim.time_ms < self.inserted_ms:
            return None
        return self.claim.time_ms - self.inserted_ms


class Link(msgspec.Struct, frozen=True):
    """One link of a message's chain. ``splice_seq`` is the splice that did it, or that claimed the message.

    ``target`` and ``place`` say where the message came to, or where it stood when it left. ``step`` is the one that
    a claim was for. ``other`` is the message that replaces this one, or that an inserted one replaces.
    """

    seq: int
    time_ms: int
    message: str
    kind: Kind
    target: Target
    place: int | None
    turn: int | None
    splice_seq: int | None
    step: int | None = None
    other: str | None = None
    reason: str | None = None
    detail: str | None = None


class Applied(msgspec.Struct, frozen=True):
    """A splice as it was applied to the lists."""

    seq: int
    time_ms: int
    splice: Splice


class Turn(msgspec.Struct, frozen=True):
    """The open turn. Steps count from 1: the last one that was started, and the last that ended; 0 for none.

    ``cleared`` are the messages that went when the lists were emptied in it.
    """

    number: int | None
    started: int = 0
    ended: int = 0
    cleared: Journal[str] = Journal()

    def passed(self, *, crashed: bool) -> int:
        """The last step that went on without what it did not take in.

        After a crash the end of the last step proves nothing: repair wrote it.
        """
        return self.started - 1 if crashed and self.started == self.ended else self.ended


class Inherited(msgspec.Struct, frozen=True):
    """What a fork finds in the part it inherited and does not take over: splices, and messages inserted there."""

    splices: int = 0
    messages: int = 0


class InboxState(msgspec.Struct, frozen=True):
    """The audit so far.

    ``seed_end`` is the seq behind the inherited part; None while its end is still to come. ``marked`` says that
    the log tells it by a marker. ``boundaries`` counts turn boundaries and claims. ``clearing`` are the messages
    of a list that was emptied at ``clearing_seq``: the other list may go with it. ``outside`` counts messages,
    by label of their source, that entered the conversation and never were in a list.
    """

    seed_end: int | None
    marked: bool
    lists: Lists = Lists()
    live: dict[str, Message] = {}
    closed: Index[Message] = Index()
    count: int = 0
    turn: Turn | None = None
    boundaries: int = 0
    clearing: tuple[str, ...] = ()
    clearing_seq: int = -1
    links: Journal[Link] = Journal()
    splices: Journal[Applied] = Journal()
    broken: Journal[Breach] = Journal()
    outside: dict[str, int] = {}
    inherited: Inherited = Inherited()

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """The rules that the log breaks, in order."""
        return tuple(self.broken)

    def message(self, id: str) -> Message | None:
        """The record of ``id``; None for an id that was never in a list."""
        return self.live.get(id) or self.closed.get(id)

    def messages(self) -> list[Message]:
        """Every record, in the order in which the ids came."""
        return sorted({**self.closed.items(), **self.live}.values(), key=lambda message: message.number)


def initial(header: SessionHeader) -> InboxState:
    """The state before the first event. Formats 0 and 1 say how much is inherited, later ones mark its end."""
    if header.version < 2:
        return InboxState(seed_end=header.seed_length or 0, marked=False)
    return InboxState(seed_end=None if header.is_seeded else 0, marked=header.is_seeded is not False)


def verdict(state: InboxState, message: Message) -> Verdict:
    """What became of ``message``, as far as ``state`` goes."""
    if message.standing == "queued":
        return "pending"
    if message.standing != "claimed":
        return message.standing
    return "lost" if state.turn is None else "open"


def reason(state: InboxState, message: Message) -> str | None:
    """The reason that goes with the verdict; None where there is nothing to say."""
    if message.standing == "claimed" and state.turn is None:
        return "outside-turn"
    return message.reason


def tally(state: InboxState) -> dict[Verdict, int]:
    """How many messages have each verdict; those that none has are left out."""
    found = [verdict(state, message) for message in state.messages()]
    return {each: found.count(each) for each in VERDICTS if each in found}


def moments(state: InboxState) -> Iterator[tuple[Applied, Lists]]:
    """Both lists after each splice, in order."""
    lists = Lists()
    for applied in state.splices:
        lists, _ = lists.spliced(applied.splice)
        yield applied, lists


def lists_at(state: InboxState, seq: int) -> Lists:
    """Both lists as they stood after the event ``seq``."""
    lists = Lists()
    for applied, after in moments(state):
        if applied.seq > seq:
            break
        lists = after
    return lists


class Standing(msgspec.Struct, frozen=True):
    """Where a message stood from ``seq`` on: at ``place`` of ``of`` in ``target``; ``place`` is 0 for first."""

    seq: int
    time_ms: int
    target: Target
    place: int
    of: int


def standings(state: InboxState, id: str) -> Iterator[Standing]:
    """Each place at which ``id`` stood in a list, from the splice that brought it there."""
    last: tuple[Target, int] | None = None
    for applied, lists in moments(state):
        now: tuple[Target, int] | None = None
        for target in ("next-turn", "next-step"):
            if id in lists.of(target):
                now = target, lists.of(target).index(id)
        if now is not None and now != last:
            yield Standing(applied.seq, applied.time_ms, *now, len(lists.of(now[0])))
        last = now
