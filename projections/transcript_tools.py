"""Tool calls of the transcript: asked for by an answer, started, and ended by a result.

They find each other by the id of the call within the step, in the order in which they were asked for.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import message_text
from playhead.projections.transcript_items import ToolCall
from playhead.projections.transcript_state import Handler, Transcript, as_json

_STAND_INS = ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")


def _call(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    sub = event.type != "tool/call"
    id = members.text(data, "subCallId" if sub else "callId")
    if not sub:
        changed = state.change(
            ToolCall,
            lambda item: item.call_id == id and item.started_seq is None and item.result_seq is None,
            lambda item: replace(item, started_seq=event.seq, started_ms=event.time_ms),
        )
        if changed is not None:
            return changed
    return _new_call(state, event, data, id)


def _new_call(state: Transcript, event: Recorded, data: dict[str, Any], id: str | None) -> Transcript:
    given = data.get("arguments", "")
    call = ToolCall(
        event.seq,
        event.time_ms,
        state.calls + 1,
        id,
        members.text(data, "name"),
        given if isinstance(given, str) else as_json(given),
        parent=members.text(data, "parentCallId"),
        started_seq=event.seq,
        started_ms=event.time_ms,
    )
    return replace(state, calls=call.number).add(call)


def _result(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    if isinstance(event.surface_op, Replace):
        return state
    sub = event.type != "tool/result"
    message = data if sub else members.inner(data, "message")
    id = members.text(data, "subCallId") if sub else members.text(members.inner(message, "source"), "callId")
    blocks = members.objects(message, "content")
    block = message if sub or not blocks else blocks[0]
    text, other = message_text.text_of(message)
    error = members.inner(data, "error")
    failed = block.get("isError") is True or bool(error)

    def ended(call: ToolCall) -> ToolCall:
        took = None
        # The time of a stand-in is that of the last event before a crash.
        stand_in = members.text(error, "code") in _STAND_INS
        if call.started_seq is not None and call.started_ms is not None and not stand_in:
            took = state.took(call.started_seq, call.started_ms, event)
        return replace(
            call,
            result_seq=event.seq,
            result_id=members.text(message, "id"),
            ended_ms=event.time_ms,
            duration_ms=took,
            is_error=failed,
            error_name=members.text(error, "name"),
            error_code=members.text(error, "code"),
            result=text,
            result_other=other,
        )

    changed = state.change(ToolCall, lambda item: item.call_id == id and item.result_seq is None, ended)
    if changed is not None:
        return changed
    call = ended(ToolCall(event.seq, event.time_ms, state.calls + 1, id, members.text(data, "name")))
    what = f"the result of call {id!r}, which nobody made in this step"
    return replace(state, calls=call.number).add(call).breach("result-without-call", event.seq, what)


HANDLERS: dict[str, Handler] = {
    "tool/call": _call,
    "tool/code-dispatch-start": _call,
    "tool/result": _result,
    "tool/code-dispatch": _result,
}
