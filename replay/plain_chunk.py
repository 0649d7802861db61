"""Chunk events that look as every writer writes them, read straight from their text.

A log holds more chunks than anything else, and nearly all of them are deltas and the borders of blocks, with their own
members and no others. These need not become a JSON value first. ``stream`` reads the rest.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from playhead.eventstore.blocks import content_blocks
from playhead.eventstore.chunks import BlockEnd, BlockStart, Chunk, ReasoningDelta, TextDelta, ToolCallDelta
from playhead.eventstore.ids import SAFE_INTEGER, CallId


def read(raw: bytes) -> tuple[tuple[int, int], Chunk] | None:
    """The turn and the step, and the chunk in ``raw``, the data of an ``assistant/chunk``.

    None for one that has to be read otherwise.
    """
    try:
        data = _decode(raw)
    except (ValueError, RecursionError):
        return None
    return (data.turn, data.step), data.chunk.decoded()


class _Form(msgspec.Struct, tag_field="type", forbid_unknown_fields=True, rename="camel"):
    index: int


class _Start(_Form, tag=BlockStart.tag):
    block_type: str

    def decoded(self) -> Chunk:
        return BlockStart(self.index, self.block_type)


class _Text(_Form, tag=TextDelta.tag):
    text: str

    def decoded(self) -> Chunk:
        return TextDelta(self.index, self.text)


class _Reasoning(_Form, tag=ReasoningDelta.tag):
    text: str

    def decoded(self) -> Chunk:
        return ReasoningDelta(self.index, self.text)


class _Call(_Form, tag=ToolCallDelta.tag):
    arguments_delta: str
    id: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET

    def decoded(self) -> Chunk:
        call = None if self.id is msgspec.UNSET else CallId(self.id)
        return ToolCallDelta(
            self.index, call, None if self.name is msgspec.UNSET else self.name, self.arguments_delta
        )


class _End(_Form, tag=BlockEnd.tag):
    block: dict[str, Any]

    def decoded(self) -> Chunk:
        return BlockEnd(self.index, content_blocks.parse(self.block))


_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


class _Data(msgspec.Struct):
    turn: _Place
    step: _Place
    chunk: _Start | _Text | _Reasoning | _Call | _End


_decode = msgspec.json.Decoder(_Data).decode
