"""What a model call was sent besides its messages.

Written by the loop in the step, before the call, and only when something differs from what the log says last.
"""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.request_header import RequestHeader
from playhead.eventstore.value import Flag, Text, Whole


@event_type("request/header")
class HeaderSent(Event):
    """The whole header. ``reason``: ``initial``, ``resume``, ``change`` or ``series``.

    ``series`` repeats an unchanged header where a new series of requests begins; ``starts_series`` marks a
    header that begins one.
    """

    header: RequestHeader
    reason: Text
    starts_series: Flag | None = None


@event_type("request/context")
class ContextMeasured(Event):
    """Route and capacity. An absent ``context_window`` (tokens) clears an older one."""

    provider: Text
    model: Text
    context_window: Whole | None = None
