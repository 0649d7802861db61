"""The inbox audit in words: one clause for why, one sentence for each link of a message's chain."""

from __future__ import annotations

from collections.abc import Iterator

from playhead.cli import units
from playhead.projections.inbox import InboxState, Link, Message, Standing, reason, standings, tally, verdict

STYLES = {
    "lost": "bold red",
    "refused": "bold yellow",
    "cancelled": "yellow",
    "replaced": "cyan",
    "open": "bold cyan",
    "pending": "cyan",
    "admitted": "green",
}
"""Verdict -> how it is painted."""

_LISTS = {"next-turn": "the next turn", "next-step": "the next step"}
_CLOSINGS = {
    "admitted": "It entered the conversation.",
    "refused": "It is in no list and not in the conversation: the step it was for was rejected.",
    "lost": "It is in no list and not in the conversation, and nothing will send it by itself.",
    "cancelled": "It was taken out of the queue before anybody claimed it.",
    "replaced": "Another message took its place.",
    "pending": "It still waits in its list.",
    "open": "Its turn has no end here, so it may still come; --repaired shows what a restart makes of it.",
}


def summary(state: InboxState) -> str:
    """``12 messages: 9 admitted, 1 cancelled, 1 lost, 1 pending``."""
    found = tally(state)
    told = ", ".join(f"{number:,} {each}" for each, number in sorted(found.items()))
    return f"{units.count(sum(found.values()), 'message')}: {told}" if found else "no message was ever queued"


def beside(state: InboxState) -> list[str]:
    """What else there is to say about the session: messages that passed no inbox, splices of the parent."""
    told = []
    if state.outside:
        number = sum(state.outside.values())
        kinds = ", ".join(f"{count:,} {label}" for label, count in sorted(state.outside.items()))
        more = units.count(number, "more message")
        told.append(f"{more} entered the conversation without passing the inbox: {kinds}")
    if state.inherited.splices:
        splices, messages = state.inherited.splices, state.inherited.messages
        told.append(
            f"{units.count(splices, 'splice')} with {units.count(messages, 'message')} stand in the part taken "
            "over from the parent; a fork does not inherit the queue"
        )
    return told


def why(state: InboxState, message: Message) -> str:
    """By what the message was lost, refused, cancelled or replaced, with the seq; "" where it goes without saying."""
    claim, because = message.claim, _because(state, message)
    match verdict(state, message):
        case "lost" | "refused" if claim is not None:
            return f"claimed at seq {claim.seq} and never delivered: {because}"
        case "open" if claim is not None:
            return f"claimed at seq {claim.seq}; {because}"
        case "cancelled" | "replaced":
            return f"{because} at seq {message.ended_seq}"
    return ""


def _because(state: InboxState, message: Message) -> str:
    found, detail = reason(state, message), message.detail
    turn = "the turn" if message.claim is None or message.claim.turn is None else f"turn {message.claim.turn}"
    match verdict(state, message):
        case "open":
            return f"{turn} has no end in this log"
        case "replaced":
            return f"replaced by {message.replaced_by}"
        case "cancelled":
            return _cancelled(message, found, detail)
    return _undelivered(turn, found, detail)


def _cancelled(message: Message, found: str | None, detail: str | None) -> str:
    match found:
        case "removed":
            return f"taken out of {message.target}"
        case "cleared":
            return "cleared with all that was queued"
        case "stopped":
            return f"cleared when the turn was stopped{_by(detail)}"
    return f"taken out of {message.target} with the outcome {found}"


def _undelivered(turn: str, found: str | None, detail: str | None) -> str:
    """How a turn left a claimed message undelivered."""
    match found:
        case "blocked":
            return f"a pre-step decision rejected the step, and {turn} ended blocked"
        case "aborted":
            return f"{turn} was stopped{_by(detail)}"
        case "error":
            return f"{turn} failed{_in_brackets(detail)}"
        case "interrupted":
            return f"{turn} was cut off by a crash"
        case "left-out":
            return f"{turn} went on without it"
        case "outside-turn":
            return "no turn was open"
    return f"{turn} ended as {found}{_in_brackets(detail)}"


def _by(cause: str | None) -> str:
    known = {"user": "the user", "parent": "the parent session", "disposed": "the end of the agent"}
    return "" if cause in (None, "legacy") else f" by {known.get(cause, cause)}"


def _in_brackets(detail: str | None) -> str:
    return "" if detail is None else f" ({detail})"


def closing(state: InboxState, message: Message) -> str:
    """What the verdict means for the message, in one sentence."""
    if verdict(state, message) == "pending" and message.admitted_seq is not None:
        return f"It entered the conversation at seq {message.admitted_seq}, and still waits in its list."
    return _CLOSINGS[verdict(state, message)]


def origin(message: Message) -> str:
    """Who sent the message and what for."""
    again = "" if message.stays == 1 else f"; queued {message.stays} times, this is the last"
    return f"{message.source}, for {_LISTS[message.target]}{again}"


def story(state: InboxState, message: Message) -> Iterator[tuple[int, int, str]]:
    """What happened to the message, as (seq, epoch ms, words), each change of its place among it."""
    links = [link for link in state.links if link.message == message.id]
    stood = {standing.seq: standing for standing in standings(state, message.id)}
    told = {link.seq for link in links if link.kind in ("inserted", "moved", "edited")}
    steps = [(link.seq, link.time_ms, link_words(link, stood.get(link.seq))) for link in links]
    steps += [
        (seq, standing.time_ms, f"now {_place(standing)}")
        for seq, standing in stood.items()
        if seq not in told
    ]
    waited = message.waited_ms
    for seq, time_ms, words in sorted(steps, key=lambda step: step[0]):
        claimed_here = message.claim is not None and message.claim.seq == seq
        after = f", after {units.duration(waited)}" if claimed_here and waited is not None else ""
        yield seq, time_ms, words + after


def link_words(link: Link, standing: Standing | None = None) -> str:
    """One link in words; ``standing`` is where the message stood after it."""
    where = link.target if standing is None else _place(standing)
    match link.kind:
        case "inserted":
            return f"queued, {where}" + ("" if link.other is None else f", in the place of {link.other}")
        case "edited":
            return f"edited: the same id with another content, {where}"
        case "moved":
            return f"moved, {where}"
        case "replaced":
            return f"replaced by {link.other}"
        case "cancelled":
            return f"taken out of {link.target} without a claim"
        case "claimed":
            return f"claimed from {link.target} {boundary(link.turn, link.step)}"
        case "admitted":
            return "entered the conversation" + ("" if link.turn is None else f" in turn {link.turn}")
    turn = "the turn" if link.turn is None else f"turn {link.turn}"
    return _undelivered(turn, link.reason, link.detail)


def boundary(turn: int | None, step: int | None) -> str:
    """Where a claim was made: at the start of a turn, or before which of its later steps."""
    if turn is None:
        return "while no turn was open"
    return f"at the start of turn {turn}" if step in (None, 1) else f"before step {step} of turn {turn}"


def _place(standing: Standing) -> str:
    if standing.place == 0:
        return f"first in {standing.target}"
    return f"at place {standing.place + 1} of {standing.of} in {standing.target}, {standing.place} in front"
