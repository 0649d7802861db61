"""Marks of the transcript: titles, where a session was taken up again, commands, approvals, goals, lists of todos."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded
from playhead.projections.inherited import MARKER
from playhead.projections.transcript_items import Mark
from playhead.projections.transcript_state import Handler, Transcript


def _title(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    title = members.text(data, "title")
    if title is None:
        return state
    return replace(state, title=title).add(Mark(event.seq, event.time_ms, "title", title))


def _end_seed(state: Transcript, event: Recorded, _data: dict[str, Any]) -> Transcript:
    state = replace(state.without_compaction(), inherited=state.inherited.after(event))
    if state.inherited.to_seq == event.seq and event.seq:
        state = replace(state, next_step=(), claimed=())
        return state.add(Mark(event.seq, event.time_ms, "inherited"))
    return state.add(Mark(event.seq, event.time_ms, "resumed"))


def _command(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    words = filter(None, (members.text(data, "name"), members.text(data, "args")))
    return state.add(Mark(event.seq, event.time_ms, "command", "/" + " ".join(words)))


def _command_done(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    failed = data.get("kind") == "error"
    text = members.text(data, "text") or ("failed" if failed else "done")
    return state.add(Mark(event.seq, event.time_ms, "command-result", text, failed))


def _asked(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    words = filter(None, (members.text(data, "toolName"), members.text(data, "reason")))
    return state.add(Mark(event.seq, event.time_ms, "approval", "asked: " + ", ".join(words)))


def _decided(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    outcome = members.text(data, "outcome") or "unknown"
    return state.add(
        Mark(event.seq, event.time_ms, "approval", f"decided: {outcome}", outcome != "allowed-once")
    )


def _goal(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    operation = members.text(data, "operation") or "changed"
    objective = members.text(members.inner(data, "goal"), "objective")
    text = operation if objective is None else f"{operation}: {objective}"
    return state.add(Mark(event.seq, event.time_ms, "goal", text))


def _todo(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    signs = {"completed": "[x]", "in_progress": "[~]"}
    lines = [
        f"{signs.get(members.text(todo, 'status') or '', '[ ]')} {members.text(todo, 'content') or ''}"
        for todo in members.objects(data, "todos")
    ]
    return state.add(Mark(event.seq, event.time_ms, "todo", "\n".join(lines)))


HANDLERS: dict[str, Handler] = {
    "session/title": _title,
    MARKER: _end_seed,
    "command/run": _command,
    "command/done": _command_done,
    "approval/asked": _asked,
    "approval/decided": _decided,
    "goal/change": _goal,
    "todo/write": _todo,
}
