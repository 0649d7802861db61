"""Chunks that look as every writer writes them, read in one go.

A log holds more chunks than anything else, and nearly all of them have the members of their kind and no others.
``stream`` reads the rest.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from playhead.eventstore.blocks import content_blocks
from playhead.eventstore.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from playhead.eventstore.ids import SAFE_INTEGER, CallId
from playhead.eventstore.reasons import finish_reasons
from playhead.eventstore.usage import Usage

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


def read(raw: bytes) -> tuple[tuple[int, int], Chunk] | None:
    """The turn and the step, and the chunk in ``raw``, the data of an ``assistant/chunk``.

    None for one that has to be read otherwise.
    """
    try:
        data = _decode(raw)
        return (data.turn, data.step), data.chunk.decoded()
    except (ValueError, RecursionError):
        return None


class _Form(msgspec.Struct, tag_field="type", forbid_unknown_fields=True, rename="camel"):
    """What a chunk may hold. ``decoded`` raises ``ValueError`` for one that is none."""


class _Start(_Form, tag=BlockStart.tag):
    index: int
    block_type: str

    def decoded(self) -> Chunk:
        return BlockStart(self.index, self.block_type)


class _Text(_Form, tag=TextDelta.tag):
    index: int
    text: str

    def decoded(self) -> Chunk:
        return TextDelta(self.index, self.text)


class _Reasoning(_Form, tag=ReasoningDelta.tag):
    index: int
    text: str

    def decoded(self) -> Chunk:
        return ReasoningDelta(self.index, self.text)


class _Call(_Form, tag=ToolCallDelta.tag):
    index: int
    arguments_delta: str
    id: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET

    def decoded(self) -> Chunk:
        call = None if self.id is msgspec.UNSET else CallId(self.id)
        return ToolCallDelta(
            self.index, call, None if self.name is msgspec.UNSET else self.name, self.arguments_delta
        )


class _End(_Form, tag=BlockEnd.tag):
    index: int
    block: dict[str, Any]

    def decoded(self) -> Chunk:
        return BlockEnd(self.index, content_blocks.parse(self.block))


class _Usage(_Form, tag=UsageChunk.tag):
    usage: dict[str, Any]

    def decoded(self) -> Chunk:
        return UsageChunk(Usage.decode(self.usage))


class _Finish(_Form, tag=FinishChunk.tag):
    reason: dict[str, Any]
    replay_state: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    def decoded(self) -> Chunk:
        state = None if self.replay_state is msgspec.UNSET else self.replay_state
        return FinishChunk(finish_reasons.parse(self.reason), state)


PlainChunk: TypeAlias = _Start | _Text | _Reasoning | _Call | _End | _Usage | _Finish
"""One that was not decoded yet; ``msgspec`` finds the class."""


class _Data(msgspec.Struct):
    turn: Whole
    step: Whole
    chunk: PlainChunk


_decode = msgspec.json.Decoder(_Data).decode
