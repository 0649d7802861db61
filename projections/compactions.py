"""Compactions: parts of the conversation that gave way to a summary, and tool results that were cut.

A summary lies between its start and its end; the message that takes the place of what it sums up follows it at once.
A cut has one event, and the shorter result follows. A summary that has not ended is ``open``; it is ``stale`` when the
session was resumed behind it, or another one began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections.attempt import Tokens, tokens_of, whole
from playhead.projections.growing import Journal
from playhead.projections.inherited import MARKER, Inherited
from playhead.projections.projection import Column, Projection, ReadTable, Row
from playhead.projections.span import span

Outcome = Literal["done", "failed", "open", "stale"]


class Compaction(msgspec.Struct, frozen=True, rename="camel"):
    """``kind`` is ``summary`` or ``prune``. ``shadowed`` events of ``shadowed_tokens`` gave way to ``replaced_by``."""

    seq: int
    kind: str
    started_ms: int
    id: str | None = None
    turn: int | None = None
    command_id: str | None = None
    outcome: Outcome = "open"
    ended_ms: int | None = None
    shadowed: int | None = None
    shadowed_tokens: int | None = None
    provider: str | None = None
    model: str | None = None
    tokens: Tokens | None = None
    replaced_by: int | None = None


class Compactions(msgspec.Struct, frozen=True, rename="camel"):
    """``current`` has begun and not ended, or is a cut whose result comes next."""

    inherited: Inherited
    current: Compaction | None = None
    settled: Journal[Compaction] = Journal()


def every(state: Compactions) -> list[Compaction]:
    """All of them, in order."""
    return [*state.settled, *([state.current] if state.current is not None else [])]


def _begin(header: SessionHeader) -> Compactions:
    return Compactions(Inherited.of(header))


def _apply(state: Compactions, event: Recorded) -> Compactions:
    data = members.of(event)
    match event.type:
        case "compaction/start":
            begun = Compaction(
                event.seq,
                "summary",
                event.time_ms,
                id=members.text(data, "compactionId"),
                turn=whole(data, "turn"),
                command_id=members.text(data, "sourceCommandId"),
            )
            return replace(_settled(state), current=begun)
        case "compaction/prune":
            cut = Compaction(
                event.seq,
                "prune",
                event.time_ms,
                outcome="done",
                ended_ms=event.time_ms,
                shadowed=_length(data.get("shadowedSeqs")),
                shadowed_tokens=whole(data, "shadowedTokenCount"),
            )
            return replace(_settled(state), current=cut)
        case "compaction/summary":
            return _summary(state, event, data)
        case "compaction/end":
            return _end(state, event, data)
        case "session/end-seed":
            inherited = state.inherited.after(event)
            if inherited is not state.inherited:
                state = replace(state, inherited=inherited)
            return _settled(state)
    held = state.current
    if held is None or held.replaced_by is not None or not isinstance(event.surface_op, Replace):
        return state
    held = replace(held, replaced_by=event.seq)
    return _settled(state, held) if held.kind == "prune" else replace(state, current=held)


def _summary(state: Compactions, event: Recorded, data: dict[str, Any]) -> Compactions:
    if state.current is None or state.current.kind == "prune":
        begun = Compaction(event.seq, "summary", event.time_ms, id=members.text(data, "compactionId"))
        state = replace(_settled(state), current=begun)
    assert state.current is not None
    told = replace(
        state.current,
        shadowed=_length(data.get("shadowedSeqs")),
        shadowed_tokens=whole(data, "shadowedTokenCount"),
        provider=members.text(data, "provider"),
        model=members.text(data, "model"),
        tokens=tokens_of(data),
    )
    return state if told == state.current else replace(state, current=told)


def _end(state: Compactions, event: Recorded, data: dict[str, Any]) -> Compactions:
    held = state.current
    if held is None or held.kind == "prune":
        return state
    outcome: Outcome = "done" if data.get("error") is None else "failed"
    return _settled(state, replace(held, outcome=outcome, ended_ms=event.time_ms))


def _settled(state: Compactions, held: Compaction | None = None) -> Compactions:
    """The current one, or ``held`` in its place, is over; one that has not ended is stale."""
    over = held or state.current
    if over is None:
        return state
    if over.outcome == "open":
        over = replace(over, outcome="stale")
    return replace(state, current=None, settled=state.settled.plus([over]))


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _view(state: Compactions) -> Any:
    return {"inheritedTo": state.inherited.to_seq, "compactions": msgspec.to_builtins(every(state))}


COMPACTIONS = ReadTable(
    "read_compaction",
    "Parts of the conversation that gave way to a summary, and tool results that were cut.",
    (
        Column("inherited", "bool", "the parent's, taken over by a fork"),
        Column("kind", "text", "summary, or prune for a tool result that was cut"),
        Column("compaction_id", "text", "id of a summary", optional=True),
        Column("turn", "int", "the turn in which it was made; NULL between turns", optional=True),
        Column("command_id", "text", "the command of a person that asked for it", optional=True),
        Column("outcome", "text", "done, failed, open (not over) or stale (never to be over)"),
        Column("started_ms", "int", "when it began"),
        Column("ended_ms", "int", "when it was over", optional=True),
        Column("duration_ms", "int", "how long it took; NULL where the clock ran back", optional=True),
        Column("shadowed_events", "int", "events that gave way", optional=True),
        Column("shadowed_tokens", "int", "tokens in them, as estimated", optional=True),
        Column("provider", "text", "who made the summary", optional=True),
        Column("model", "text", "the model that made the summary", optional=True),
        Column("input_tokens", "int", "uncached input of the summary's call", optional=True),
        Column("output_tokens", "int", "output of the summary's call", optional=True),
        Column("replaced_by_seq", "int", "the event that took the place of the others", optional=True),
    ),
    key=("seq",),
)


def _rows(state: Compactions) -> Iterator[Row]:
    for made in every(state):
        tokens = made.tokens or Tokens()
        yield Row(
            COMPACTIONS.name,
            made.seq,
            (
                state.inherited.covers(made.seq),
                made.kind,
                made.id,
                made.turn,
                made.command_id,
                made.outcome,
                made.started_ms,
                made.ended_ms,
                span(made.started_ms, made.ended_ms),
                made.shadowed,
                made.shadowed_tokens,
                made.provider,
                made.model,
                tokens.input,
                tokens.output,
                made.replaced_by,
            ),
        )


compactions: Projection[Compactions] = Projection(
    name="compactions",
    version=1,
    state=Compactions,
    handles=frozenset(
        {
            "compaction/start",
            "compaction/summary",
            "compaction/end",
            "compaction/prune",
            "user/message",
            "tool/result",
            MARKER,
        }
    ),
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(COMPACTIONS,),
    rows=_rows,
)
