"""One line about a session, for lists: its title, what happened in it so far, and in what state its log ends.

Counts are of the session's own: what it inherited from its parent counts there. A title may be inherited. Token deltas
are not read, so ``first_ms`` and ``last_ms`` are of the other events.

States:

========== ======================================================================================
``empty``  no turn was ever started
``open``   a turn is open: somebody works on it, or died and has not come back yet
``crashed`` the last turn was closed by a repair, because the process that ran it had died
``idle``   the last turn is over, or the parent's: what the session inherited stands still
========== ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import titles
from playhead.projections.attempt import whole
from playhead.projections.inherited import MARKER, Inherited
from playhead.projections.projection import EVERY_TYPE, Column, Projection, ReadTable, Row
from playhead.projections.provenance import is_prompt

State = Literal["empty", "open", "crashed", "idle"]


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """What the header says. ``created_ms`` is epoch milliseconds."""

    created_ms: int
    version: int
    cwd: str | None
    parent: str | None
    origin: str | None
    delegation_depth: int
    agent_preset: str | None


class Counts(msgspec.Struct, frozen=True, rename="camel"):
    """What happened in the session itself."""

    prompts: int = 0
    turns: int = 0
    steps: int = 0
    answers: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    compactions: int = 0
    last_prompt_ms: int | None = None


class SessionLine(msgspec.Struct, frozen=True, rename="camel"):
    """See the module. ``next_seq`` is the one behind the last event seen.

    ``prompt`` is what stands in for a title; ``ending`` is how the last turn ended, ``ended_seq`` where. ``mode`` and
    ``label`` are those of a subagent, as its descriptor says.
    """

    header: Header
    inherited: Inherited
    counts: Counts = Counts()
    next_seq: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    title: str | None = None
    titled_by: str | None = None
    prompt: str | None = None
    turn_open: bool = False
    turn: int | None = None
    ending: str | None = None
    ended_seq: int = -1
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    label: str | None = None

    @property
    def state(self) -> State:
        """In what state the log ends."""
        if self.turn_open:
            return "open"
        if self.ending is None:
            return "empty"
        is_own = not self.inherited.covers(self.ended_seq)
        return "crashed" if self.ending == "interrupted" and is_own else "idle"

    @property
    def shown_title(self) -> str | None:
        """The title, or the first words of the first prompt."""
        return self.prompt if self.title is None else self.title


def _begin(header: SessionHeader) -> SessionLine:
    told = Header(
        header.created_ms,
        header.version,
        header.cwd,
        header.parent,
        header.origin,
        header.delegation_depth or 0,
        header.agent_preset,
    )
    return SessionLine(told, Inherited.of(header))


def _apply(state: SessionLine, event: Recorded) -> SessionLine:
    if event.type in _HANDLERS:
        state = _HANDLERS[event.type](state, event, members.of(event))
    time_ms = event.time_ms
    return replace(
        state,
        next_seq=event.seq + 1,
        first_ms=time_ms if state.first_ms is None else min(state.first_ms, time_ms),
        last_ms=time_ms if state.last_ms is None else max(state.last_ms, time_ms),
    )


def _count(state: SessionLine, event: Recorded, **more: int) -> SessionLine:
    """``more`` added to the counts, unless the event is the parent's."""
    if state.inherited.covers(event.seq):
        return state
    counts = state.counts
    return replace(
        state, counts=replace(counts, **{name: getattr(counts, name) + n for name, n in more.items()})
    )


def _end_seed(state: SessionLine, event: Recorded, _data: dict[str, Any]) -> SessionLine:
    inherited = state.inherited.after(event)
    return state if inherited == state.inherited else replace(state, inherited=inherited, counts=Counts())


def _turn_start(state: SessionLine, event: Recorded, data: dict[str, Any]) -> SessionLine:
    return _count(replace(state, turn_open=True, turn=whole(data, "turn")), event, turns=1)


def _turn_end(state: SessionLine, event: Recorded, data: dict[str, Any]) -> SessionLine:
    kind = members.text(members.inner(data, "reason"), "kind") or "unknown"
    return replace(state, turn_open=False, ending=kind, ended_seq=event.seq)


def _step_start(state: SessionLine, event: Recorded, _data: dict[str, Any]) -> SessionLine:
    return _count(state, event, steps=1)


def _message(state: SessionLine, event: Recorded, data: dict[str, Any]) -> SessionLine:
    if isinstance(event.surface_op, Replace) or not is_prompt(data.get("source")):
        return state
    if state.prompt is None and (text := titles.prompt_text(data)) is not None:
        state = replace(state, prompt=titles.fallback(text))
    if not state.inherited.covers(event.seq):
        state = replace(state, counts=replace(state.counts, last_prompt_ms=event.time_ms))
    return _count(state, event, prompts=1)


def _answer(state: SessionLine, event: Recorded, data: dict[str, Any]) -> SessionLine:
    if isinstance(event.surface_op, Replace):
        return state
    return _count(_asked(state, members.inner(members.inner(data, "message"), "source")), event, answers=1)


def _asked(state: SessionLine, route: dict[str, Any]) -> SessionLine:
    """Which model was used last; a route without a model tells nothing."""
    model = members.text(route, "model")
    if model is None:
        return state
    return replace(state, provider=members.text(route, "provider"), model=model)


def _request(state: SessionLine, _event: Recorded, data: dict[str, Any]) -> SessionLine:
    return _asked(state, members.inner(members.inner(data, "header"), "config"))


def _context(state: SessionLine, _event: Recorded, data: dict[str, Any]) -> SessionLine:
    return _asked(state, data)


