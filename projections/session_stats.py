"""How long a session took, and what for: the figures that the runtimes show beside a session.

* ``steps`` and ``turns`` that were ended; a turn counts when one of its steps did.
* ``llmMs``: from the start of a step to its answer. A step without one adds nothing.
* ``ttftMs``, ``ttftSteps``: from the start of a step to its first token, over the steps that have an answer and one.
* ``decodeMs``, ``decodeTokens``: from the first token to the answer, where the answer tells its output tokens.
* ``toolMs``: from each call of a tool to its result; a call whose turn ends before adds nothing.

A span that runs backwards is 0. A second answer of a step adds nothing. An inherited part counts like any other.

The first token may be any delta, and only reading them tells, so this projection wants deltas; all but the first
tokens of a step are passed over unread. From log format 2 on streams lie in events, and there are no deltas to read.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SAFE_INTEGER
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import whole
from playhead.projections.embedded_stream import is_token, summarise
from playhead.projections.projection import Projection


class OpenStep(msgspec.Struct, frozen=True, rename="camel"):
    """A step without an answer so far."""

    turn: int | None
    step: int | None
    start_time: int
    first_token_time: int | None = None


class SessionStats(msgspec.Struct, frozen=True, rename="camel"):
    """The figures, and what is open. ``pending_calls`` has the time of each call of a tool without a result."""

    turns: int = 0
    steps: int = 0
    llm_ms: int = 0
    tool_ms: int = 0
    ttft_ms: int = 0
    ttft_steps: int = 0
    decode_ms: int = 0
    decode_tokens: float = 0
    last_turn: int | None = None
    open_step: OpenStep | None = None
    pending_calls: dict[str, int] = {}


def _begin(_header: SessionHeader) -> SessionStats:
    return SessionStats()


def _apply(state: SessionStats, event: Recorded) -> SessionStats:
    step = state.open_step
    match event.type:
        case "assistant/chunk":
            if step is None or step.first_token_time is not None:
                return state
            return _chunk(state, step, event)
        case "step/start":
            data = members.of(event)
            opened = OpenStep(whole(data, "turn"), whole(data, "step"), event.time_ms)
            return state if opened == step else replace(state, open_step=opened)
        case "assistant/attempt":
            return state if step is None else _token(state, step, members.of(event))
        case "assistant/message":
            return state if step is None else _answer(state, step, event)
        case "step/end":
            turn = whole(members.of(event), "turn")
            new = 0 if turn == state.last_turn else 1
            return replace(
                state, steps=state.steps + 1, turns=state.turns + new, last_turn=turn, open_step=None
            )
        case "tool/call":
            call = members.text(members.of(event), "callId")
            if call is None or state.pending_calls.get(call) == event.time_ms:
                return state
            return replace(state, pending_calls=state.pending_calls | {call: event.time_ms})
        case "tool/result":
            return _result(state, event)
    return state if not state.pending_calls else replace(state, pending_calls={})  # turn/end


def _is_at(step: OpenStep, data: dict[str, Any]) -> bool:
    return (whole(data, "turn"), whole(data, "step")) == (step.turn, step.step)


def _chunk(state: SessionStats, step: OpenStep, event: Recorded) -> SessionStats:
    data = members.of(event)
    if not is_token(members.inner(data, "chunk")) or not _is_at(step, data):
        return state
    return replace(state, open_step=replace(step, first_token_time=event.time_ms))


def _token(state: SessionStats, step: OpenStep, data: dict[str, Any]) -> SessionStats:
    """The first token of a stream that lies inside an event."""
    if step.first_token_time is not None or not _is_at(step, data):
        return state
    first = summarise(data).first_token_ms
    return state if first is None else replace(state, open_step=replace(step, first_token_time=first))


def _answer(state: SessionStats, step: OpenStep, event: Recorded) -> SessionStats:
    data = members.of(event)
    if not _is_at(step, data):
        return state
    first = step.first_token_time
    if first is None:
        first = summarise(data).first_token_ms
    state = replace(state, open_step=None, llm_ms=state.llm_ms + _span(step.start_time, event.time_ms))
    if first is None:
        return state
    state = replace(
        state, ttft_ms=state.ttft_ms + _span(step.start_time, first), ttft_steps=state.ttft_steps + 1
    )
    output = members.number(members.inner(data, "usage"), "outputTokens")
    if output is None or not 0 <= output <= SAFE_INTEGER:
        return state
    return replace(
        state,
        decode_ms=state.decode_ms + _span(first, event.time_ms),
        decode_tokens=state.decode_tokens + output,
    )


def _result(state: SessionStats, event: Recorded) -> SessionStats:
    source = members.inner(members.inner(members.of(event), "message"), "source")
    call = members.text(source, "callId")
    if call is None or call not in state.pending_calls:
        return state
    pending = {other: ms for other, ms in state.pending_calls.items() if other != call}
    tool_ms = state.tool_ms + _span(state.pending_calls[call], event.time_ms)
    return replace(state, tool_ms=tool_ms, pending_calls=pending)


def _span(start_ms: int, end_ms: int) -> int:
    return max(0, end_ms - start_ms)


def _view(state: SessionStats) -> Any:
    figures: dict[str, Any] = msgspec.to_builtins(state)
    return {name: figures[name] for name in _VIEW}


_VIEW = ("turns", "steps", "llmMs", "toolMs", "ttftMs", "ttftSteps", "decodeMs", "decodeTokens")

session_stats: Projection[SessionStats] = Projection(
    name="session-stats",
    version=1,
    state=SessionStats,
    handles=frozenset(
        {
            "step/start",
            "step/end",
            "turn/end",
            "assistant/chunk",
            "assistant/message",
            "assistant/attempt",
            "tool/call",
            "tool/result",
        }
    ),
    initial=_begin,
    apply=_apply,
    view=_view,
    deltas=True,
)
