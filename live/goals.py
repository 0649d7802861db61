"""The goal of an agent: what is asked of it, checked, recorded, and told.

Every change but the first names the goal and revision that it was decided on; another one is refused, so that two
deciders cannot overwrite each other. A refused operation leaves no trace. Text is trimmed. Times never run backwards
within a goal.

An active goal is worked on only while it is *armed*. That is a fact of this process and in no log: create and resume
arm, everything that ends the work disarms, and a change that comes out of a log (a restart, a fork) leaves it
disarmed. So nothing begins by itself after a restart; a resume by a person does it, which is a new revision.

The rules of goals are in ``eventstore/invariants/goal_rules.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from playhead.eventstore import members
from playhead.eventstore.errors import UsageError
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.goal_rules import (
    TRANSITIONS,
    Blocked,
    GoalValue,
    Phase,
    Standing,
    after_change,
    after_round,
    change_of,
)
from playhead.eventstore.invariants.rules import trimmed
from playhead.eventstore.log import Clock
from playhead.eventstore.recorded import Recorded
from playhead.live.agent import Agent

GOAL_CHANGE = "goal/change"
ROUND = "user/message"  # the prompt that begins one, by its source
DEFAULT_MAX_ROUNDS = 256
_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class GoalError(UsageError):
    """A goal operation that is refused. ``code`` is one of the stable ``GOAL_...`` codes."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class GoalRef:
    """A goal at the revision that somebody decided on."""

    id: str
    revision: int


@dataclass(frozen=True, slots=True)
class GoalView:
    """A goal as it stands; ``armed`` says whether this process works on it."""

    goal: GoalValue
    rounds: int
    armed: bool

    @property
    def ref(self) -> GoalRef:
        return GoalRef(self.goal.id, self.goal.revision)


