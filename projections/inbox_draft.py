"""The changes that one event makes to the inbox audit, collected and then applied at once."""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from playhead.eventstore.recorded import Recorded
from playhead.projections.inbox_lists import Misfit
from playhead.projections.inbox_state import InboxState, Kind, Link, Message
from playhead.projections.projection import Breach

End = Literal["admitted", "refused", "lost", "cancelled", "replaced"]


class Draft:
    """The changes that one event makes, until ``settled`` gives the state with them."""

    def __init__(self, state: InboxState, event: Recorded) -> None:
        self.state = state
        self.event = event
        self.live = dict(state.live)
        self.closed: dict[str, Message] = {}
        self.links: list[Link] = []
        self.breaches: list[Breach] = []
        self.count = state.count
        self.turn = state.turn

    @property
    def turn_number(self) -> int | None:
        return None if self.turn is None else self.turn.number

    def message(self, id: str) -> Message | None:
        """The record of ``id`` as it is now."""
        return self.live.get(id) or self.closed.get(id) or self.state.closed.get(id)

    def breach(self, kind: str, message: str) -> None:
        self.breaches.append(Breach(kind, self.event.seq, message))

    def misfits(self, misfits: list[Misfit]) -> None:
        for misfit in misfits:
            self.breach(*misfit)

    def link(
        self,
        message: Message,
        kind: Kind,
        *,
        place: int | None = None,
        turn: int | None = None,
        splice_seq: int | None = None,
        step: int | None = None,
        other: str | None = None,
    ) -> None:
        self.links.append(
            Link(
                seq=self.event.seq,
                time_ms=self.event.time_ms,
                message=message.id,
                kind=kind,
                target=message.target,
                place=place,
                turn=turn,
                splice_seq=splice_seq,
                step=step,
                other=other,
                reason=message.reason if kind in ("refused", "lost") else None,
                detail=message.detail if kind in ("refused", "lost") else None,
            )
        )

    def keep(self, message: Message) -> None:
        """Hold ``message`` as live."""
        self.live[message.id] = replace(message, seq=self.event.seq)

    def end(
        self, message: Message, verdict: End, reason: str | None = None, detail: str | None = None
    ) -> Message:
        """Close ``message``; one that was delivered while it was queued has been admitted, whatever came later."""
        if message.admitted_seq is not None and verdict != "admitted":
            verdict, reason, detail = "admitted", None, None
        ended = replace(
            message,
            standing=verdict,
            reason=reason,
            detail=detail,
            ended_seq=self.event.seq,
            ended_ms=self.event.time_ms,
            seq=self.event.seq,
            boundaries=self.state.boundaries,
        )
        self.live.pop(message.id, None)
        self.closed[message.id] = ended
        return ended

    def cut_off(self) -> Draft:
        """Close the claims of a turn that has no end of its own."""
        if self.turn is not None:
            self.close_claims("interrupted", None)
        return self

    def close_claims(self, ending: str, detail: str | None) -> None:
        """Give a verdict to every message that was claimed and not delivered by a turn that ends so."""
        passed = 0 if self.turn is None else self.turn.passed(crashed=ending == "interrupted")
        for message in list(self.live.values()):
            claim = message.claim
            if message.standing != "claimed" or claim is None:
                continue
            if claim.step <= passed or ending in ("completed", "max-tokens"):
                closed = self.end(message, "lost", "left-out", ending)
            elif ending == "blocked":
                closed = self.end(message, "refused", ending, detail)
            else:
                closed = self.end(message, "lost", ending, detail)
            if closed.standing != "admitted":
                kind: Kind = "refused" if closed.standing == "refused" else "lost"
                self.link(closed, kind, turn=claim.turn, splice_seq=claim.seq)

    def settled(self, *, boundary: bool, **changes: Any) -> InboxState:
        """The state with all changes, ``changes`` of other members among them."""
        state = self.state
        return replace(
            state,
            live=self.live,
            closed=state.closed.plus(self.closed),
            count=self.count,
            boundaries=state.boundaries + boundary,
            links=state.links.plus(self.links),
            broken=state.broken.plus(self.breaches),
            **changes,
        )
