"""Command rules: ids are unique, a command that is done has run, and only a success cites an event.

The cited event is an earlier one of the same log and no command event itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded


class Commands:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = frozenset({"command/run", "command/done"})

    def __init__(self) -> None:
        self._run: set[str | None] = set()
        self._seqs: set[int] = set()

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        data = members.of(fact)
        id = members.text(data, "commandId")
        known = id in self._run
        self._seqs.add(fact.seq)
        if fact.type == "command/run":
            self._run.add(id)
            return Fault("command-id", f"command {id!r} has run before") if known else None
        if not known:
            return Fault("command-no-run", f"command {id!r} is done, but never ran")
        kind = data.get("kind")
        if kind not in ("success", "error"):
            return Fault("command-kind", f"command {id!r} is neither a success nor an error")
        if "sourceEventSeq" in data and not (kind == "success" and self._citable(data, fact.seq)):
            return Fault("command-source", f"command {id!r} cites what it may not cite")
        return None

    def _citable(self, data: dict[str, Any], own: int) -> bool:
        seq = data["sourceEventSeq"]
        return is_safe_integer(seq) and 0 <= seq < own and seq not in self._seqs
