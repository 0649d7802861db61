"""Tool calls, their results, and calls that a tool makes itself.

Written by the loop. Several calls may be open at once; results come in the order in which the model asked.
"""

from __future__ import annotations

from typing import Any, ClassVar

from playhead.eventstore.blocks import Blocks
from playhead.eventstore.messages import Message
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import CallIdField, Flag, Text, Value, Whole


@event_type("tool/call")
class ToolCalled(Event):
    """A call was dispatched. ``arguments`` is the model's JSON text, unparsed."""

    turn: Whole
    step: Whole
    call_id: CallIdField
    name: Text
    arguments: Text


class ToolError(Value):
    """Why a call gave no proper result. Codes of the loop: ``ABORTED`` and ``ABORTED_BEFORE_DISPATCH``; of
    crash repair: ``TOOL_NOT_STARTED`` and ``TOOL_OUTCOME_UNKNOWN``."""

    name: Text
    code: Text


@event_type("tool/result")
class ToolReturned(Event):
    """The result of a call, on the surface. ``meta`` is any JSON, the tool's own."""

    surface: ClassVar[bool] = True

    turn: Whole
    step: Whole
    message: Message
    error: ToolError | None = None
    meta: Any = None


class _SubCall(Event):
    """A call from inside a tool that runs code, below its parent and the root call."""

    root_call_id: CallIdField
    parent_call_id: CallIdField
    sub_call_id: CallIdField
    name: Text
    arguments: Any


class _SubCallResult(_SubCall):
    is_error: Flag
    content: Blocks


@event_type("tool/code-dispatch-start")
class CodeDispatchStarted(_SubCall):
    """A sub-call starts; up to log format 2."""


@event_type("tool/code-dispatch")
class CodeDispatchSettled(_SubCallResult):
    """A sub-call is over; up to log format 2."""


@event_type("tool/ptc-dispatch-start")
class PtcDispatchStarted(_SubCall):
    """A sub-call starts; from log format 3 on."""


@event_type("tool/ptc-dispatch")
class PtcDispatchSettled(_SubCallResult):
    """A sub-call is over; from log format 3 on."""
