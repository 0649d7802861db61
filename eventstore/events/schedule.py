"""Prompts that wait for their time. Written by the scheduler; inherited events do not count."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Number, Text, Value


class Schedule(Value):
    """``kind`` is ``after`` (``after_seconds``), ``at``, or ``every`` (``every_seconds``).

    ``scheduled_at`` is the first instant at which it is due, as UTC text.
    """

    kind: Text
    id: Text
    prompt: Text
    scheduled_at: Text
    after_seconds: Number | None = None
    every_seconds: Number | None = None


@event_type("schedule/change")
class ScheduleChanged(Event):
    """``create`` carries ``schedule``; ``delete`` and ``dispatch`` carry ``id``.

    ``accepted_at`` is there when a repeating schedule was dispatched.
    """

    version: Literal[1] = 1
    operation: Literal["create", "delete", "dispatch"]
    schedule: Schedule | None = None
    id: Text | None = None
    accepted_at: Text | None = None

    @model_validator(mode="after")
    def _has_the_member_of_its_operation(self) -> Self:
        wanted: Any = self.schedule if self.operation == "create" else self.id
        if wanted is None:
            raise ValueError(f"a schedule/change of operation {self.operation} lacks its subject")
        return self
