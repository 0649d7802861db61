"""The agent's to-do list as it stands.

Each ``todo/write`` holds the whole list. A new turn begins without one, so there is none before the first list of
the turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.projection import Column, Projection, ReadTable, Row


class Todo(msgspec.Struct, frozen=True):
    """``status``: ``pending``, ``in_progress`` or ``completed``."""

    content: str
    status: str


class Todos(msgspec.Struct, frozen=True, rename="camel"):
    """The list that was written at ``seq``; ``items`` is None where there is no list."""

    items: tuple[Todo, ...] | None = None
    seq: int = 0
    written_ms: int = 0


def _begin(_header: SessionHeader) -> Todos:
    return Todos()


def _apply(state: Todos, event: Recorded) -> Todos:
    if event.type == "turn/start":
        return state if state.items is None else Todos()
    data = members.of(event)
    if not isinstance(data.get("todos"), list):
        return state
    items = tuple(
        Todo(content, status)
        for todo in members.objects(data, "todos")
        if (content := members.text(todo, "content")) is not None
        and (status := members.text(todo, "status")) is not None
    )
    return Todos(items, event.seq, event.time_ms)


def _view(state: Todos) -> Any:
    return None if state.items is None else msgspec.to_builtins(list(state.items))


TODOS = ReadTable(
    "read_todo",
    "The to-do list of the last turn, one row per entry.",
    (
        Column("number", "int", "place in the list, from 1"),
        Column("content", "text", "what is to be done"),
        Column("status", "text", "pending, in_progress or completed"),
        Column("written_ms", "int", "when the list was written"),
    ),
    key=("number",),
)


def _rows(state: Todos) -> Iterator[Row]:
    for number, todo in enumerate(state.items or (), 1):
        yield Row(TODOS.name, state.seq, (number, todo.content, todo.status, state.written_ms))


todos: Projection[Todos] = Projection(
    name="todos",
    version=1,
    state=Todos,
    handles=frozenset({"todo/write", "turn/start"}),
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(TODOS,),
    rows=_rows,
)
