"""Questions whether a tool may run, and their answers.

An answer goes to the last open question of its id. A question without an answer is one that a crash cut off, or that
still waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.growing import Journal
from playhead.projections.inherited import MARKER, Inherited
from playhead.projections.projection import Breach, Column, Projection, ReadTable, Row
from playhead.projections.span import span


class Approval(msgspec.Struct, frozen=True, rename="camel"):
    """Asked at ``seq``. ``outcome`` is None as long as there is no answer; only ``allowed-once`` lets the tool run."""

    seq: int
    asked_ms: int
    id: str
    tool: str
    call_id: str | None
    reason: str | None
    decided_seq: int | None = None
    decided_ms: int | None = None
    outcome: str | None = None


class Approvals(msgspec.Struct, frozen=True, rename="camel"):
    """``pending`` are open questions by id, ``settled`` those that are answered, or will never be."""

    inherited: Inherited
    pending: dict[str, Approval] = {}
    settled: Journal[Approval] = Journal()
    breaches: Journal[Breach] = Journal()


def every(state: Approvals) -> list[Approval]:
    """All questions, in the order in which they were asked."""
    return sorted((*state.settled, *state.pending.values()), key=lambda asked: asked.seq)


def _begin(header: SessionHeader) -> Approvals:
    return Approvals(Inherited.of(header))


def _apply(state: Approvals, event: Recorded) -> Approvals:
    match event.type:
        case "approval/asked":
            return _asked(state, event, members.of(event))
        case "approval/decided":
            return _decided(state, event, members.of(event))
    inherited = state.inherited.after(event)
    return state if inherited is state.inherited else replace(state, inherited=inherited)


def _asked(state: Approvals, event: Recorded, data: dict[str, Any]) -> Approvals:
    id, tool = members.text(data, "id"), members.text(data, "toolName")
    if id is None or tool is None:
        return _breach(state, "approval-malformed", event, "a question without an id or a tool")
    if id in state.pending:
        state = _breach(state, "approval-asked-twice", event, f"{id!r} was asked before and not answered")
        state = replace(state, settled=state.settled.plus([state.pending[id]]))
    asked = Approval(
        event.seq, event.time_ms, id, tool, members.text(data, "callId"), members.text(data, "reason")
    )
    return replace(state, pending=state.pending | {id: asked})


def _decided(state: Approvals, event: Recorded, data: dict[str, Any]) -> Approvals:
    id = members.text(data, "id")
    asked = None if id is None else state.pending.get(id)
    if asked is None:
        return _breach(state, "approval-not-asked", event, f"an answer to {id!r}, which nobody asks")
    answered = replace(
        asked,
        decided_seq=event.seq,
        decided_ms=event.time_ms,
        outcome=members.text(data, "outcome") or "unavailable",
    )
    pending = {other: question for other, question in state.pending.items() if other != id}
    return replace(state, pending=pending, settled=state.settled.plus([answered]))


def _breach(state: Approvals, kind: str, event: Recorded, message: str) -> Approvals:
    return replace(state, breaches=state.breaches.plus([Breach(kind, event.seq, message)]))


def _view(state: Approvals) -> Any:
    return {
        "inheritedTo": state.inherited.to_seq,
        "approvals": msgspec.to_builtins(every(state)),
        "breaches": msgspec.to_builtins(list(state.breaches)),
    }


APPROVALS = ReadTable(
    "read_approval",
    "Questions whether a tool may run, and how they were answered.",
    (
        Column("inherited", "bool", "the parent's, taken over by a fork"),
        Column("approval_id", "text", "id of the question"),
        Column("tool", "text", "the tool that wants to run"),
        Column("call_id", "text", "the tool call", optional=True),
        Column("reason", "text", "why it was asked", optional=True),
        Column("asked_ms", "int", "when it was asked"),
        Column("decided_seq", "int", "the event with the answer", optional=True),
        Column("decided_ms", "int", "when it was answered", optional=True),
        Column(
            "waited_ms",
            "int",
            "from the question to the answer; NULL where the clock ran back",
            optional=True,
        ),
        Column(
            "outcome",
            "text",
            "allowed-once, rejected, cancelled or unavailable; NULL: no answer",
            optional=True,
        ),
    ),
    key=("seq",),
)


def _rows(state: Approvals) -> Iterator[Row]:
    for asked in every(state):
        waited = span(asked.asked_ms, asked.decided_ms)
        yield Row(
            APPROVALS.name,
            asked.seq,
            (
                state.inherited.covers(asked.seq),
                asked.id,
                asked.tool,
                asked.call_id,
                asked.reason,
                asked.asked_ms,
                asked.decided_seq,
                asked.decided_ms,
                waited,
                asked.outcome,
            ),
        )


approvals: Projection[Approvals] = Projection(
    name="approvals",
    version=1,
    state=Approvals,
    handles=frozenset({"approval/asked", "approval/decided", MARKER}),
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(APPROVALS,),
    rows=_rows,
)
