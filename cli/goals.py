"""``playhead goals``: what a session was to reach, how that changed, and the rounds it took."""

from __future__ import annotations

from typing import Annotated

import typer

from playhead.cli import fold_report, goals_screens, output, place
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.target import (
    AtOption,
    GenerationOption,
    IgnorableOption,
    RepairedOption,
    SessionArgument,
    StrictOption,
    opened,
    require_seq,
)
from playhead.projections.goal import goal


@command("goals")
def goals(
    session: SessionArgument,
    at: AtOption = None,
    repaired: RepairedOption = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ignorable: IgnorableOption = None,
    strict: StrictOption = False,
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
        require_seq(info, at)
        if strict:
            log.require_sound()
        folded = fold(log, goal, at=at, repaired=repaired, strict=strict, ignorable=ignorable or ())
    state = folded.state
    if strict:
        fold_report.require_none(info, state.breaches)
    problem = fold_report.tell(info, folded, state.breaches)
    if json:
        output.json_line(fold_report.about(info, folded) | goal.view(state))
    else:
        goals_screens.show(state)
    return FOUND_A_PROBLEM if problem else DONE
