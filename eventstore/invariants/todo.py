"""Todo rules: every entry has trimmed text that no other entry has, and a known status."""

from __future__ import annotations

from typing import ClassVar

from playhead.eventstore import members
from playhead.eventstore.invariants.rules import Fault, is_trimmed
from playhead.eventstore.recorded import Recorded

_STATUSES = ("pending", "in_progress", "completed")


class Todo:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = frozenset({"todo/write"})

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        seen: set[str | None] = set()
        for todo in members.objects(members.of(fact), "todos"):
            content = members.text(todo, "content")
            if not is_trimmed(content):
                return Fault("todo-content", f"the content {content!r} is empty or not trimmed")
            if content in seen:
                return Fault("todo-duplicate", f"the content {content!r} comes twice")
            if todo.get("status") not in _STATUSES:
                return Fault("todo-status", f"the entry {content!r} has an unknown status")
            seen.add(content)
        return None
