"""How often each tool was called, how often in vain, and how long it took.

A call counts when it started (``tool/call``). It takes from there to its result; a span that runs backwards is 0. A
call without a result when its step ends has none. Calls that a program makes from inside a tool are part of that
tool's call. What was inherited from the parent is left out.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections.inherited import MARKER, Inherited
from playhead.projections.projection import Projection


class Tool(msgspec.Struct, frozen=True, rename="camel"):
    """``calls`` that started, ``answered`` of them; ``errors`` are answers that say so. Spans are milliseconds."""

    calls: int = 0
    answered: int = 0
    errors: int = 0
    total_ms: int = 0
    longest_ms: int = 0

    def plus(self, other: Tool) -> Tool:
        """The figures of both."""
        return Tool(
            self.calls + other.calls,
            self.answered + other.answered,
            self.errors + other.errors,
            self.total_ms + other.total_ms,
            max(self.longest_ms, other.longest_ms),
        )


class ToolUse(msgspec.Struct, frozen=True, rename="camel"):
    """The tools by name. ``pending`` has the name and the time of each call without a result, by call id."""

    inherited: Inherited
    tools: dict[str, Tool] = {}
    pending: dict[str, tuple[str, int]] = {}


def _begin(header: SessionHeader) -> ToolUse:
    return ToolUse(Inherited.of(header))


def _apply(state: ToolUse, event: Recorded) -> ToolUse:
    if event.type == MARKER:
        inherited = state.inherited.after(event)
        return state if inherited == state.inherited else ToolUse(inherited)
    if state.inherited.covers(event.seq):
        return state
    match event.type:
        case "tool/call":
            return _call(state, event, members.of(event))
        case "tool/result":
            return (
                state if isinstance(event.surface_op, Replace) else _result(state, event, members.of(event))
            )
    return replace(state, pending={}) if state.pending else state  # the end of a step or a turn


def _call(state: ToolUse, event: Recorded, data: dict[str, Any]) -> ToolUse:
    name, call = members.text(data, "name"), members.text(data, "callId")
    if name is None or call is None:
        return state
    started = state.tools.get(name, Tool()).plus(Tool(calls=1))
    pending = state.pending | {call: (name, event.time_ms)}
    return replace(state, tools=state.tools | {name: started}, pending=pending)


def _result(state: ToolUse, event: Recorded, data: dict[str, Any]) -> ToolUse:
    message = members.inner(data, "message")
    call = members.text(members.inner(message, "source"), "callId")
    if call is None or call not in state.pending:
        return state
    name, started_ms = state.pending[call]
    failed = "error" in data or any(
        block.get("isError") is True for block in members.objects(message, "content")
    )
    span = max(0, event.time_ms - started_ms)
    answer = Tool(answered=1, errors=1 if failed else 0, total_ms=span, longest_ms=span)
    pending = {other: known for other, known in state.pending.items() if other != call}
    tools = state.tools | {name: state.tools.get(name, Tool()).plus(answer)}
    return replace(state, tools=tools, pending=pending)


def _view(state: ToolUse) -> Any:
    return msgspec.to_builtins(state.tools)


tool_use: Projection[ToolUse] = Projection(
    name="tool-use",
    version=1,
    state=ToolUse,
    handles=frozenset({"tool/call", "tool/result", "step/end", "turn/end", MARKER}),
    initial=_begin,
    apply=_apply,
    view=_view,
)
