"""Goal rules: one goal at a time, each change one revision on, each round admitted in its turn.

The rules themselves stand in ``goal_rules.py``; here they are fed with the facts of a log.
"""

from __future__ import annotations

from typing import ClassVar

from playhead.eventstore import members
from playhead.eventstore.invariants.goal_rules import Standing, after_change, after_round, change_of
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded


class Goal:
    """See the module. A change that is not whole and valid changes nothing."""

    types: ClassVar[frozenset[str] | None] = frozenset({"goal/change", "user/message"})

    def __init__(self) -> None:
        self._standing = Standing()

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if fact.type == "user/message":
            if b'"goal"' not in fact.raw:
                return None
            source = members.inner(members.of(fact), "source")
            if source.get("kind") != "goal":
                return None
            self._standing, fault = after_round(self._standing, source)
            return fault
        change = change_of(members.of(fact))
        if change is None:
            return Fault("goal-shape", "the change is not a whole, valid snapshot or clear")
        self._standing, fault = after_change(self._standing, change)
        return fault
