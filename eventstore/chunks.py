"""Stream chunks: the pieces in which a model answers. The vocabulary is closed.

======================  ===========================================
``block-start``         ``index, blockType``
``text-delta``          ``index, text``
``reasoning-delta``     ``index, text``
``tool-call-delta``     ``index, id?, name?, argumentsDelta``
``block-end``           ``index, block``: the complete block
``usage``               ``usage``
``finish``              ``reason, replayState?``
======================  ===========================================

``index`` only ties the chunks of one block together; it need not be dense or in order. A chunk of another
type is an error at once, because whatever it means would be lost. Members beyond these, and optional ones
that a log states as null, are kept in ``more``.

Chunks are structs, not pydantic models: a session has thousands, and these cost a tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, assert_never

import msgspec
from pydantic import ValidationError

from playhead.eventstore.blocks import AnyBlock, content_blocks
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.ids import CallId, is_safe_integer
from playhead.eventstore.reasons import AnyFinishReason, finish_reasons
from playhead.eventstore.usage import Usage


class ChunkError(PlayheadError, ValueError):
    """A value that is no chunk. It is a ``ValueError`` too, so that pydantic reports it with its event."""


class MalformedChunk(ChunkError):
    """A chunk that lacks a member, or has one of the wrong kind."""

    code = "malformed-chunk"


class UnknownChunkType(ChunkError):
    """A chunk of a type that is none of the seven; ``tag`` is what it says."""

    code = "unknown-chunk-type"

    def __init__(self, tag: object) -> None:
        self.tag = tag
        super().__init__(
            f"unknown chunk type {tag!r}: its meaning cannot be guessed; a newer release may know it"
        )


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    tag: ClassVar[str]
    more: tuple[tuple[str, Any], ...] = ()


class BlockStart(_Chunk, frozen=True):
    """A block of some type begins."""

    tag: ClassVar[str] = "block-start"
    index: int
    block_type: str

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "index": self.index, "blockType": self.block_type, **dict(self.more)}


class TextDelta(_Chunk, frozen=True):
    """A piece of visible text."""

    tag: ClassVar[str] = "text-delta"
    index: int
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "index": self.index, "text": self.text, **dict(self.more)}


class ReasoningDelta(_Chunk, frozen=True):
    """A piece of the model's thinking."""

    tag: ClassVar[str] = "reasoning-delta"
    index: int
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "index": self.index, "text": self.text, **dict(self.more)}


class ToolCallDelta(_Chunk, frozen=True):
    """A piece of a tool call; ``arguments_delta`` goes on where the JSON text of the last one ended."""

    tag: ClassVar[str] = "tool-call-delta"
    index: int
    id: CallId | None
    name: str | None
    arguments_delta: str

    def to_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {"type": self.tag, "index": self.index}
        if self.id is not None:
            members["id"] = self.id
        if self.name is not None:
            members["name"] = self.name
        return {**members, "argumentsDelta": self.arguments_delta, **dict(self.more)}


class BlockEnd(_Chunk, frozen=True):
    """A block is complete; ``block`` is what counts, whatever its deltas were."""

    tag: ClassVar[str] = "block-end"
    index: int
    block: AnyBlock

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "index": self.index, "block": self.block.to_json(), **dict(self.more)}


class UsageChunk(_Chunk, frozen=True):
    """What the call took."""

    tag: ClassVar[str] = "usage"
    usage: Usage

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "usage": self.usage.to_json(), **dict(self.more)}


class FinishChunk(_Chunk, frozen=True):
    """The response is over. ``replay_state`` is ``{response, blocks?}``, private to the adapter, any JSON."""

    tag: ClassVar[str] = "finish"
    reason: AnyFinishReason
    replay_state: Any = None

    def to_json(self) -> dict[str, Any]:
        members = {"type": self.tag, "reason": self.reason.to_json()}
        if self.replay_state is not None:
            members["replayState"] = self.replay_state
        return {**members, **dict(self.more)}


Chunk: TypeAlias = (
    BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | FinishChunk
)


def decode_chunk(value: Any) -> Chunk:
    """The chunk that the JSON object ``value`` stands for; a chunk comes back as it is.

    Raises a ``ChunkError``: ``UnknownChunkType`` or ``MalformedChunk``.
    """
    if isinstance(value, _Chunk):
        return value  # type: ignore[return-value]
    if not isinstance(value, dict):
        raise MalformedChunk("a chunk is an object")
    tag = value.get("type")
    decoder = _DECODERS.get(tag) if isinstance(tag, str) else None
    if decoder is None:
        raise UnknownChunkType(tag)
    return decoder(value)


