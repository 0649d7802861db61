"""Turns and steps of the transcript: what opens and closes them.

A turn that another one follows without ``turn/end`` was left by a crash; a step without a turn makes one.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import failure_of, whole
from playhead.projections.transcript_items import Ending, Step, Turn
from playhead.projections.transcript_state import Handler, Transcript


def _turn_start(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    if state.turn is not None:
        what = f"turn {state.turn.number} was not closed when the next one began"
        state = state.without_turn(event, None).breach("turn-not-closed", event.seq, what)
    state = state.without_between()
    return replace(state, turn=Turn(event.seq, event.time_ms, number=whole(data, "turn")))


def _turn_end(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    if state.turn is None:
        return state.breach("turn-not-open", event.seq, "a turn ends that did not begin")
    if state.step is not None:
        what = f"step {state.step.number} was not closed when its turn ended"
        state = state.breach("step-not-closed", event.seq, what)
    return state.without_turn(event, _ending(members.inner(data, "reason")))


def _ending(reason: dict[str, Any]) -> Ending:
    kind = members.text(reason, "kind") or "unknown"
    if kind == "error":
        return Ending(kind, failure=failure_of(members.inner(reason, "error")))
    cause = members.inner(reason, "reason")
    told = ": ".join(filter(None, (members.text(cause, "kind"), members.text(cause, "reason"))))
    return Ending(kind, cause=told or None)


def _step_start(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    if state.turn is None:
        turn = Turn(event.seq, event.time_ms, number=whole(data, "turn"))
        state = replace(state.without_between(), turn=turn)
        state = state.breach("step-without-turn", event.seq, "a step begins outside of a turn")
    if state.step is not None:
        what = f"step {state.step.number} was not closed when the next one began"
        state = state.without_step(event, closed=False).breach("step-not-closed", event.seq, what)
    return replace(state, step=Step(event.seq, event.time_ms, number=whole(data, "step")))


def _step_end(state: Transcript, event: Recorded, _data: dict[str, Any]) -> Transcript:
    if state.step is None:
        return state.breach("step-not-open", event.seq, "a step ends that did not begin")
    return state.without_step(event)


HANDLERS: dict[str, Handler] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
}
