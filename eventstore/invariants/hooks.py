"""Hook rules: hooks run in the open turn they name; each result has an invocation of its own.

Results pair with invocations by turn, point and handler. The same handler may run twice: pairs are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from playhead.eventstore import members
from playhead.eventstore.invariants.rules import BOUNDARIES, Fault, Place
from playhead.eventstore.recorded import Recorded

_DIALECTS = ("claude-code", "codex")


class Hooks:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = BOUNDARIES | {"hook/invoked", "hook/result"}

    def __init__(self) -> None:
        self._place = Place()
        self._running: Counter[tuple[float | None, str | None, str | None]] = Counter()

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if self._place.follow(fact):
            return None
        data = members.of(fact)
        turn = members.number(data, "turn")
        key = (turn, members.text(data, "point"), members.text(data, "handlerId"))
        fault = None
        if turn is None or turn != self._place.turn:
            fault = Fault("hook-turn", f"a hook of turn {turn}; open is {self._place.turn}")
        if fact.type == "hook/invoked":
            self._running[key] += 1
            if fault is None and data.get("dialect") not in _DIALECTS:
                fault = Fault("hook-dialect", "a hook of an unknown dialect")
        elif self._running[key]:
            self._running[key] -= 1
        elif fault is None:
            fault = Fault("hook-no-invocation", f"handler {key[2]!r} has a result, but was not invoked")
        return fault
