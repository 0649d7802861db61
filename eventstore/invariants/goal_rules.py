"""The rules of goals, as a pure state machine: whoever checks, folds or drives goals asks here.

A ``goal/change`` is a snapshot, which carries the whole new goal, or a clear. A snapshot has exactly the members
``kind, version, operation, goal, roundsStarted, createdAt, updatedAt``, its goal ``id, revision, objective, phase,
maxGoalRounds`` and, exactly while it is blocked, ``blockedReason {code, message}``. A clear has ``kind, version,
operation, cleared {id, revision}, clearedAt``.

* ``create``: an id never seen before, revision 1, active, no rounds, and no current goal unless that is complete.
* Every other snapshot: the same id, the next revision, the same ``createdAt`` and ``roundsStarted``, an
  ``updatedAt`` that is not lower; phases as in ``TRANSITIONS``. ``resume`` needs rounds left.
* ``clear`` names the current goal with the next revision, at a time that is not lower.
* A round is a ``user/message`` whose source is the goal. It names the current, active goal and its revision, and
  is the next round within the cap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault, is_trimmed

Phase = Literal["active", "paused", "blocked", "complete"]

PHASES: tuple[Phase, ...] = ("active", "paused", "blocked", "complete")


class Transition(NamedTuple):
    """From which phases an operation may come and to which it leads; None keeps the phase.

    ``keeps`` are the members of the goal that it leaves alone.
    """

    sources: tuple[Phase, ...]
    target: Phase | None
    keeps: tuple[str, ...]


_DEFINITION = ("objective", "max_rounds")

TRANSITIONS: Mapping[str, Transition] = {
    "edit": Transition(PHASES, None, ("phase", "blocked")),
    "pause": Transition(("active",), "paused", _DEFINITION),
    "block": Transition(("active",), "blocked", _DEFINITION),
    "complete": Transition(("active", "paused", "blocked"), "complete", _DEFINITION),
    "resume": Transition(("active", "paused", "blocked"), "active", _DEFINITION),
}
"""What may become of a goal that is there. ``create`` and ``clear`` begin and end it."""


class Blocked(msgspec.Struct, frozen=True, rename="camel"):
    """Why a goal is blocked; ``code`` is lower-kebab-case."""

    code: str
    message: str


class GoalValue(msgspec.Struct, frozen=True, rename="camel"):
    """A goal at a revision. ``blocked`` is there exactly while the phase is ``blocked``."""

    id: str
    revision: int
    objective: str
    phase: Phase
    max_rounds: int
    blocked: Blocked | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """A ``goal/change`` of the shape that carries the whole goal. Times are epoch milliseconds."""

    operation: str
    goal: GoalValue
    rounds: int
    created_ms: int
    updated_ms: int


class Clear(msgspec.Struct, frozen=True):
    """A ``goal/change`` that takes the goal away."""

    id: str
    revision: int
    cleared_ms: int


class Standing(msgspec.Struct, frozen=True, rename="camel"):
    """How goals stand after some events: the current goal, and the rounds of it that were admitted.

    ``last_id`` and ``last_revision`` name the last goal that was, a cleared one too. ``ids`` are all that were
    ever created in the log; none of them may be created again.
    """

    goal: GoalValue | None = None
    rounds: int = 0
    created_ms: int | None = None
    updated_ms: int | None = None
    last_id: str | None = None
    last_revision: int | None = None
    ids: tuple[str, ...] = ()


def change_of(data: dict[str, Any]) -> Snapshot | Clear | None:
    """The change that the data of a ``goal/change`` states; None when it is not whole and valid."""
    if data.get("kind") != "goal/change" or members.number(data, "version") != 1:
        return None
    return _clear(data) if data.get("operation") == "clear" else _snapshot(data)


def after_change(standing: Standing, change: Snapshot | Clear) -> tuple[Standing, Fault | None]:
    """The standing that the change states, and the first rule that it breaks.

    A change that breaks a rule is taken as it stands, so that what follows is measured by it.
    """
    if isinstance(change, Clear):
        gone = Standing(last_id=change.id, last_revision=change.revision, ids=standing.ids)
        return gone, _bad_clear(standing, change)
    fault = _bad_create(standing, change) if change.operation == "create" else _bad_update(standing, change)
    goal = change.goal
    ids = standing.ids if goal.id in standing.ids else (*standing.ids, goal.id)
    after = Standing(goal, change.rounds, change.created_ms, change.updated_ms, goal.id, goal.revision, ids)
    return after, fault


def after_round(standing: Standing, source: dict[str, Any]) -> tuple[Standing, Fault | None]:
    """The standing after a message from the goal that ``source`` names, and the rule that it breaks.

    A message that breaks one is no round: it leaves the standing as it is.
    """
    goal, number = standing.goal, members.number(source, "round")
    named = (members.text(source, "goalId"), members.number(source, "revision"))
    if goal is None or goal.phase != "active" or named != (goal.id, goal.revision):
        return standing, Fault("goal-round", "a round of a goal that is not the current, active one")
    expected = standing.rounds + 1
    if number is None or number != expected or number > goal.max_rounds:
        message = f"round {number} of at most {goal.max_rounds}; round {expected} is next"
        return standing, Fault("goal-round", message)
    return msgspec.structs.replace(standing, rounds=expected), None


def _bad_clear(standing: Standing, change: Clear) -> Fault | None:
    goal = standing.goal
    if goal is None or standing.updated_ms is None:
        return Fault("goal-none", "there is no goal to clear")
    if (change.id, change.revision) != (goal.id, goal.revision + 1):
        return Fault("goal-revision", "what is cleared is not the current goal with the next revision")
    return Fault("goal-time", "clearedAt is lower") if change.cleared_ms < standing.updated_ms else None


def _bad_create(standing: Standing, change: Snapshot) -> Fault | None:
    goal = change.goal
    if goal.id in standing.ids:
        return Fault("goal-id", f"goal {goal.id!r} was created before")
    if standing.goal is not None and standing.goal.phase != "complete":
        return Fault("goal-create", "another goal is not complete yet")
    if (goal.revision, goal.phase, change.rounds) != (1, "active", 0):
        return Fault("goal-create", "a new goal is active, at revision 1, without rounds")
    return None


def _bad_update(standing: Standing, change: Snapshot) -> Fault | None:
    before, goal = standing.goal, change.goal
    if before is None or standing.updated_ms is None:
        return Fault("goal-none", f"there is no goal to {change.operation}")
    if (goal.id, goal.revision) != (before.id, before.revision + 1):
        return Fault("goal-revision", f"revision {goal.revision} follows {before.revision}")
    if change.created_ms != standing.created_ms or change.updated_ms < standing.updated_ms:
        return Fault("goal-time", "createdAt changes, or updatedAt is lower")
    if change.rounds != standing.rounds:
        return Fault("goal-rounds", f"{change.rounds} rounds are said, {standing.rounds} were admitted")
    return _bad_transition(change.operation, before, goal, standing.rounds)


def _bad_transition(operation: str, before: GoalValue, goal: GoalValue, rounds: int) -> Fault | None:
    rule = TRANSITIONS[operation]
    if before.phase not in rule.sources or goal.phase != (rule.target or before.phase):
        return Fault("goal-transition", f"{operation} leads from {before.phase} to {goal.phase}")
    if any(getattr(before, member) != getattr(goal, member) for member in rule.keeps):
        return Fault("goal-transition", f"{operation} changes {' or '.join(rule.keeps)}")
    if operation == "resume" and rounds >= goal.max_rounds:
        return Fault("goal-transition", "resume without rounds left")
    return None


_SNAPSHOT = {"kind", "version", "operation", "goal", "roundsStarted", "createdAt", "updatedAt"}
_CLEAR = {"kind", "version", "operation", "cleared", "clearedAt"}
_GOAL = {"id", "revision", "objective", "phase", "maxGoalRounds"}
_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _snapshot(data: dict[str, Any]) -> Snapshot | None:
    operation, goal = members.text(data, "operation"), _goal(members.inner(data, "goal"))
    rounds, created = _count(data, "roundsStarted", 0), _count(data, "createdAt", 0)
    updated = _count(data, "updatedAt", 0)
    known = operation is not None and (operation == "create" or operation in TRANSITIONS)
    if data.keys() != _SNAPSHOT or not known or operation is None or goal is None:
        return None
    if rounds is None or created is None or updated is None or updated < created:
        return None
    return Snapshot(operation, goal, rounds, created, updated)


def _clear(data: dict[str, Any]) -> Clear | None:
    cleared, cleared_ms = members.inner(data, "cleared"), _count(data, "clearedAt", 0)
    id, revision = members.text(cleared, "id"), _count(cleared, "revision", 1)
    if data.keys() != _CLEAR or cleared.keys() != {"id", "revision"}:
        return None
    if not id or revision is None or cleared_ms is None:
        return None
    return Clear(id, revision, cleared_ms)


def _goal(goal: dict[str, Any]) -> GoalValue | None:
    id, objective = members.text(goal, "id"), members.text(goal, "objective")
    revision, most = _count(goal, "revision", 1), _count(goal, "maxGoalRounds", 1)
    phase: Phase | None = next((phase for phase in PHASES if phase == goal.get("phase")), None)
    if not id or objective is None or not is_trimmed(objective) or revision is None or most is None:
        return None
    if phase != "blocked":
        valid = phase is not None and goal.keys() == _GOAL
        return GoalValue(id, revision, objective, phase, most) if valid and phase else None
    blocked = _blocked(members.inner(goal, "blockedReason"))
    if blocked is None or goal.keys() != _GOAL | {"blockedReason"}:
        return None
    return GoalValue(id, revision, objective, phase, most, blocked)


def _blocked(reason: dict[str, Any]) -> Blocked | None:
    code, message = members.text(reason, "code"), members.text(reason, "message")
    if code is None or message is None or reason.keys() != {"code", "message"}:
        return None
    return Blocked(code, message) if _CODE.fullmatch(code) and is_trimmed(message) else None


def _count(data: dict[str, Any], key: str, lowest: int) -> int | None:
    value = data.get(key)
    return int(value) if is_safe_integer(value) and value >= lowest else None
