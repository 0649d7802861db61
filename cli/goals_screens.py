"""The goals of a session on the screen: what each is, then its revisions and rounds in the order of the log.

Anywhere but on a terminal each revision and each round is one line, its cells separated by tabs: goal id, what it is
(the operation, or ``round``), its number, seq, time, phase or ending, rounds so far, and the objective or message id.
"""

from __future__ import annotations

from shutil import get_terminal_size

from playhead.cli import output, units
from playhead.cli.colour import paint
from playhead.cli.paragraphs import wrap
from playhead.cli.safe_text import safe
from playhead.projections.goal import GoalHistory, GoalRecord, Revision, Round, records

_STYLES = {
    "active": "bold cyan",
    "paused": "yellow",
    "blocked": "bold yellow",
    "complete": "green",
    "cleared": "dim",
    "completed": "green",
    "error": "bold red",
    "aborted": "yellow",
    "interrupted": "bold yellow",
    "max-tokens": "yellow",
    "running": "bold cyan",
}
"""How phases of goals and endings of turns are painted."""


def show(state: GoalHistory) -> None:
    """Every goal of the log."""
    found = records(state)
    if not found:
        output.note("the session never had a goal")
    for at, record in enumerate(found):
        if output.on_terminal():
            if at:
                output.line("")
            _goal(record)
        else:
            _lines(record)


def _steps(record: GoalRecord) -> list[Revision | Round]:
    """Revisions and rounds in the order of the log."""
    return sorted([*record.revisions, *record.rounds], key=lambda step: step.seq)


def _lines(record: GoalRecord) -> None:
    for step in _steps(record):
        when = units.when(step.at_ms, precise=True)
        if isinstance(step, Round):
            what = ("round", str(step.round), str(step.seq), when, _ending(step), str(step.round))
            cells = (step.goal_id, *what, step.message_id or "-")
        else:
            what = (step.operation, str(step.revision), str(step.seq), when, step.phase, str(step.rounds))
            cells = (step.goal_id, *what, step.objective)
        output.line("\t".join(map(safe, cells)))


def _goal(record: GoalRecord) -> None:
    latest = record.latest
    columns = get_terminal_size().columns
    for line in wrap(safe(latest.objective), columns):
        output.line(paint(line, "bold"))
    rounds = f"{record.rounds_started:,} of {units.count(latest.max_rounds, 'round')}"
    told, id = f", revision {latest.revision:,}, {rounds}", safe(latest.goal_id)
    fits = len(latest.phase) + len(told) + 2 + len(id) <= columns
    phase = paint(latest.phase, _STYLES.get(latest.phase, ""))
    output.line(phase + told + (f"  {paint(id, 'dim')}" if fits else ""))
    if not fits:
        for line in wrap(id, columns - 2):
            output.line(f"  {paint(line, 'dim')}")
    if latest.blocked is not None:
        told = safe(f"{latest.blocked.message} ({latest.blocked.code})")
        for line in wrap(told, columns - 2):
            output.line(f"  {line}")
    output.line("")
    steps = _steps(record)
    width = max(3, *(len(str(step.seq)) for step in steps))
    time = len(units.when(steps[0].at_ms))
    output.line(paint(f"{'SEQ':>{width}}  {'TIME':<{time}}  WHAT HAPPENED", "bold"))
    before: Revision | None = None
    for step in steps:
        head = f"{step.seq:>{width}}  {units.when(step.at_ms)}  "
        what, style, more = _round(step) if isinstance(step, Round) else _revision(step, before)
        lead = " " * len(head)
        first, *rest = wrap(more, max(columns - len(head) - 24, 16))
        output.line(f"{paint(head, 'dim')}{paint(f'{what:<22}', style)}  {first}".rstrip())
        for line in rest:
            output.line(f"{lead}{' ' * 24}{line}")
        before = before if isinstance(step, Round) else step


def _revision(step: Revision, before: Revision | None) -> tuple[str, str, str]:
    """What a change did, how it is painted, and what else it says."""
    told = []
    if before is not None and before.objective != step.objective:
        told.append(f"now: {step.objective}")
    if before is not None and before.max_rounds != step.max_rounds:
        told.append(f"at most {units.count(step.max_rounds, 'round')}")
    if step.blocked is not None and (before is None or before.blocked != step.blocked):
        told.append(step.blocked.message)
    return (
        f"{step.operation} (revision {step.revision:,})",
        _STYLES.get(step.phase, ""),
        safe("; ".join(told)),
    )


def _round(step: Round) -> tuple[str, str, str]:
    ending = _ending(step)
    turn = "" if step.turn is None else f"turn {step.turn:,}, "
    took = ""
    if step.ended_ms is not None and step.ended_ms >= step.at_ms:
        took = f" after {units.duration(step.ended_ms - step.at_ms)}"
    return f"  round {step.round:,}", _STYLES.get(ending, ""), safe(f"{turn}{ending}{took}")


def _ending(step: Round) -> str:
    """How the turn of the round ended; ``running`` where the log has no end of it."""
    return step.ending or ("ended" if step.ended_ms is not None else "running")
