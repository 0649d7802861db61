"""Messages: what model, people and tools say to each other.

``{id, role, content, source}``, all four required. The same object travels from the inbox through the log to
the request, never wrapped again. A tool result is a message of its own with exactly one ``tool-result``
block; log format 4 stores it flat, with role ``tool``, and its dialect wraps it before it gets here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from playhead.eventstore.blocks import AnyBlock, Blocks, ToolCallBlock, ToolResultBlock
from playhead.eventstore.ids import CallId, MessageId
from playhead.eventstore.sources import (
    AnySource,
    ModelSource,
    SourceField,
    ToolSource,
    UserSource,
    is_person,
)
from playhead.eventstore.value import MessageIdField, Value

Role: TypeAlias = Literal["system", "user", "assistant", "tool", "developer"]


class Message(Value):
    """One message. ``id`` is unique among the pending messages of an inbox, not in a log."""

    id: MessageIdField
    role: Role
    content: Blocks
    source: SourceField

    @property
    def is_prompt(self) -> bool:
        """Whether a person wrote it."""
        return is_person(self.source)

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The tool calls in the content, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))

    @classmethod
    def user(cls, id: str, content: Sequence[AnyBlock], source: AnySource | None = None) -> Message:
        """A message of role ``user``: a person's prompt, or context from ``source``. ``id`` is its alone."""
        return cls(id=MessageId(id), role="user", content=tuple(content), source=source or UserSource())

    @classmethod
    def assistant(
        cls,
        id: MessageId,
        content: Sequence[AnyBlock],
        *,
        provider: str,
        model: str,
        replay_state: Any = None,
    ) -> Message:
        """A model's answer."""
        source = ModelSource(provider=provider, model=model, replay_state=replay_state)
        return cls(id=id, role="assistant", content=tuple(content), source=source)

    @classmethod
    def tool_result(
        cls, id: MessageId, call: CallId, content: Sequence[AnyBlock], *, is_error: bool | None = None
    ) -> Message:
        """What the tool gave back for ``call``."""
        block = ToolResultBlock(tool_call_id=call, content=tuple(content), is_error=is_error)
        return cls(id=id, role="user", content=(block,), source=ToolSource(call_id=call))