def _call(state: SessionLine, event: Recorded, _data: dict[str, Any]) -> SessionLine:
    return _count(state, event, tool_calls=1)


def _result(state: SessionLine, event: Recorded, data: dict[str, Any]) -> SessionLine:
    if isinstance(event.surface_op, Replace):
        return state
    blocks = members.objects(members.inner(data, "message"), "content")
    failed = bool(members.inner(data, "error")) or any(block.get("isError") is True for block in blocks)
    return _count(state, event, tool_errors=1) if failed else state


def _compaction(state: SessionLine, event: Recorded, _data: dict[str, Any]) -> SessionLine:
    return _count(state, event, compactions=1)


def _title(state: SessionLine, _event: Recorded, data: dict[str, Any]) -> SessionLine:
    title = members.text(data, "title")
    if title is None:
        return state
    return replace(state, title=title, titled_by=members.text(members.inner(data, "source"), "kind"))


def _preset(state: SessionLine, _event: Recorded, data: dict[str, Any]) -> SessionLine:
    preset = members.text(data, "agentPreset")
    return state if preset is None else replace(state, header=replace(state.header, agent_preset=preset))


def _descriptor(state: SessionLine, _event: Recorded, data: dict[str, Any]) -> SessionLine:
    mode = members.text(data, "mode")
    return state if mode is None else replace(state, mode=mode, label=members.text(data, "label"))


_HANDLERS = {
    MARKER: _end_seed,
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "user/message": _message,
    "assistant/message": _answer,
    "request/header": _request,
    "request/context": _context,
    "tool/call": _call,
    "tool/result": _result,
    "compaction/start": _compaction,
    "session/title": _title,
    "agent-preset/selected": _preset,
    "subagent/descriptor": _descriptor,
}


def _view(state: SessionLine) -> Any:
    return {
        **msgspec.to_builtins(state.header),
        "inheritedTo": state.inherited.to_seq,
        "title": state.title,
        "titledBy": state.titled_by,
        "shownTitle": state.shown_title,
        "state": state.state,
        "lastTurn": state.turn,
        "lastEnding": state.ending,
        **msgspec.to_builtins(state.counts),
        "nextSeq": state.next_seq,
        "firstMs": state.first_ms,
        "lastMs": state.last_ms,
        "provider": state.provider,
        "model": state.model,
        "subagentMode": state.mode,
        "subagentLabel": state.label,
    }


SESSIONS = ReadTable(
    "read_session",
    "One row per session: what it is called, how much happened in it, and in what state its log ends.",
    (
        Column("title", "text", "the title, or the first words of the first prompt", optional=True),
        Column(
            "titled_by", "text", "user, provider or fallback; NULL where the log has no title", optional=True
        ),
        Column("state", "text", "empty, open (a turn is under way, or its process died), crashed or idle"),
        Column("created_ms", "int", "when the session was made"),
        Column("first_ms", "int", "earliest time of an event that is no token delta", optional=True),
        Column("last_ms", "int", "latest time of an event that is no token delta", optional=True),
        Column("last_prompt_ms", "int", "when a person last wrote", optional=True),
        Column(
            "events", "int", "events up to the last one that is no token delta, inherited ones among them"
        ),
        Column("prompts", "int", "messages that a person wrote"),
        Column("turns", "int", "turns that began"),
        Column("steps", "int", "steps that began"),
        Column("answers", "int", "answers of the model"),
        Column("tool_calls", "int", "tool calls that were dispatched"),
        Column("tool_errors", "int", "tool results that say that the call failed"),
        Column("compactions", "int", "compactions that began"),
        Column("last_turn", "int", "number of the last turn that began", optional=True),
        Column("last_ending", "text", "how the last turn that ended did so", optional=True),
        Column("provider", "text", "the provider used last", optional=True),
        Column("model", "text", "the model used last", optional=True),
        Column("format", "int", "version of the log format"),
        Column("cwd", "text", "working directory", optional=True),
        Column("parent", "text", "id of the session that it was forked from, or works for", optional=True),
        Column("inherited_events", "int", "events that it took over from its parent"),
        Column("origin", "text", "what made it, where that is no person", optional=True),
        Column("depth", "int", "how many sessions it is away from one that a person began"),
        Column("agent_preset", "text", "the agent preset", optional=True),
        Column("subagent_mode", "text", "one-shot or continuable, of a subagent", optional=True),
        Column("subagent_label", "text", "what the subagent is for", optional=True),
    ),
    key=("seq",),
)


def _rows(state: SessionLine) -> Iterator[Row]:
    header, counts = state.header, state.counts
    yield Row(
        SESSIONS.name,
        max(0, state.next_seq - 1),
        (
            state.shown_title,
            state.titled_by,
            state.state,
            header.created_ms,
            state.first_ms,
            state.last_ms,
            counts.last_prompt_ms,
            state.next_seq,
            counts.prompts,
            counts.turns,
            counts.steps,
            counts.answers,
            counts.tool_calls,
            counts.tool_errors,
            counts.compactions,
            state.turn,
            state.ending,
            state.provider,
            state.model,
            header.version,
            header.cwd,
            header.parent,
            state.inherited.to_seq,
            header.origin,
            header.delegation_depth,
            header.agent_preset,
            state.mode,
            state.label,
        ),
    )


session_list: Projection[SessionLine] = Projection(
    name="session-list",
    version=2,
    state=SessionLine,
    handles=EVERY_TYPE,
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(SESSIONS,),
    rows=_rows,
)
