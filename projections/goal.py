"""Goals: what a session works on, every revision of it, and the rounds that were admitted.

A round is a ``user/message`` whose source is the goal. What waits in the inbox is no round yet, and what was
discarded or refused there never was one. The rules are those of ``eventstore/invariants/goal_rules.py``; an event
that breaks one is a breach. A change that breaks a rule still counts as what the log says from there on; a round
that breaks one does not count; a change that is not whole and valid changes nothing.

``phase`` is that of the goal, or ``cleared``. How a round ended is how its turn ended. A goal that is active here
does not run: whether a process works on it is in no log. A fork starts with the goal of its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.invariants.goal_rules import (
    Blocked,
    Clear,
    GoalValue,
    Standing,
    after_change,
    after_round,
    change_of,
)
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import whole
from playhead.projections.projection import Breach, Column, Projection, ReadTable, Row

CLEARED = "cleared"


class Revision(msgspec.Struct, frozen=True, rename="camel"):
    """A goal after one change, at ``at_ms`` by the log and at ``updated_ms`` by the change itself.

    ``goal_number`` counts the goals of the log from 1; ``rounds`` are those of the goal so far.
    """

    goal_number: int
    goal_id: str
    seq: int
    at_ms: int
    operation: str
    revision: int
    phase: str
    objective: str
    max_rounds: int
    rounds: int
    created_ms: int | None
    updated_ms: int | None
    blocked: Blocked | None = None


class Round(msgspec.Struct, frozen=True, rename="camel"):
    """A round that was admitted. ``ending`` is the kind of the reason with which its turn ended, once it did."""

    goal_number: int
    goal_id: str
    round: int
    revision: int
    seq: int
    at_ms: int
    message_id: str | None = None
    turn: int | None = None
    ending: str | None = None
    ended_ms: int | None = None


class GoalHistory(msgspec.Struct, frozen=True, rename="camel"):
    """``standing`` is how goals stand, ``revisions`` and ``rounds`` are in the order of the log.

    ``running`` are the rounds of the turn that is open.
    """

    standing: Standing = Standing()
    goals: int = 0
    revisions: tuple[Revision, ...] = ()
    rounds: tuple[Round, ...] = ()
    running: tuple[Round, ...] = ()
    breaches: tuple[Breach, ...] = ()
    in_turn: bool = False
    turn: int | None = None


def _begin(_header: SessionHeader) -> GoalHistory:
    return GoalHistory()


def _apply(state: GoalHistory, event: Recorded) -> GoalHistory:
    match event.type:
        case "user/message":
            if b'"goal"' not in event.raw and b"\\u" not in event.raw:
                return state
            data = members.of(event)
            source = members.inner(data, "source")
            return _round(state, event, data, source) if source.get("kind") == "goal" else state
        case "goal/change":
            return _change(state, event, members.of(event))
        case "turn/start":
            state = _settle(state, None, None)
            turn = whole(members.of(event), "turn")
            same = state.in_turn and state.turn == turn
            return state if same else replace(state, in_turn=True, turn=turn)
    ending = members.text(members.inner(members.of(event), "reason"), "kind")
    state = _settle(state, ending, event.time_ms)
    return replace(state, in_turn=False, turn=None) if state.in_turn else state


def _round(state: GoalHistory, event: Recorded, data: dict[str, Any], source: dict[str, Any]) -> GoalHistory:
    standing, fault = after_round(state.standing, source)
    goal = standing.goal
    if fault is not None or goal is None:
        kind, message = fault or ("goal-round", "there is no goal")
        return replace(state, breaches=(*state.breaches, Breach(kind, event.seq, message)))
    admitted = Round(
        goal_number=state.goals,
        goal_id=goal.id,
        round=standing.rounds,
        revision=goal.revision,
        seq=event.seq,
        at_ms=event.time_ms,
        message_id=members.text(data, "id"),
        turn=state.turn,
    )
    if state.in_turn:
        return replace(state, standing=standing, running=(*state.running, admitted))
    return replace(state, standing=standing, rounds=(*state.rounds, admitted))


def _change(state: GoalHistory, event: Recorded, data: dict[str, Any]) -> GoalHistory:
    change = change_of(data)
    if change is None:
        breach = Breach("goal-shape", event.seq, "the change is not a whole, valid snapshot or clear")
        return replace(state, breaches=(*state.breaches, breach))
    before = state.standing.goal
    standing, fault = after_change(state.standing, change)
    if fault is not None:
        state = replace(state, breaches=(*state.breaches, Breach(fault.rule, event.seq, fault.message)))
    if isinstance(change, Clear):
        if before is None:
            return replace(state, standing=standing)
        cleared = _revision(state, event, "clear", before, state.standing)
        cleared = replace(
            cleared, revision=change.revision, phase=CLEARED, updated_ms=change.cleared_ms, blocked=None
        )
        return replace(state, standing=standing, revisions=(*state.revisions, cleared))
    if before is None or before.id != change.goal.id or change.operation == "create":
        state = replace(state, goals=state.goals + 1)
    revision = _revision(state, event, change.operation, change.goal, standing)
    return replace(state, standing=standing, revisions=(*state.revisions, revision))


def _revision(
    state: GoalHistory, event: Recorded, operation: str, goal: GoalValue, standing: Standing
) -> Revision:
    return Revision(
        goal_number=state.goals,
        goal_id=goal.id,
        seq=event.seq,
        at_ms=event.time_ms,
        operation=operation,
        revision=goal.revision,
        phase=goal.phase,
        objective=goal.objective,
        max_rounds=goal.max_rounds,
        rounds=standing.rounds,
        created_ms=standing.created_ms,
        updated_ms=standing.updated_ms,
        blocked=goal.blocked,
    )


def _settle(state: GoalHistory, ending: str | None, ended_ms: int | None) -> GoalHistory:
    """No round runs any more: their turn is over."""
    if not state.running:
        return state
    over = (replace(round, ending=ending, ended_ms=ended_ms) for round in state.running)
    return replace(state, rounds=(*state.rounds, *over), running=())


class GoalRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One goal and all that became of it. ``latest`` is its last revision, one of ``revisions``.

    ``ended_ms`` is when it was complete or cleared; None while it is neither.
    """

    latest: Revision
    rounds_started: int
    ended_ms: int | None
    revisions: tuple[Revision, ...]
    rounds: tuple[Round, ...]


