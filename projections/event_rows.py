"""Every event but token deltas as a row: the log itself, for SQL where facts lie in compressed segments.

The rows are logical events, in the present vocabulary whatever the format of the log. They take about as much space
as the log without its deltas, so they are made only when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections.attempt import whole
from playhead.projections.projection import EVERY_TYPE, Column, Projection, ReadTable, Row


class EventCount(msgspec.Struct, frozen=True, rename="camel"):
    """``rows`` have been made; ``last_seq`` is the seq of the last event, ``again`` how many of that seq came before.

    One stored fact can be several events.
    """

    rows: int = 0
    last_seq: int = -1
    again: int = 0


def _begin(_header: SessionHeader) -> EventCount:
    return EventCount()


def _apply(state: EventCount, event: Recorded) -> EventCount:
    again = state.again + 1 if event.seq == state.last_seq else 0
    return EventCount(state.rows + 1, event.seq, again)


def _view(state: EventCount) -> Any:
    return {"rows": state.rows}


EVENTS = ReadTable(
    "read_event",
    "Every event but token deltas, in the present vocabulary.",
    (
        Column("number", "int", "0, or 1, 2, ... where one stored fact is several events"),
        Column("time_ms", "int", "when it happened"),
        Column("type", "text", "what kind of event it is"),
        Column("turn", "int", "the turn that it names", optional=True),
        Column("step", "int", "the step that it names", optional=True),
        Column("call_id", "text", "the tool call that it names", optional=True),
        Column("surface", "text", "append or replace, where it enters the conversation", optional=True),
        Column("replaces_from_seq", "int", "first event that it replaces", optional=True),
        Column("replaces_to_seq", "int", "last event that it replaces, inclusive", optional=True),
        Column("ignorable", "bool", "whoever does not know the type may pass it over"),
        Column("data", "json", "what it says"),
    ),
    key=("seq", "number"),
    appended=True,
)


def _emit(state: EventCount, event: Recorded) -> Iterator[Row]:
    data = members.of(event)
    op = event.surface_op
    replaced = op if isinstance(op, Replace) else None
    yield Row(
        EVENTS.name,
        event.seq,
        (
            state.again,
            event.time_ms,
            event.type,
            whole(data, "turn"),
            whole(data, "step"),
            _call_id(event.type, data),
            None if op is None else "append" if replaced is None else "replace",
            None if replaced is None else replaced.start,
            None if replaced is None else replaced.end,
            event.ignorable,
            _value(event),
        ),
    )


def _call_id(type: str, data: dict[str, Any]) -> str | None:
    """The tool call that an event is about."""
    if type == "tool/result":
        return members.text(members.inner(members.inner(data, "message"), "source"), "callId")
    for member in ("callId", "subCallId"):
        if (found := members.text(data, member)) is not None:
            return found
    return members.text(members.inner(data, "toolCall"), "callId")


def _value(event: Recorded) -> Any:
    try:
        return event.json
    except (ValueError, RecursionError):
        return None


events: Projection[EventCount] = Projection(
    name="events",
    version=1,
    state=EventCount,
    handles=EVERY_TYPE,
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(EVENTS,),
    emit=_emit,
    on_request=True,
)
