"""How the inbox audit goes from event to event.

* ``agent/inbox/spliced`` changes the lists. A removal without outcome and insertion claims; with an insertion it
  replaces, pairing the old and the new in their order (the last of the fewer answers for the rest); else it
  cancels. An id that a splice removes and inserts was moved or edited. An id that is inserted into the other list
  before the next boundary after it was cancelled was moved as well.
* ``user/message`` delivers the message with its id; a replacement on the surface delivers nothing.
* ``turn/end`` decides about what was claimed and not delivered. Claims that a whole step has passed over were left
  out of it by whoever decided about the step; the others share the end of the turn. A turn that another
  ``turn/start`` or ``session/end-seed`` cuts off was interrupted.
* What a fork inherits is counted and otherwise passed over: a marker ``{inherited: true}`` starts the audit anew.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import inbox_lists, provenance
from playhead.projections.inbox_draft import Draft
from playhead.projections.inbox_lists import UNNAMED, Lists, Misfit, Said, Splice, Target
from playhead.projections.inbox_state import Applied, Claim, InboxState, Inherited, Kind, Message, Turn
from playhead.projections.message_text import text_of

HANDLES = frozenset(
    {
        "agent/inbox/spliced",
        "user/message",
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "session/end-seed",
    }
)


def apply(state: InboxState, event: Recorded) -> InboxState:
    """The audit after ``event``."""
    data = members.of(event)
    if event.type == "session/end-seed" and state.marked and data.get("inherited") is True:
        return _start_over(state, event)
    if state.seed_end is None or event.seq < state.seed_end:
        return _passed_over(state, event, data)
    match event.type:
        case "agent/inbox/spliced":
            return _spliced(state, event, data)
        case "user/message":
            return _delivered(state, event, data)
        case "turn/start":
            number = _number(data, "turn")
            return Draft(state, event).cut_off().settled(boundary=True, turn=Turn(number))
        case "turn/end":
            return _turn_ended(state, event, data)
        case "step/start" | "step/end":
            return _step(state, event, data)
        case _:
            if state.turn is None:
                return state
            return Draft(state, event).cut_off().settled(boundary=True, turn=None)


def _start_over(state: InboxState, event: Recorded) -> InboxState:
    """The audit behind the inherited part; what was the parent's own is inherited as well."""
    own = Inherited(len(state.splices), state.count)
    inherited = Inherited(state.inherited.splices + own.splices, state.inherited.messages + own.messages)
    return InboxState(seed_end=event.seq + 1, marked=True, inherited=inherited)


def _passed_over(state: InboxState, event: Recorded, data: dict[str, Any]) -> InboxState:
    if event.type != "agent/inbox/spliced":
        return state
    splices = state.inherited.splices + 1
    messages = state.inherited.messages + len(members.objects(data, "inserted"))
    return replace(state, inherited=Inherited(splices, messages))


def _number(data: dict[str, Any], key: str) -> int | None:
    value = data.get(key)
    return int(value) if is_safe_integer(value) else None


def _turn_ended(state: InboxState, event: Recorded, data: dict[str, Any]) -> InboxState:
    if state.turn is None and all(message.standing == "queued" for message in state.live.values()):
        return state
    draft = Draft(state, event)
    ending, detail = _ending(members.inner(data, "reason"))
    draft.close_claims(ending, detail)
    if ending == "aborted" and state.turn is not None:
        for id in state.turn.cleared:
            message = draft.message(id)
            if message is not None and (message.standing, message.reason) == ("cancelled", "cleared"):
                draft.closed[id] = replace(message, reason="stopped", detail=detail, seq=event.seq)
    return draft.settled(boundary=True, turn=None)


def _ending(reason: dict[str, Any]) -> tuple[str, str | None]:
    """How a turn ended, and by whom or with which code."""
    kind = members.text(reason, "kind") or "unknown"
    if kind == "aborted":
        cause = members.inner(reason, "reason")
        by, why = members.text(cause, "kind"), members.text(cause, "reason")
        return kind, f"{by}: {why}" if by and why else by
    if kind == "error":
        return kind, members.text(members.inner(reason, "error"), "code")
    return kind, None


