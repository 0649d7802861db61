"""Workflow rules: brackets per run and per member, ids and member numbers never used twice."""

from __future__ import annotations

from typing import Any, ClassVar

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded

_OUTCOMES = ("completed", "failed", "cancelled")
_STOP_REASONS = ("completed", "cancelled", "error")


class _Run:
    """An open run: the numbers of its members so far, and of those that are still open."""

    __slots__ = ("members", "open")

    def __init__(self) -> None:
        self.members: set[float | None] = set()
        self.open: set[float | None] = set()


class Workflow:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = frozenset(
        f"tool-workflow/{part}" for part in ("run-start", "agent-start", "agent-end", "run-end")
    )

    def __init__(self) -> None:
        self._ids: set[str | None] = set()
        self._open: dict[str | None, _Run] = {}

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        data = members.of(fact)
        id = members.text(data, "runId")
        if fact.type == "tool-workflow/run-start":
            repeated = id in self._ids
            self._ids.add(id)
            self._open[id] = _Run()
            return Fault("workflow-run-id", f"run {id!r} has been started before") if repeated else None
        run = self._open.get(id)
        if run is None:
            return Fault("workflow-no-run", f"run {id!r} is not open")
        if fact.type == "tool-workflow/run-end":
            del self._open[id]
            return _run_end(data, run)
        return _member(fact.type, data, run)


def _member(type: str, data: dict[str, Any], run: _Run) -> Fault | None:
    number = members.number(data, "seq")
    if type == "tool-workflow/agent-start":
        repeated = number in run.members
        run.members.add(number)
        run.open.add(number)
        if repeated or number is None or not is_safe_integer(number) or number < 1:
            return Fault("workflow-member", f"member {number} is no fresh number from 1")
        return None
    if number not in run.open:
        return Fault("workflow-no-member", f"member {number} is not open")
    run.open.discard(number)
    if data.get("outcome") not in _OUTCOMES:
        return Fault("workflow-outcome", f"member {number} has an unknown outcome")
    return None


def _run_end(data: dict[str, Any], run: _Run) -> Fault | None:
    if run.open:
        return Fault("workflow-open-member", f"the run ends with {len(run.open)} members open")
    if data.get("stopReason") not in _STOP_REASONS:
        return Fault("workflow-stop-reason", "the run has an unknown stop reason")
    return None
