"""Asking a person before a tool runs. Written by the approval service, inside an open turn."""

from __future__ import annotations

from typing import Literal

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import CallIdField, Text


@event_type("approval/asked")
class ApprovalAsked(Event):
    """A tool waits for an answer."""

    id: Text
    tool_name: Text
    call_id: CallIdField | None = None
    reason: Text | None = None


@event_type("approval/decided")
class ApprovalDecided(Event):
    """The answer; only ``allowed-once`` lets the tool run. A crash can leave a question without one."""

    id: Text
    outcome: Literal["allowed-once", "rejected", "cancelled", "unavailable"]


@event_type("approval/policy")
class ApprovalPolicySet(Event):
    """``ask`` or ``never``; the last one counts.

    ``source`` is ``delegation`` where a parent handed it down.
    """

    policy: Text
    source: Text | None = None
