"""The agent's to-do list. Written by the todo tool, inside an open turn."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Text, Value


class Todo(Value):
    """``status``: ``pending``, ``in_progress`` or ``completed``."""

    content: Text
    status: Text


@event_type("todo/write")
class TodosWritten(Event):
    """The whole list; the last one counts."""

    todos: tuple[Todo, ...]
