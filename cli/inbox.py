"""``playhead inbox``: what became of every message that was ever queued."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import fold_report, inbox_screens, output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.cli.target import (
    GenerationOption,
    IgnorableOption,
    RepairedOption,
    SessionArgument,
    StrictOption,
    opened,
    require_seq,
)
from playhead.eventstore.errors import UsageError
from playhead.eventstore.log import SessionInfo
from playhead.projections import inbox as audit
from playhead.projections.inbox import InboxState, Message, link_json, message_json, standings, tally

if TYPE_CHECKING:
    from playhead.projections.folding import Folded


class Wanted(StrEnum):
    """The verdicts to ask for."""

    lost = "lost"
    refused = "refused"
    cancelled = "cancelled"
    replaced = "replaced"
    open = "open"
    pending = "pending"
    admitted = "admitted"


@command("inbox")
def inbox(
    session: SessionArgument,
    message: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The whole story of one message; the beginning of its id is enough."),
    ] = None,
    verdict: Annotated[
        list[Wanted] | None, typer.Option(help="Only messages with this verdict; repeatable.")
    ] = None,
    lost: Annotated[bool, typer.Option("--lost", help="The same as --verdict lost.")] = False,
    events: Annotated[
        bool, typer.Option("--events", help="Everything that happened, message by message, in order.")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEQ", help="As it was after this event: both lists, if nothing else is asked."
        ),
    ] = None,
    repaired: RepairedOption = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ignorable: IgnorableOption = None,
    strict: StrictOption = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Tell what became of every message that was queued: admitted, lost, refused, cancelled, replaced or pending.

    Exits 1 when a message was lost or refused, when a splice makes no sense, or when the log is damaged.
    """
    from playhead.projections.folding import fold

    wanted = {*(verdict or ()), *((Wanted.lost,) if lost else ())}
    if message is not None and (wanted or events):
        raise UsageError("--message tells about one message: leave out --verdict, --lost and --events")
    if events and (json or wanted):
        raise UsageError(
            "--events shows everything: leave out --json, which has it too, --verdict and --lost"
        )
    with opened(session, generation, store) as (_, log):
        info = log.info
        require_seq(info, at)
        if strict:
            log.require_sound()
        folded = fold(log, audit.inbox, at=at, repaired=repaired, strict=strict, ignorable=ignorable or ())
    state = folded.state
    if strict:
        fold_report.require_none(info, state.breaches)
    found = _chosen(state, message, wanted)
    problem = _tell(info, folded)
    if json:
        output.json_line(_as_json(info, folded, found, message is not None))
    elif message is not None:
        inbox_screens.story(state, found[0])
    elif events:
        inbox_screens.events(state)
    elif at is not None and not wanted:
        inbox_screens.lists(state)
    else:
        inbox_screens.messages(state, found)
    return FOUND_A_PROBLEM if problem else DONE


def _chosen(state: InboxState, id: str | None, wanted: Iterable[str]) -> list[Message]:
    """The messages that were asked for. Raises ``UsageError`` when ``id`` does not mean exactly one."""
    every = state.messages()
    if id is None:
        return [message for message in every if not wanted or audit.verdict(state, message) in wanted]
    exact = state.message(id)
    found = [exact] if exact is not None else [message for message in every if message.id.startswith(id)]
    if len(found) == 1:
        return found
    if not found:
        raise UsageError(f"no message {id!r} was ever queued; without --message all are listed")
    shown = ", ".join(message.id for message in found[:5]) + (", ..." if len(found) > 5 else "")
    raise UsageError(f"{id!r} fits {len(found)} messages: {shown}; give more of the id")


def _tell(info: SessionInfo, folded: Folded[InboxState]) -> bool:
    """Say on stderr what is wrong; whether anything is."""
    problem = fold_report.tell(info, folded, folded.state.breaches)
    found = tally(folded.state)
    undelivered = [f"{units.count(found[each], 'message')} {each}" for each in _BAD if each in found]
    if undelivered:
        output.note(f"{safe(info.id)}: {' and '.join(undelivered)}: claimed and never delivered")
    return problem or bool(undelivered)


_BAD = ("lost", "refused")


def _as_json(
    info: SessionInfo, folded: Folded[InboxState], found: list[Message], one: bool
) -> dict[str, Any]:
    """The audit as one object; of one message its record with its chain and its places."""
    state, about = folded.state, fold_report.about(info, folded)
    if not one:
        view: dict[str, Any] = audit.inbox.view(state)
        return about | view | {"messages": [message_json(state, each) for each in found]}
    (message,) = found
    places = [
        {"seq": each.seq, "timeMs": each.time_ms, "target": each.target, "place": each.place, "of": each.of}
        for each in standings(state, message.id)
    ]
    chain = [link_json(link) for link in state.links if link.message == message.id]
    return about | {"message": message_json(state, message), "chain": chain, "places": places}