def records(state: GoalHistory) -> list[GoalRecord]:
    """Every goal of the log, in order."""
    revisions: dict[int, list[Revision]] = {}
    for revision in state.revisions:
        revisions.setdefault(revision.goal_number, []).append(revision)
    rounds: dict[int, list[Round]] = {number: [] for number in revisions}
    for round in (*state.rounds, *state.running):
        rounds[round.goal_number].append(round)
    return [_record(tuple(made), tuple(rounds[number])) for number, made in revisions.items()]


def _record(revisions: tuple[Revision, ...], rounds: tuple[Round, ...]) -> GoalRecord:
    latest = revisions[-1]
    return GoalRecord(
        latest=latest,
        rounds_started=latest.rounds + sum(round.seq > latest.seq for round in rounds),
        ended_ms=latest.updated_ms if latest.phase in ("complete", CLEARED) else None,
        revisions=revisions,
        rounds=rounds,
    )


def _view(state: GoalHistory) -> Any:
    standing = state.standing
    return {
        "goal": msgspec.to_builtins(standing.goal),
        "roundsStarted": standing.rounds,
        "createdAt": standing.created_ms,
        "updatedAt": standing.updated_ms,
        "goals": [msgspec.to_builtins(record) for record in records(state)],
        "breaches": msgspec.to_builtins(state.breaches),
    }


GOALS = ReadTable(
    "read_goal",
    "Every goal of a session as it is now, or was at its end.",
    (
        Column("goal_number", "int", "which goal of the log, from 1"),
        Column("goal_id", "text", "its id"),
        Column("objective", "text", "what it is"),
        Column("phase", "text", "active, paused, blocked, complete or cleared"),
        Column("revision", "int", "its latest revision"),
        Column("max_rounds", "int", "how many rounds it may take"),
        Column("rounds_started", "int", "how many were admitted"),
        Column("blocked_code", "text", "why it is blocked, for programs", optional=True),
        Column("blocked_message", "text", "why it is blocked, for people", optional=True),
        Column("created_ms", "int", "when it was made", optional=True),
        Column("updated_ms", "int", "when it changed last", optional=True),
        Column("ended_ms", "int", "when it was complete or cleared", optional=True),
        Column("breaches", "int", "events of the session that break a rule of goals"),
    ),
    key=("goal_number",),
)
ROUNDS = ReadTable(
    "read_goal_round",
    "Every round of a goal that was admitted into the conversation.",
    (
        Column("goal_number", "int", "which goal of the log", references=("read_goal", "goal_number")),
        Column("goal_id", "text", "id of the goal"),
        Column("round", "int", "which round of the goal, from 1"),
        Column("revision", "int", "the revision of the goal that it works on"),
        Column("turn", "int", "the turn it was admitted in", optional=True),
        Column("message_id", "text", "id of its message", optional=True),
        Column("started_ms", "int", "when it was admitted"),
        Column("ended_ms", "int", "when its turn ended", optional=True),
        Column("ending", "text", "the reason of that end", optional=True),
    ),
    key=("seq",),
)


def _rows(state: GoalHistory) -> Iterator[Row]:
    for record in records(state):
        latest = record.latest
        yield Row(
            GOALS.name,
            record.revisions[0].seq,
            (
                latest.goal_number,
                latest.goal_id,
                latest.objective,
                latest.phase,
                latest.revision,
                latest.max_rounds,
                record.rounds_started,
                None if latest.blocked is None else latest.blocked.code,
                None if latest.blocked is None else latest.blocked.message,
                latest.created_ms,
                latest.updated_ms,
                record.ended_ms,
                len(state.breaches),
            ),
        )
        for round in record.rounds:
            yield Row(
                ROUNDS.name,
                round.seq,
                (
                    round.goal_number,
                    round.goal_id,
                    round.round,
                    round.revision,
                    round.turn,
                    round.message_id,
                    round.at_ms,
                    round.ended_ms,
                    round.ending,
                ),
            )


goal: Projection[GoalHistory] = Projection(
    name="goal",
    version=1,
    state=GoalHistory,
    handles=frozenset({"goal/change", "user/message", "turn/start", "turn/end"}),
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(GOALS, ROUNDS),
    rows=_rows,
)
