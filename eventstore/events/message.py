"""Messages that people, programs and the system put before the model. All are on the surface.

The answers of the model are in ``assistant.py``, the results of tools in ``tool.py``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from playhead.eventstore.messages import Message
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import SeqField, Whole


@event_type("user/message")
class UserMessaged(Event):
    """Content of role ``user`` enters the conversation: a prompt, injected context, a goal round, a summary.

    Written right after ``step/start``, one per message of the step's input, and by compaction, where it takes
    the place of what it sums up. Whether a person wrote it is told by the message's source. The data of the
    event is the message itself.
    """

    surface: ClassVar[bool] = True

    message: Message

    @classmethod
    def decode(cls, value: Any) -> Self:
        return cls(message=Message.decode(value))

    def to_json(self) -> Any:
        return self.message.to_json()


@event_type("system/message")
class SystemMessaged(Event):
    """The system prompt, from log format 3 on. Written in the first step, and again when it changes."""

    surface: ClassVar[bool] = True

    turn: Whole
    step: Whole
    message: Message


@event_type("developer/message")
class DeveloperMessaged(Event):
    """A notice for the model that no person wrote: which tools came and went. From log format 4 on.

    Written right behind a ``request/header`` whose tools changed; ``header_seq`` is the seq of that header.
    It is on the surface, but not in the request, which carries the new tools anyway.
    """

    surface: ClassVar[bool] = True

    turn: Whole
    step: Whole
    message: Message
    header_seq: SeqField | None = None