def is_token_delta(chunk: Chunk) -> bool:
    """Whether the chunk shows that the model produces tokens: what time-to-first-token waits for.

    True for text or reasoning that is not empty, and for a tool call with some arguments or any name, "" too.
    """
    match chunk:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return text != ""
        case ToolCallDelta(name=name, arguments_delta=arguments):
            return arguments != "" or name is not None
        case BlockStart() | BlockEnd() | UsageChunk() | FinishChunk():
            return False
        case _:
            assert_never(chunk)


_START_MEMBERS = frozenset({"type", "index", "blockType"})
_TEXT_MEMBERS = frozenset({"type", "index", "text"})
_CALL_MEMBERS = frozenset({"type", "index", "id", "name", "argumentsDelta"})
_END_MEMBERS = frozenset({"type", "index", "block"})
_USAGE_MEMBERS = frozenset({"type", "usage"})
_FINISH_MEMBERS = frozenset({"type", "reason", "replayState"})


def _block_start(value: dict[str, Any]) -> Chunk:
    block_type = _text(value, "blockType")
    return BlockStart(_index(value), block_type, more=_more(value, _START_MEMBERS))


def _text_delta(value: dict[str, Any]) -> Chunk:
    return TextDelta(_index(value), _text(value, "text"), more=_more(value, _TEXT_MEMBERS))


def _reasoning_delta(value: dict[str, Any]) -> Chunk:
    return ReasoningDelta(_index(value), _text(value, "text"), more=_more(value, _TEXT_MEMBERS))


def _tool_call_delta(value: dict[str, Any]) -> Chunk:
    call = None if value.get("id") is None else CallId(_text(value, "id"))
    name = None if value.get("name") is None else _text(value, "name")
    arguments = _text(value, "argumentsDelta")
    return ToolCallDelta(_index(value), call, name, arguments, more=_more(value, _CALL_MEMBERS))


def _block_end(value: dict[str, Any]) -> Chunk:
    block = content_blocks.parse(_present(value, "block"))
    return BlockEnd(_index(value), block, more=_more(value, _END_MEMBERS))


def _usage(value: dict[str, Any]) -> Chunk:
    try:
        usage = Usage.decode(_present(value, "usage"))
    except ValidationError as error:
        raise MalformedChunk(f"the usage of a chunk does not fit: {error.error_count()} members") from error
    return UsageChunk(usage, more=_more(value, _USAGE_MEMBERS))


def _finish(value: dict[str, Any]) -> Chunk:
    reason = finish_reasons.parse(_present(value, "reason"))
    return FinishChunk(reason, value.get("replayState"), more=_more(value, _FINISH_MEMBERS))


_DECODERS: Mapping[str, Callable[[dict[str, Any]], Chunk]] = {
    BlockStart.tag: _block_start,
    TextDelta.tag: _text_delta,
    ReasoningDelta.tag: _reasoning_delta,
    ToolCallDelta.tag: _tool_call_delta,
    BlockEnd.tag: _block_end,
    UsageChunk.tag: _usage,
    FinishChunk.tag: _finish,
}


def _index(value: dict[str, Any]) -> int:
    index = value.get("index")
    if type(index) is int:
        return index
    if is_safe_integer(index):
        return int(index)
    raise MalformedChunk(f"the index of a {value['type']} chunk is not a whole number")


def _text(value: dict[str, Any], member: str) -> str:
    text = value.get(member)
    if isinstance(text, str):
        return text
    raise MalformedChunk(f"the {member} of a {value['type']} chunk is not text")


def _present(value: dict[str, Any], member: str) -> Any:
    if member not in value:
        raise MalformedChunk(f"a {value['type']} chunk has no {member}")
    return value[member]


def _more(value: dict[str, Any], known: frozenset[str]) -> tuple[tuple[str, Any], ...]:
    """The members that the chunk's own do not hold: unknown ones, and optional ones that are null."""
    if known.issuperset(value) and None not in value.values():  # nearly always, and quickly told
        return ()
    return tuple((member, part) for member, part in value.items() if member not in known or part is None)