def _step(state: InboxState, event: Recorded, data: dict[str, Any]) -> InboxState:
    turn = state.turn
    if turn is None:
        return state
    number = _number(data, "step")
    if event.type == "step/start":
        turn = replace(turn, started=turn.started + 1 if number is None else number)
    else:
        turn = replace(turn, ended=turn.started)
    return state if turn == state.turn else replace(state, turn=turn)


def _delivered(state: InboxState, event: Recorded, data: dict[str, Any]) -> InboxState:
    id = members.text(data, "id")
    message = state.message(id) if id else None
    if message is None:
        label = provenance.classify(data.get("source"), "user").label
        return replace(state, outside={**state.outside, label: state.outside.get(label, 0) + 1})
    if isinstance(event.surface_op, Replace):
        return state
    draft = Draft(state, event)
    claim = message.claim
    splice_seq = None if claim is None else claim.seq
    if message.admitted_seq is not None:
        first = message.admitted_seq
        draft.breach("delivered-twice", f"message {id!r} enters the conversation again, after seq {first}")
    elif message.standing == "queued":
        draft.breach("delivered-unclaimed", f"message {id!r} enters the conversation while it is pending")
        draft.keep(replace(message, admitted_seq=event.seq))
    else:
        if message.standing != "claimed":
            draft.breach(
                "delivered-late",
                f"message {id!r} enters the conversation, though it was {message.standing} at seq {message.ended_seq}",
            )
        message = draft.end(replace(message, admitted_seq=event.seq), "admitted")
    draft.link(message, "admitted", turn=draft.turn_number, splice_seq=splice_seq)
    return draft.settled(boundary=False)


def _spliced(state: InboxState, event: Recorded, data: dict[str, Any]) -> InboxState:
    said = inbox_lists.read(data)
    draft = Draft(state, event)
    if isinstance(said, Misfit):
        draft.misfits([said])
        return draft.settled(boundary=False)
    draft.misfits(said.misfits)
    splice, misfits = inbox_lists.fitted(state.lists, said.splice)
    draft.misfits(misfits)
    lists, removed = state.lists.spliced(splice)
    applied = {"lists": lists, "splices": state.splices.plus([Applied(event.seq, event.time_ms, splice)])}
    if said.is_claim:
        _claimed(draft, splice, removed)
        return draft.settled(boundary=True, **applied)
    _changed(draft, said, splice, removed)
    clearing, turn = _cleared(draft, said, splice, lists, removed)
    return draft.settled(boundary=False, turn=turn, clearing=clearing, clearing_seq=event.seq, **applied)


def _claimed(draft: Draft, splice: Splice, removed: tuple[str, ...]) -> None:
    turn, event = draft.turn, draft.event
    if turn is None:
        draft.breach("claim-outside-turn", f"{splice.target} is claimed where no turn is open")
    elif turn.started != turn.ended:
        draft.breach("claim-inside-step", f"{splice.target} is claimed while step {turn.started} runs")
    step = 1 if turn is None else turn.started + 1
    for place, id in enumerate(removed, splice.start):
        if id == UNNAMED:
            continue
        claim = Claim(event.seq, event.time_ms, draft.turn_number, step, place)
        message = replace(draft.live[id], standing="claimed", claim=claim)
        draft.keep(message)
        draft.link(message, "claimed", place=place, turn=claim.turn, splice_seq=event.seq, step=step)


def _changed(draft: Draft, said: Said, splice: Splice, removed: tuple[str, ...]) -> None:
    """Cancel, replace, insert, move and edit, as an ordinary splice does."""
    came, gone = set(splice.inserted) - {UNNAMED}, set(removed) - {UNNAMED}
    stays = came & gone
    went = [id for id in removed if id in gone and id not in stays]
    new = [id for id in splice.inserted if id in came and id not in stays]
    replaced_by: dict[str, str] = {}
    replaces: dict[str, tuple[str, ...]] = {}
    for old, by in _pairs(went, new):
        replaced_by.setdefault(old, by)
        replaces[by] = (*replaces.get(by, ()), old)
    stood = {id: place for place, id in enumerate(removed, splice.start)}
    for id in went:
        other = replaced_by.get(id)
        verdict: Literal["cancelled", "replaced"] = "cancelled" if other is None else "replaced"
        reason = _reason(said) if other is None else None
        ended = draft.end(replace(draft.live[id], replaced_by=other), verdict, reason)
        draft.link(
            ended,
            verdict,
            place=stood[id],
            turn=draft.turn_number,
            splice_seq=draft.event.seq,
            other=other,
        )
    for place, id in enumerate(splice.inserted, splice.start):
        if id in stays:
            _stayed(draft, id, said.messages[id], place, stood[id])
        elif id in came:
            _inserted(draft, id, said.messages[id], splice.target, place, replaces.get(id, ()))


