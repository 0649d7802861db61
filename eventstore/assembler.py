"""From chunks to the content of a message: the one place where deltas become blocks.

State: per index, in the order in which indexes were first seen, the declared type, the texts and arguments so
far, the last call id, the last name that is not empty, and the closing block once there is one. Besides: the
last usage, the last finish reason, the last replay state.

The assembler forgives what adapters get wrong. A second start of an index, and anything for a block that is
closed, is ignored; a delta without a start opens a block of its kind; a delta of another kind goes on with
the block that is there; the closing block replaces what its deltas said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from playhead.eventstore import json_text
from playhead.eventstore.blocks import AnyBlock, ReasoningBlock, TextBlock, ToolCallBlock
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
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.ids import CallId
from playhead.eventstore.reasons import AnyFinishReason, FinishMaxTokens, FinishStop
from playhead.eventstore.usage import Usage

_STOP = FinishStop()
_SPACES = "".join(map(chr, range(0x2000, 0x200B)))
_BLANK = f"\t\n\v\f\r \u00a0\u1680{_SPACES}\u2028\u2029\u202f\u205f\u3000\ufeff"
"""What ECMAScript trims; Python's ``strip`` takes a few more and leaves U+FEFF."""


class OpenUnknownBlock(PlayheadError):
    """A block of a type nobody knows was never closed, so nobody can say what its deltas mean."""

    code = "open-unknown-block"

    def __init__(self, index: int, block_type: str) -> None:
        self.index = index
        self.block_type = block_type
        super().__init__(
            f"block {index} has the unknown type {block_type!r} and was never closed: it cannot be assembled"
        )


class _Partial:
    """What is known of one block. ``text`` and ``arguments`` are pieces, joined when somebody reads."""

    __slots__ = ("arguments", "call", "closed", "declared", "name", "text")

    def __init__(self, declared: str) -> None:
        self.declared = declared
        self.text: list[str] = []
        self.arguments: list[str] = []
        self.call: CallId | None = None
        self.name = ""
        self.closed: AnyBlock | None = None


class BlockAssembler:
    """Assembles the chunks of one model response. Reading never changes what comes later."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._partials: dict[int, _Partial] = {}
        self._usage: Usage | None = None
        self._finish: AnyFinishReason | None = None
        self._replay_state: Any = None
        for chunk in chunks:
            self.push(chunk)

    def push(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        match chunk:
            case TextDelta(index=index, text=text):
                partial = self._partials.get(index) or self._open(index, "text")
                if partial.closed is None:
                    partial.text.append(text)
            case ReasoningDelta(index=index, text=text):
                partial = self._partials.get(index) or self._open(index, "reasoning")
                if partial.closed is None:
                    partial.text.append(text)
            case ToolCallDelta(index=index, id=call, name=name, arguments_delta=arguments):
                partial = self._partials.get(index) or self._open(index, "tool-call")
                if partial.closed is None:
                    partial.arguments.append(arguments)
                    partial.name = name or partial.name
                    if call is not None:
                        partial.call = call
            case BlockStart(index=index, block_type=block_type):
                if index not in self._partials:
                    self._open(index, block_type)
            case BlockEnd(index=index, block=block):
                partial = self._partials.get(index) or self._open(index, block.tag)
                if partial.closed is None:
                    partial.closed = block
            case UsageChunk(usage=usage):
                self._usage = usage
            case FinishChunk(reason=reason, replay_state=replay_state):
                self._finish = reason
                self._replay_state = replay_state
            case _:
                assert_never(chunk)

    @property
    def finish(self) -> AnyFinishReason:
        """The last finish reason; ``stop`` when none came: a stream that just ends looks like a success."""
        return _STOP if self._finish is None else self._finish

    @property
    def finished(self) -> bool:
        """Whether a finish chunk came."""
        return self._finish is not None

    @property
    def usage(self) -> Usage | None:
        """The last usage, or None when none came."""
        return self._usage

    def blocks(self) -> tuple[AnyBlock, ...]:
        """The content of the message, in the order in which the blocks were first seen.

        A response that ended with ``max-tokens`` has no tool calls, not even complete ones. Raises
        ``OpenUnknownBlock``.
        """
        return tuple(block for block in self._assembled() if not self._drops(block))

    @property
    def replay_state(self) -> Any:
        """The adapter's private state for this message, or None.

        Its ``blocks`` lose the entries of the blocks that ``blocks()`` drops. A state whose ``blocks`` do not
        match the blocks one to one is worth nothing and gives None. Raises ``OpenUnknownBlock``.
        """
        assembled = self._assembled()
        state = self._replay_state
        if not isinstance(state, dict) or not isinstance(state.get("blocks"), list):
            return state
        entries = state["blocks"]
        if len(entries) != len(assembled):
            return None
        kept = [entry for entry, block in zip(entries, assembled, strict=True) if not self._drops(block)]
        return state if len(kept) == len(entries) else {**state, "blocks": kept}

    def interrupted_blocks(self) -> tuple[AnyBlock, ...]:
        """What is worth keeping when the stream is cut off here: text and reasoning that is not blank.

        Never raises; tool calls and blocks of other types are left out.
        """
        kept: list[AnyBlock] = []
        for index, partial in self._partials.items():
            block = partial.closed
            if block is None and partial.declared in ("text", "reasoning"):
                block = _assemble(index, partial)
            if isinstance(block, TextBlock | ReasoningBlock) and block.text.strip(_BLANK):
                kept.append(block)
        return tuple(kept)

    def _open(self, index: int, declared: str) -> _Partial:
        partial = self._partials[index] = _Partial(declared)
        return partial

    def _assembled(self) -> list[AnyBlock]:
        return [_assemble(index, partial) for index, partial in self._partials.items()]

    def _drops(self, block: AnyBlock) -> bool:
        return isinstance(self._finish, FinishMaxTokens) and block.tag == ToolCallBlock.tag


def _assemble(index: int, partial: _Partial) -> AnyBlock:
    if partial.closed is not None:
        return partial.closed
    match partial.declared:
        case "text":
            return TextBlock(text=_joined(partial.text))
        case "reasoning":
            return ReasoningBlock(text=_joined(partial.text))
        case "tool-call":
            call = CallId(f"call-{index}") if partial.call is None else partial.call
            return ToolCallBlock(id=call, name=partial.name, arguments=_joined(partial.arguments))
        case unknown:
            raise OpenUnknownBlock(index, unknown)


def _joined(pieces: list[str]) -> str:
    """The pieces as one text, a character that was split over two of them whole again."""
    joined = "".join(pieces)
    # Reading after every chunk must not join all of them each time.
    pieces[:] = (joined,)
    return json_text.whole(joined)
