"""The tool with which a model ends the goal that it works towards.

It counts in a turn in which a person said something, and in a round of the goal as it stands; a round of a goal that
was changed since is about something else. Source: docs/cli.md, "playhead run".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from playhead.eventstore import members
from playhead.eventstore.errors import UsageError
from playhead.eventstore.recorded import Recorded
from playhead.live.agent import Agent
from playhead.live.goals import Goals

_BLOCKED = "needs-help"


class EndGoal:
    """Ends the goal of ``agent`` when the model says so."""

    def __init__(self, agent: Agent, goals: Goals) -> None:
        self._goals = goals
        self._sources: list[Mapping[str, Any]] = []  # of what came into the turn
        agent.session.observe(self._observed)

    def _observed(self, event: Recorded) -> None:
        if event.type == "turn/start":
            self._sources = []
        elif event.type == "user/message":
            self._sources.append(members.inner(members.of(event), "source"))

    async def end(self, outcome: Literal["met", "blocked"], reason: str = "") -> str:
        """Say that the goal is met, or that it is blocked: that you cannot go on without help, and for what reason.

        No other round is begun then.
        """
        view = self._goals.get()
        if view is None or view.goal.phase != "active":
            raise UsageError("no goal is being worked towards")
        if not any(_counts(source, view.goal.id, view.goal.revision) for source in self._sources):
            raise UsageError("the goal was changed since this round began")
        if outcome == "met":
            self._goals.complete(view.ref)
            return "the goal is met"
        if not reason.strip():
            raise UsageError("say for what reason it is blocked")
        self._goals.block(view.ref, _BLOCKED, reason)
        return "the goal is blocked"


def _counts(source: Mapping[str, Any], goal: str, revision: int) -> bool:
    """Whether a message of this source may be what the model ends the goal by."""
    if source.get("kind") == "goal":
        return (source.get("goalId"), source.get("revision")) == (goal, revision)
    return source.get("kind") == "user"