def _pairs(went: list[str], new: list[str]) -> list[tuple[str, str]]:
    """Who gave way to whom, in order; the last of the fewer answers for the rest."""
    if not went or not new:
        return []
    last_old, last_new = len(went) - 1, len(new) - 1
    size = max(len(went), len(new))
    return [(went[min(at, last_old)], new[min(at, last_new)]) for at in range(size)]


def _reason(said: Said) -> str:
    return "removed" if said.outcome in (None, "canceled") else said.outcome


def _stayed(draft: Draft, id: str, message: dict[str, Any], place: int, stood: int) -> None:
    """A message that the same splice removes and inserts: at another place, or with another content."""
    before = draft.live[id]
    source = provenance.classify(message.get("source"), "user")
    after = replace(
        before, place=place, text=text_of(message)[0], source=source.label, source_kind=source.kind
    )
    if replace(after, place=before.place) != before:
        draft.link(after, "edited", place=place, turn=draft.turn_number, splice_seq=draft.event.seq)
    if place != stood:
        draft.link(after, "moved", place=place, turn=draft.turn_number, splice_seq=draft.event.seq)
    draft.keep(after)


def _inserted(
    draft: Draft, id: str, message: dict[str, Any], target: Target, place: int, replaces: tuple[str, ...]
) -> None:
    """A message that comes into a list: a new one, one from the other list, or one for another stay."""
    before, event = draft.message(id), draft.event
    source = provenance.classify(message.get("source"), "user")
    fresh = Message(
        id=id,
        number=draft.count if before is None else before.number,
        source=source.label,
        source_kind=source.kind,
        text=text_of(message)[0],
        target=target,
        place=place,
        inserted_seq=event.seq,
        inserted_ms=event.time_ms,
        seq=event.seq,
        stays=1 if before is None else before.stays + 1,
        replaces=replaces,
    )
    kind: Kind = "inserted"
    if before is None:
        draft.count += 1
    elif (
        before.standing == "cancelled"
        and before.boundaries == draft.state.boundaries
        and before.target != target
    ):
        kind = "moved"
        fresh = replace(
            fresh, inserted_seq=before.inserted_seq, inserted_ms=before.inserted_ms, stays=before.stays
        )
    draft.keep(fresh)
    other = replaces[0] if replaces else None
    draft.link(fresh, kind, place=place, turn=draft.turn_number, splice_seq=event.seq, other=other)


def _cleared(
    draft: Draft, said: Said, splice: Splice, lists: Lists, removed: tuple[str, ...]
) -> tuple[tuple[str, ...], Turn | None]:
    """The messages of a list that was emptied just now, and the turn, which knows what was cleared in it.

    Both lists are cleared by one splice each, one right behind the other. So a list that is emptied alone is
    remembered until the next event; when nothing is left, all of it was cleared.
    """
    state, turn = draft.state, draft.turn
    if not removed or splice.inserted or lists.of(splice.target) or said.outcome != "canceled":
        return (), turn
    before = state.clearing if state.clearing_seq == draft.event.seq - 1 else ()
    ids = (*before, *(id for id in removed if id != UNNAMED))
    if not lists.empty:
        return ids, turn
    for id in ids:
        message = draft.message(id)
        if message is not None and (message.standing, message.reason) == ("cancelled", "removed"):
            draft.closed[id] = replace(message, reason="cleared", seq=draft.event.seq)
    return (), turn if turn is None else replace(turn, cleared=turn.cleared.plus(ids))
