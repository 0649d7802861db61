"""Goals: an objective that a session works on round after round, until it is met.

``goal/change`` is written by the goal service, with the whole new value each time. A round is no event of its
own: it is a ``user/message`` whose source is the goal.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import GoalIdField, Text, Value, Whole


class BlockedReason(Value):
    """Why a goal is blocked. ``code`` is lower-kebab-case."""

    code: Text
    message: Text


class Goal(Value):
    """A goal at a revision, which counts from 1. ``blocked_reason`` is there exactly while it is blocked."""

    id: GoalIdField
    revision: Whole
    objective: Text
    phase: Literal["active", "paused", "blocked", "complete"]
    max_goal_rounds: Whole
    blocked_reason: BlockedReason | None = None


class GoalRef(Value):
    """Names a goal at a revision."""

    id: GoalIdField
    revision: Whole


@event_type("goal/change")
class GoalChanged(Event):
    """The goal as it is after the operation; times are epoch milliseconds.

    ``create``, ``edit``, ``pause``, ``resume``, ``complete`` and ``block`` carry ``goal`` with its counters,
    ``clear`` carries ``cleared`` and ``cleared_at``.
    """

    kind: Literal["goal/change"] = "goal/change"
    version: Literal[1] = 1
    operation: Literal["create", "edit", "pause", "resume", "complete", "block", "clear"]
    goal: Goal | None = None
    rounds_started: Whole | None = None
    created_at: Whole | None = None
    updated_at: Whole | None = None
    cleared: GoalRef | None = None
    cleared_at: Whole | None = None

    @model_validator(mode="after")
    def _has_the_members_of_its_operation(self) -> Self:
        snapshot: tuple[Any, ...] = (self.goal, self.rounds_started, self.created_at, self.updated_at)
        wanted = (self.cleared, self.cleared_at) if self.operation == "clear" else snapshot
        if None in wanted:
            raise ValueError(f"a goal/change of operation {self.operation} lacks members")
        return self