class Goals:
    """The goals of ``agent``."""

    def __init__(self, agent: Agent, clock: Clock, new_id: Callable[[], str]) -> None:
        self._agent = agent
        self._clock = clock
        self._new_id = new_id
        self._standing = Standing()
        self._armed = False
        self._committing = False
        for fact in agent.session.stored.read(types=[GOAL_CHANGE, ROUND]):
            self._learn(fact)
        agent.session.observe(self._learn)

    def get(self) -> GoalView | None:
        """The current goal; None where there is none."""
        goal = self._standing.goal
        return None if goal is None else GoalView(goal, self._standing.rounds, self._armed)

    def create(self, objective: str, max_rounds: int = DEFAULT_MAX_ROUNDS) -> GoalView:
        """Set a goal, active and armed; the one before has to be complete."""
        self._require_live()
        value = GoalValue(
            f"goal-{self._new_id()}", 1, _objective(objective), "active", _max_rounds(max_rounds)
        )
        now = self._standing.goal
        if now is not None and now.phase != "complete":
            raise GoalError(
                "GOAL_ALREADY_EXISTS", f"goal {now.id} is {now.phase}; complete or clear it before the next"
            )
        at_ms = self._clock()
        self._commit("create", value, 0, at_ms, at_ms, armed=True)
        return self._view()

    def edit(self, ref: GoalRef, *, objective: str | None = None, max_rounds: int | None = None) -> GoalView:
        """Change the objective or the most rounds, in any phase; whether it is armed stays."""
        goal = self._current(ref)
        if objective is None and max_rounds is None:
            raise GoalError("GOAL_INVALID_EDIT", "an edit needs an objective or a number of rounds")
        changed = {} if objective is None else {"objective": _objective(objective)}
        most = goal.max_rounds if max_rounds is None else _max_rounds(max_rounds)
        return self._update("edit", goal, armed=self._armed, max_rounds=most, **changed)

    def pause(self, ref: GoalRef) -> GoalView:
        """Stop working on it for now."""
        return self._update("pause", self._current(ref), armed=False)

    def resume(self, ref: GoalRef) -> GoalView:
        """Work on it again; also on an active goal that is not armed, as after a restart."""
        goal = self._current(ref)
        if goal.phase == "active" and self._armed:
            raise GoalError("GOAL_INVALID_TRANSITION", f"goal {goal.id} is being worked on already")
        if goal.phase != "complete" and self._standing.rounds >= goal.max_rounds:
            message = f"goal {goal.id} has had all of its {goal.max_rounds} rounds; edit the number first"
            raise GoalError("GOAL_INVALID_TRANSITION", message)
        return self._update("resume", goal, armed=True)

    def complete(self, ref: GoalRef) -> GoalView:
        """It is met."""
        return self._update("complete", self._current(ref), armed=False)

    def block(self, ref: GoalRef, code: str, message: str) -> GoalView:
        """It cannot go on; ``code`` is lower-kebab-case."""
        goal = self._current(ref)
        reason = Blocked(code, trimmed(message))
        if not _CODE.fullmatch(code) or not reason.message:
            problem = "a reason needs a lower-kebab-case code and a message"
            raise GoalError("GOAL_INVALID_BLOCK_REASON", problem)
        return self._update("block", goal, armed=False, blocked=reason)

    def clear(self, ref: GoalRef) -> None:
        """Take it away."""
        goal = self._current(ref)
        cleared = {"id": goal.id, "revision": goal.revision + 1}
        data = {"kind": GOAL_CHANGE, "version": 1, "operation": "clear", "cleared": cleared}
        self._append(data | {"clearedAt": self._not_before()}, armed=False)

    def disarm(self) -> None:
        """Let the work rest, in this process alone."""
        self._armed = False

    def _require_live(self) -> None:
        if self._agent.closed:
            raise GoalError(
                "GOAL_AGENT_NOT_LIVE", f"agent {self._agent.id!r} is closed; open the session again"
            )

    def _current(self, ref: GoalRef) -> GoalValue:
        self._require_live()
        goal = self._standing.goal
        if goal is None:
            raise GoalError("GOAL_NOT_FOUND", "there is no goal; create one first")
        if (ref.id, ref.revision) != (goal.id, goal.revision):
            stale = f"{ref.id} at revision {ref.revision} is not current: it is {goal.id} at {goal.revision}"
            raise GoalError("GOAL_STALE_REVISION", f"{stale}; look at it and decide again")
        return goal

    def _update(self, operation: str, goal: GoalValue, *, armed: bool, **changed: Any) -> GoalView:
        rule = TRANSITIONS[operation]
        if goal.phase not in rule.sources:
            raise GoalError(
                "GOAL_INVALID_TRANSITION", f"goal {goal.id} is {goal.phase}; it cannot {operation}"
            )
        phase: Phase = rule.target or goal.phase
        kept = {"blocked": goal.blocked if phase == "blocked" else None}
        value = msgspec.structs.replace(goal, revision=goal.revision + 1, phase=phase, **(kept | changed))
        standing = self._standing
        created_ms = standing.created_ms or 0
        self._commit(operation, value, standing.rounds, created_ms, self._not_before(), armed=armed)
        return self._view()

    def _not_before(self) -> int:
        return max(self._clock(), self._standing.updated_ms or 0)

    def _commit(
        self, operation: str, goal: GoalValue, rounds: int, created_ms: int, updated_ms: int, *, armed: bool
    ) -> None:
        value: dict[str, Any] = {
            "id": goal.id,
            "revision": goal.revision,
            "objective": goal.objective,
            "phase": goal.phase,
            "maxGoalRounds": goal.max_rounds,
        }
        if goal.blocked is not None:
            value["blockedReason"] = {"code": goal.blocked.code, "message": goal.blocked.message}
        data = {
            "kind": GOAL_CHANGE,
            "version": 1,
            "operation": operation,
            "goal": value,
            "roundsStarted": rounds,
            "createdAt": created_ms,
            "updatedAt": updated_ms,
        }
        self._append(data, armed=armed)

    def _append(self, data: dict[str, Any], *, armed: bool) -> None:
        before = self._armed
        self._armed, self._committing = armed, True
        try:
            self._agent.session.append(GOAL_CHANGE, data)
        except BaseException:
            self._armed = before
            raise
        finally:
            self._committing = False
        self._agent.notices.tell("goal/changed", operation=data["operation"], goal=self.get())

    def _view(self) -> GoalView:
        view = self.get()
        assert view is not None
        return view

    def _learn(self, fact: Recorded) -> None:
        if fact.type == GOAL_CHANGE:
            change = change_of(members.of(fact))
            if change is not None:
                self._standing, _ = after_change(self._standing, change)
                self._armed = self._armed and self._committing
        elif fact.type == ROUND:
            source = members.inner(members.of(fact), "source")
            if source.get("kind") == "goal":
                self._standing, _ = after_round(self._standing, source)


def _objective(text: str) -> str:
    objective = trimmed(text)
    if not objective:
        raise GoalError("GOAL_INVALID_OBJECTIVE", "an objective needs some text")
    return objective


def _max_rounds(number: Any) -> int:
    if not is_safe_integer(number) or number < 1:
        raise GoalError(
            "GOAL_INVALID_MAX_ROUNDS", f"{number!r} is no number of rounds: it is a whole number from 1 on"
        )
    return int(number)
