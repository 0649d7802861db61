"""Content blocks: what a message is made of.

A block is an object with a tag ``type``. The vocabulary is open; Playhead knows:

- ``text {text}``: prose that is shown;
- ``reasoning {text}``: the model's thinking;
- ``tool-call {id, name, arguments}``: ``arguments`` is the model's JSON text, possibly empty or invalid;
- ``tool-result {toolCallId, content, isError?}``: ``content`` holds blocks again;
- ``image {attachment}``: a reference to bytes kept elsewhere;
- ``tool-addition {toolName}`` and ``tool-removal {toolName}``: how the list of tools changed.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field

from playhead.eventstore.registry import Malformed, Registry, Tagged, Unknown
from playhead.eventstore.value import CallIdField, Flag, Text, Value, Whole


class Block(Tagged):
    """A content block."""


content_blocks: Registry[Block] = Registry("content block", Block, member="type")

AnyBlock: TypeAlias = Block | Unknown | Malformed
BlockField = Annotated[AnyBlock, content_blocks]
Blocks = tuple[BlockField, ...]


@content_blocks.register("text")
class TextBlock(Block):
    type: Literal["text"] = "text"
    text: Text


@content_blocks.register("reasoning")
class ReasoningBlock(Block):
    type: Literal["reasoning"] = "reasoning"
    text: Text


@content_blocks.register("tool-call")
class ToolCallBlock(Block):
    """The model wants a tool to run. ``arguments`` is its JSON text as it came, never repaired."""

    type: Literal["tool-call"] = "tool-call"
    id: CallIdField
    name: Text
    arguments: Text


@content_blocks.register("tool-result")
class ToolResultBlock(Block):
    """What a tool gave back. An absent ``is_error`` means success.

    It is the only block that holds blocks; results in results are read 64 deep, the rest is ``Malformed``.
    """

    type: Literal["tool-result"] = "tool-result"
    tool_call_id: CallIdField
    content: Blocks
    is_error: Flag | None = None

    @classmethod
    def decode(cls, value: Any) -> Self:
        depth = _nesting.get()
        if depth == _MAX_NESTING:
            raise RecursionError(f"more than {_MAX_NESTING} tool results in one another")
        outer = _nesting.set(depth + 1)
        try:
            return super().decode(value)
        finally:
            _nesting.reset(outer)


_MAX_NESTING = 64
_nesting: ContextVar[int] = ContextVar("nesting of the tool result that is being read", default=0)


class Dimensions(Value):
    """Size of a picture in pixels."""

    width: Whole
    height: Whole


class Attachment(Value):
    """A picture by reference. ``attachment_id`` is ``sha256:`` and the digest of the bytes."""

    attachment_id: Text
    media_type: Text
    size_bytes: Whole = Field(alias="bytes")
    width: Whole
    height: Whole
    name: Text | None = None
    original_dimensions: Dimensions | None = None


@content_blocks.register("image")
class ImageBlock(Block):
    type: Literal["image"] = "image"
    attachment: Attachment


@content_blocks.register("tool-addition")
class ToolAdditionBlock(Block):
    """A tool that the next request offers and the one before it did not."""

    type: Literal["tool-addition"] = "tool-addition"
    tool_name: Text


@content_blocks.register("tool-removal")
class ToolRemovalBlock(Block):
    """A tool that the next request no longer offers."""

    type: Literal["tool-removal"] = "tool-removal"
    tool_name: Text
