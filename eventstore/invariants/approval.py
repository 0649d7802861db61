"""Approval rules: asks and decisions happen in a turn, and a decision answers an ask that waits for one."""

from __future__ import annotations

from typing import ClassVar

from playhead.eventstore import members
from playhead.eventstore.invariants.rules import BOUNDARIES, Fault, Place
from playhead.eventstore.recorded import Recorded

_OUTCOMES = ("allowed-once", "rejected", "cancelled", "unavailable")


class Approval:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = BOUNDARIES | {"approval/asked", "approval/decided"}

    def __init__(self) -> None:
        self._place = Place()
        self._pending: set[str | None] = set()

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if self._place.follow(fact):
            return None
        data = members.of(fact)
        id = members.text(data, "id")
        waits = id in self._pending
        fault = self._place.outside_turn()
        if fact.type == "approval/asked":
            self._pending.add(id)
            if fault is None and not members.text(data, "toolName"):
                fault = Fault("approval-tool", f"ask {id!r} names no tool")
            if fault is None and waits:
                fault = Fault("approval-repeat", f"ask {id!r} is already waiting for a decision")
            return fault
        self._pending.discard(id)
        if fault is None and data.get("outcome") not in _OUTCOMES:
            fault = Fault("approval-outcome", f"decision {id!r} has an unknown outcome")
        if fault is None and not waits:
            fault = Fault("approval-no-ask", f"decision {id!r} without an ask that waits for it")
        return fault
