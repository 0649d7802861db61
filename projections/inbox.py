"""The inbox audit: what became of every message that was ever queued, and why.

For each message id: when, where and by whom it was queued, how its place changed, by what it was replaced, when it
was claimed, and one verdict. The state also gives both lists after any seq. What the records say is in
``inbox_state``, how they come about in ``inbox_fold``, and what a splice does in ``inbox_lists``.

``apply`` reads plain JSON: it must take any data, and typed events would cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playhead.projections.inbox_fold import HANDLES, apply
from playhead.projections.inbox_lists import Lists
from playhead.projections.inbox_state import (
    VERDICTS,
    Applied,
    Claim,
    InboxState,
    Link,
    Message,
    Standing,
    Verdict,
    initial,
    lists_at,
    moments,
    reason,
    standings,
    tally,
    verdict,
)
from playhead.projections.projection import Column, Projection, ReadTable, Row

__all__ = [
    "VERDICTS",
    "Applied",
    "Claim",
    "InboxState",
    "Link",
    "Lists",
    "Message",
    "Standing",
    "Verdict",
    "inbox",
    "link_json",
    "lists_at",
    "message_json",
    "moments",
    "reason",
    "standings",
    "tally",
    "verdict",
]

_VERDICTS = "admitted, refused, lost, cancelled, replaced, pending or open"

MESSAGES = ReadTable(
    "read_inbox_message",
    "One row for each message id that was ever queued: what became of it. Times of its last stay.",
    (
        Column("message_id", "text", "the id of the message"),
        Column("verdict", "text", _VERDICTS),
        Column("reason", "text", "by what it was lost, refused or cancelled", optional=True),
        Column("detail", "text", "who or which error code stands behind the reason", optional=True),
        Column("source_kind", "text", "kind of the source, the same for all log formats; prompt: a person"),
        Column("source", "text", "the source in words"),
        Column("text", "text", "its text blocks"),
        Column("target", "text", "next-turn or next-step: the list it was in last"),
        Column("stays", "int", "how many times it was queued"),
        Column("inserted_seq", "int", "seq of the splice that queued it"),
        Column("inserted_ms", "int", "time of that splice"),
        Column("place", "int", "how many messages were in front when it came into the list"),
        Column("claimed_seq", "int", "seq of the splice that claimed it", optional=True),
        Column("claimed_ms", "int", "time of that splice", optional=True),
        Column("claimed_turn", "int", "turn that claimed it", optional=True),
        Column("claimed_step", "int", "step it was claimed for; 1: at the start of the turn", optional=True),
        Column("waited_ms", "int", "from insertion to claim; null when the clock ran back", optional=True),
        Column("admitted_seq", "int", "seq of the user/message with this id", optional=True),
        Column("ended_seq", "int", "seq of the event that decided the verdict", optional=True),
        Column("ended_ms", "int", "time of that event", optional=True),
        Column("replaced_by", "text", "the message that took its place", optional=True),
    ),
    ("message_id",),
)

EVENTS = ReadTable(
    "read_inbox_event",
    "One row for each thing that happened to a message on its way through the inbox, in order.",
    (
        Column("number", "int", "counts the rows of the session from 0"),
        Column("time_ms", "int", "when it happened"),
        Column("message_id", "text", "the message", references=("read_inbox_message", "message_id")),
        Column(
            "kind",
            "text",
            "inserted, edited, moved, replaced, cancelled, claimed, admitted, refused or lost",
        ),
        Column("target", "text", "the list it came into or stood in"),
        Column("place", "int", "its place there, 0 for first in line", optional=True),
        Column("turn", "int", "the turn that was open", optional=True),
        Column("splice_seq", "int", "the splice that did it, or that had claimed the message", optional=True),
        Column("step", "int", "the step that a claim was for; 1: at the start of the turn", optional=True),
        Column("other_id", "text", "the message that replaces it, or that it replaces", optional=True),
        Column("reason", "text", "why it was refused or lost", optional=True),
        Column("detail", "text", "who or which error code stands behind the reason", optional=True),
    ),
    ("number",),
)


def _rows(state: InboxState) -> Iterator[Row]:
    for message in state.messages():
        yield Row(MESSAGES.name, message.seq, _message_values(state, message))
    for number, link in enumerate(state.links):
        values = (
            number,
            link.time_ms,
            link.message,
            link.kind,
            link.target,
            link.place,
            link.turn,
            link.splice_seq,
            link.step,
            link.other,
            link.reason,
            link.detail,
        )
        yield Row(EVENTS.name, link.seq, values)


def _message_values(state: InboxState, message: Message) -> tuple[Any, ...]:
    claim = message.claim
    return (
        message.id,
        verdict(state, message),
        reason(state, message),
        message.detail,
        message.source_kind,
        message.source,
        message.text,
        message.target,
        message.stays,
        message.inserted_seq,
        message.inserted_ms,
        message.place,
        *((None,) * 4 if claim is None else (claim.seq, claim.time_ms, claim.turn, claim.step)),
        message.waited_ms,
        message.admitted_seq,
        message.ended_seq,
        message.ended_ms,
        message.replaced_by,
    )


def message_json(state: InboxState, message: Message) -> dict[str, Any]:
    """The record of a message and its verdict as a JSON object; what does not apply is left out."""
    claim = message.claim
    found = {
        "id": message.id,
        "verdict": verdict(state, message),
        "reason": reason(state, message),
        "detail": message.detail,
        "source": message.source,
        "sourceKind": message.source_kind,
        "text": message.text,
        "target": message.target,
        "stays": message.stays,
        "insertedSeq": message.inserted_seq,
        "insertedMs": message.inserted_ms,
        "place": message.place,
        "claimedSeq": claim and claim.seq,
        "claimedMs": claim and claim.time_ms,
        "claimedTurn": claim and claim.turn,
        "claimedStep": claim and claim.step,
        "waitedMs": message.waited_ms,
        "admittedSeq": message.admitted_seq,
        "endedSeq": message.ended_seq,
        "endedMs": message.ended_ms,
        "replacedBy": message.replaced_by,
        "replaces": list(message.replaces) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def link_json(link: Link) -> dict[str, Any]:
    """A link as a JSON object; what does not apply is left out."""
    found = {
        "seq": link.seq,
        "timeMs": link.time_ms,
        "message": link.message,
        "kind": link.kind,
        "target": link.target,
        "place": link.place,
        "turn": link.turn,
        "spliceSeq": link.splice_seq,
        "step": link.step,
        "other": link.other,
        "reason": link.reason,
        "detail": link.detail,
    }
    return {name: value for name, value in found.items() if value is not None}


def _view(state: InboxState) -> dict[str, Any]:
    return {
        "lists": {"next-turn": list(state.lists.next_turn), "next-step": list(state.lists.next_step)},
        "verdicts": dict(tally(state)),
        "messages": [message_json(state, message) for message in state.messages()],
        "events": [link_json(link) for link in state.links],
        "outside": dict(state.outside),
        "inherited": {"splices": state.inherited.splices, "messages": state.inherited.messages},
        "breaches": [
            {"kind": breach.kind, "seq": breach.seq, "message": breach.message} for breach in state.breaches
        ],
    }


inbox = Projection(
    name="inbox",
    version=1,
    state=InboxState,
    handles=HANDLES,
    initial=initial,
    apply=apply,
    view=_view,
    tables=(MESSAGES, EVENTS),
    rows=_rows,
)
