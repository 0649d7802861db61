"""Goal rules: one goal at a time, each change one revision on, each round admitted in its turn.

* ``create``: a fresh id, revision 1, active, no rounds, and no current goal unless that is complete.
* Every other snapshot: the same id, the next revision, the same ``createdAt`` and ``roundsStarted``, an
  ``updatedAt`` that is not lower. ``edit`` keeps phase and reason; the others keep objective and cap:
  ``pause`` and ``block`` lead from active, ``complete`` from anything but complete, ``resume`` from active,
  paused or blocked with rounds left.
* ``clear`` names the current goal with the next revision.
* A ``user/message`` from a goal names the current, active goal and is its next round within the cap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault, is_trimmed
from playhead.eventstore.recorded import Recorded

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_GOAL = {"id", "revision", "objective", "phase", "maxGoalRounds"}
_SNAPSHOT = {"kind", "version", "operation", "goal", "roundsStarted", "createdAt", "updatedAt"}
_CLEAR = {"kind", "version", "operation", "cleared", "clearedAt"}
_PHASES = ("active", "paused", "blocked", "complete")

_MOVES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "pause": (("active",), "paused"),
    "block": (("active",), "blocked"),
    "complete": (("active", "paused", "blocked"), "complete"),
    "resume": (("active", "paused", "blocked"), "active"),
}
"""From which phases an operation may come, and to which it leads."""


class Goal:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = frozenset({"goal/change", "user/message"})

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._now: dict[str, Any] | None = None
        self._rounds: float = 0

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if fact.type == "user/message":
            if b'"goal"' not in fact.raw:
                return None
            source = members.inner(members.of(fact), "source")
            return self._round(source) if source.get("kind") == "goal" else None
        data = members.of(fact)
        if data.get("operation") == "clear":
            return self._clear(data)
        if not _is_snapshot(data):
            return Fault("goal-shape", "the change is not a whole, valid snapshot")
        fault = self._creates(data) if data["operation"] == "create" else self._changes(data)
        self._now = data
        self._rounds = data["roundsStarted"]
        self._ids.add(data["goal"]["id"])
        return fault

    def _round(self, source: dict[str, Any]) -> Fault | None:
        number = members.number(source, "round")
        goal = members.inner(self._now or members.NOTHING, "goal")
        if goal.get("phase") != "active" or (source.get("goalId"), source.get("revision")) != (
            goal.get("id"),
            goal.get("revision"),
        ):
            return Fault("goal-round", "a round of a goal that is not the current, active one")
        expected = self._rounds + 1
        if number != expected or number > goal["maxGoalRounds"]:
            most = goal["maxGoalRounds"]
            return Fault("goal-round", f"round {number} of at most {most}; round {expected} is next")
        self._rounds = number
        return None

    def _clear(self, data: dict[str, Any]) -> Fault | None:
        now, self._now = self._now, None
        cleared = members.inner(data, "cleared")
        if not _is_clear(data):
            return Fault("goal-shape", "the change is not a valid clear")
        if now is None:
            return Fault("goal-none", "there is no goal to clear")
        if cleared["id"] != now["goal"]["id"] or cleared["revision"] != now["goal"]["revision"] + 1:
            return Fault("goal-revision", "what is cleared is not the current goal with the next revision")
        return Fault("goal-time", "clearedAt is lower") if data["clearedAt"] < now["updatedAt"] else None

    def _creates(self, data: dict[str, Any]) -> Fault | None:
        goal = data["goal"]
        if goal["id"] in self._ids:
            return Fault("goal-id", f"goal {goal['id']!r} was created before")
        if self._now is not None and self._now["goal"]["phase"] != "complete":
            return Fault("goal-create", "another goal is not complete yet")
        if (goal["revision"], goal["phase"], data["roundsStarted"]) != (1, "active", 0):
            return Fault("goal-create", "a new goal is active, at revision 1, without rounds")
        return None

    def _changes(self, data: dict[str, Any]) -> Fault | None:
        if self._now is None:
            return Fault("goal-none", f"there is no goal to {data['operation']}")
        before, goal = self._now["goal"], data["goal"]
        if goal["id"] != before["id"] or goal["revision"] != before["revision"] + 1:
            return Fault("goal-revision", f"revision {goal['revision']} follows {before['revision']}")
        if data["createdAt"] != self._now["createdAt"] or data["updatedAt"] < self._now["updatedAt"]:
            return Fault("goal-time", "createdAt changes, or updatedAt is lower")
        if data["roundsStarted"] != self._rounds:
            said = data["roundsStarted"]
            return Fault("goal-rounds", f"{said} rounds are said, {self._rounds} were admitted")
        return _bad_move(data["operation"], before, goal, self._rounds)


def _bad_move(operation: str, before: dict[str, Any], goal: dict[str, Any], rounds: float) -> Fault | None:
    may, phase = _MOVES.get(operation, (_PHASES, before["phase"]))
    kept = ("phase", "blockedReason") if operation == "edit" else ("objective", "maxGoalRounds")
    if before["phase"] not in may or goal["phase"] != phase:
        message = f"{operation} leads from {before['phase']} to {goal['phase']}"
        return Fault("goal-transition", message)
    if any(before.get(key) != goal.get(key) for key in kept):
        return Fault("goal-transition", f"{operation} changes {' or '.join(kept)}")
    if operation == "resume" and rounds >= goal["maxGoalRounds"]:
        return Fault("goal-transition", "resume without rounds left")
    return None


def _count(value: Any, lowest: int) -> bool:
    return is_safe_integer(value) and value >= lowest


def _is_snapshot(data: dict[str, Any]) -> bool:
    goal = members.inner(data, "goal")
    operation = data.get("operation")
    known = isinstance(operation, str) and operation in {"create", "edit", *_MOVES}
    if data.keys() != _SNAPSHOT or not known or not _is_change(data) or not _is_goal(goal):
        return False
    if not all(_count(data[key], 0) for key in ("roundsStarted", "createdAt", "updatedAt")):
        return False
    return bool(data["updatedAt"] >= data["createdAt"])


def _is_goal(goal: dict[str, Any]) -> bool:
    blocked = goal.get("phase") == "blocked"
    if goal.keys() != (_GOAL | {"blockedReason"} if blocked else _GOAL) or goal["phase"] not in _PHASES:
        return False
    if not members.text(goal, "id") or not is_trimmed(members.text(goal, "objective")):
        return False
    if not _count(goal["revision"], 1) or not _count(goal["maxGoalRounds"], 1):
        return False
    return not blocked or _is_reason(members.inner(goal, "blockedReason"))


def _is_reason(reason: dict[str, Any]) -> bool:
    code = members.text(reason, "code")
    told = code is not None and bool(_CODE.fullmatch(code)) and is_trimmed(members.text(reason, "message"))
    return told and reason.keys() == {"code", "message"}


def _is_clear(data: dict[str, Any]) -> bool:
    cleared = members.inner(data, "cleared")
    return (
        data.keys() == _CLEAR
        and _is_change(data)
        and cleared.keys() == {"id", "revision"}
        and bool(members.text(cleared, "id"))
        and _count(cleared["revision"], 1)
        and _count(data["clearedAt"], 0)
    )


def _is_change(data: dict[str, Any]) -> bool:
    return data.get("kind") == "goal/change" and members.number(data, "version") == 1
