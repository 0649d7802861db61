"""``playhead goals``: what a session was to reach, how that changed, and the rounds it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import damage, goals_screens, output, place
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.cli.target import GenerationOption, SessionArgument, opened
from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.findings import damage as damaged
from playhead.projections.goal import GoalHistory, goal

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.projections.folding import Folded


@command("goals")
def goals(
    session: SessionArgument,
    at: Annotated[int | None, typer.Option(min=0, metavar="SEQ", help="As it was after this event.")] = None,
    repaired: Annotated[
        bool, typer.Option("--repaired", help="Close what a crash left open, as a restart does.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ignorable: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Events of this unknown type change nothing; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Show nothing of a log that is damaged or breaks a rule.")
    ] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Show the goals of a session: objective, phase, every revision, and every round with its time and ending.

    Rounds are messages of the goal that entered the conversation; what waits in the inbox is none. Exits 1 when an
    event breaks a rule of goals, or when the log is damaged.
    """
    from playhead.projections.folding import fold

    with opened(session, generation, store) as (_, log):
        info = log.info
        if at is not None and at >= info.next_seq:
            raise UsageError(f"--at {at}: the session has {info.next_seq:,} seqs, from 0")
        if strict:
            log.require_sound()
        folded = fold(log, goal, at=at, repaired=repaired, strict=strict, ignorable=ignorable or ())
    state = folded.state
    if strict and state.breaches:
        breach = state.breaches[0]
        raise CorruptLog(info.id, f"seq {breach.seq}: {breach.message}", seq=breach.seq, kind=breach.kind)
    problem = _tell(info, folded)
    if json:
        output.json_line(_about(info, folded) | goal.view(state))
    else:
        goals_screens.show(state)
    return FOUND_A_PROBLEM if problem else DONE


def _tell(info: SessionInfo, folded: Folded[GoalHistory]) -> bool:
    """Say on stderr what is wrong; whether anything is."""
    subject = safe(info.id)
    problem = damage.tell(info.id, info.findings)
    for type, seq in folded.unknown:
        where = safe(f"unknown event type {type}, first at seq {seq}")
        output.note(f"{subject}: interpretation incomplete: {where}")
    breaches = folded.state.breaches
    for breach in breaches[: damage.SHOWN]:
        output.note(f"{subject}: seq {breach.seq}: {safe(breach.message)} ({breach.kind})")
    if len(breaches) > damage.SHOWN:
        output.note(f"{subject}: {len(breaches) - damage.SHOWN:,} more of the kind; --json lists all")
    return problem or not folded.complete or bool(breaches)


def _about(info: SessionInfo, folded: Folded[GoalHistory]) -> dict[str, Any]:
    return {
        "session": info.id,
        "generation": info.generation,
        "damaged": [damage.as_json(finding) for finding in damaged(info.findings)],
        "unknown": [{"type": type, "seq": seq} for type, seq in folded.unknown],
    }
