"""Turns and steps: the brackets around everything that an agent does.

Written by the loop. A turn is one piece of accepted work, a step one model call with the tools that it asked
for. Turns count 1, 2, 3, ... in a log, steps 1, 2, ... in a turn. Every turn and step that began ends exactly
once, on failure and cancellation too; after a crash repair writes the missing ends.
"""

from __future__ import annotations

from playhead.eventstore.reasons import TurnEndReasonField
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Whole


@event_type("turn/start")
class TurnStarted(Event):
    """Before the input of the turn is claimed, so that the claim has an owner."""

    turn: Whole


@event_type("turn/end")
class TurnEnded(Event):
    """A turn may end without a step."""

    turn: Whole
    reason: TurnEndReasonField


@event_type("step/start")
class StepStarted(Event):
    """After the input was claimed and allowed in, before its messages."""

    turn: Whole
    step: Whole


@event_type("step/end")
class StepEnded(Event):
    """After the last tool result of the step."""

    turn: Whole
    step: Whole
