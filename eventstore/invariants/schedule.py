"""Schedule rules: ids are never used twice, and what is deleted or dispatched is active.

Records are ``after`` (a delay), ``at`` (an instant) and ``every`` (an interval of 300 seconds or more). A
one-shot record is dispatched once and without ``acceptedAt``. ``every`` is dispatched with an ``acceptedAt`` not
before its target; the next target is the first multiple of the interval behind that. Events that a fork
inherited do not count. Instants are UTC with a four-digit year.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, ClassVar

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z")
_SHORTEST_INTERVAL_S = 300
_FIELDS = {
    "at": {"id", "kind", "prompt", "scheduledAt"},
    "after": {"id", "kind", "prompt", "scheduledAt", "afterSeconds"},
    "every": {"id", "kind", "prompt", "scheduledAt", "everySeconds"},
}


class Schedule:
    """See the module. ``seed_length`` is how many events were inherited."""

    types: ClassVar[frozenset[str] | None] = frozenset({"schedule/change"})

    def __init__(self, seed_length: int = 0) -> None:
        self._seed_length = seed_length
        self._ids: set[str | None] = set()
        self._active: dict[str | None, tuple[int | None, float | None]] = {}

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if fact.seq < self._seed_length:
            return None
        data = members.of(fact)
        operation = data.get("operation")
        if operation == "create":
            return self._create(data)
        if operation not in ("delete", "dispatch"):
            return Fault("schedule-operation", "an unknown operation")
        id = members.text(data, "id")
        if id not in self._active:
            return Fault("schedule-inactive", f"schedule {id!r} is not active")
        if operation == "delete":
            del self._active[id]
            return None
        return self._dispatch(id, data)

    def _create(self, data: dict[str, Any]) -> Fault | None:
        record = members.inner(data, "schedule")
        id = members.text(record, "id")
        repeated = id in self._ids
        every = members.number(record, "everySeconds") if record.get("kind") == "every" else None
        target_ms = _instant_ms(record.get("scheduledAt"))
        self._ids.add(id)
        self._active[id] = (target_ms, every)
        if repeated:
            return Fault("schedule-id", f"schedule {id!r} was created before")
        kind = record.get("kind")
        fields = _FIELDS.get(kind) if isinstance(kind, str) else None
        if record.keys() != fields or target_ms is None or not _is_long_enough(record):
            return Fault("schedule-record", f"schedule {id!r} is not a record of its kind")
        return None

    def _dispatch(self, id: str | None, data: dict[str, Any]) -> Fault | None:
        target_ms, every = self._active[id]
        if every is None:
            del self._active[id]
            if "acceptedAt" in data:
                return Fault("schedule-accepted", f"one-shot schedule {id!r} has an acceptedAt")
            return None
        accepted_ms = _instant_ms(data.get("acceptedAt"))
        if accepted_ms is None or target_ms is None or accepted_ms < target_ms:
            return Fault("schedule-accepted", f"schedule {id!r} was accepted before its time, or at no time")
        interval_ms = max(1, int(every * 1000))
        self._active[id] = (target_ms + (1 + (accepted_ms - target_ms) // interval_ms) * interval_ms, every)
        return None


def _is_long_enough(record: dict[str, Any]) -> bool:
    """True unless the record has a delay or an interval that is none."""
    delay, interval = record.get("afterSeconds", 0), record.get("everySeconds", _SHORTEST_INTERVAL_S)
    whole = is_safe_integer(delay) and is_safe_integer(interval)
    return whole and delay >= 0 and interval >= _SHORTEST_INTERVAL_S


def _instant_ms(value: Any) -> int | None:
    """Epoch milliseconds of an instant; None for anything else."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        return None
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    return round(instant.timestamp() * 1000)
