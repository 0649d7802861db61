"""Programs of the user that run at fixed points of a turn. Written around each run."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Number, Text, Whole


@event_type("hook/invoked")
class HookInvoked(Event):
    """A handler starts at ``point``. ``dialect`` is the tool whose hook format it follows."""

    turn: Whole
    point: Text
    dialect: Text
    handler_id: Text
    matcher: Text | None = None


@event_type("hook/result")
class HookReturned(Event):
    """The handler is over."""

    turn: Whole
    point: Text
    handler_id: Text
    decision: Text
    duration_ms: Number
    exit_code: Whole | None = None
    stderr_summary: Text | None = None
