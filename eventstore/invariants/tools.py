"""Rules for calls made from inside a code-running tool.

Both events stand in a turn and name root, parent and sub-call. A parent other than the root is itself a
sub-call of that root. A sub-call starts once, settles once, and keeps its root.
"""

from __future__ import annotations

from typing import ClassVar

from playhead.eventstore import members
from playhead.eventstore.invariants.rules import BOUNDARIES, Fault, Place
from playhead.eventstore.recorded import Recorded


class Tools:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = BOUNDARIES | {"tool/code-dispatch-start", "tool/code-dispatch"}

    def __init__(self) -> None:
        self._place = Place()
        self._roots: dict[str, str] = {}
        self._settled: set[str] = set()

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if self._place.follow(fact):
            return None
        data = members.of(fact)
        root, parent = members.text(data, "rootCallId"), members.text(data, "parentCallId")
        sub = members.text(data, "subCallId")
        if not root or not parent or not sub:
            return Fault("code-dispatch-id", "an id is missing or empty")
        known_root, settled = self._roots.get(sub), sub in self._settled
        if fact.type == "tool/code-dispatch-start":
            self._roots[sub] = root
        else:
            self._settled.add(sub)
        fault = self._place.outside_turn()
        if fault is not None:
            return fault
        if parent != root and self._roots.get(parent) != root:
            return Fault("code-dispatch-parent", f"parent {parent!r} is no call of root {root!r}")
        if fact.type == "tool/code-dispatch-start":
            return Fault("code-dispatch-id", f"sub-call {sub!r} has started before") if known_root else None
        if known_root is None:
            return Fault("code-dispatch-no-start", f"sub-call {sub!r} settles, but never started")
        if known_root != root:
            return Fault("code-dispatch-root", f"sub-call {sub!r} settles under another root")
        return Fault("code-dispatch-repeat", f"sub-call {sub!r} settles twice") if settled else None
