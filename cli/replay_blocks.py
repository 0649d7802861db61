"""One block of a stream after the other, for a person to read; the chunks of several may come mixed.

The block that is being shown goes on until it is done: text and reasoning when another block has something to say, a
tool call when it was closed or its arguments are complete JSON. What comes for another block before that waits for its
turn. A block that only its end gives a content is shown then. Source: docs/cli.md, "playhead replay".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from playhead.eventstore import json_text
from playhead.eventstore.blocks import AnyBlock, ReasoningBlock, TextBlock, ToolCallBlock
from playhead.eventstore.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)

TEXT, REASONING, TOOL_CALL = TextBlock.tag, ReasoningBlock.tag, ToolCallBlock.tag


class Piece(NamedTuple):
    """Something to show: ``text`` of a block of this ``kind``; ``name`` is that of the tool.

    ``opens`` begins a block, or goes on with one after another.
    """

    kind: str
    name: str
    text: str
    opens: bool


@dataclass(slots=True, eq=False)
class _Block:
    kind: str
    name: str = ""
    came: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def presentable(self) -> bool:
        """Whether it can be shown: a call needs a name first."""
        return self.kind != TOOL_CALL or bool(self.name) or self.closed

    @property
    def done(self) -> bool:
        """Whether it is another one's turn."""
        return self.kind != TOOL_CALL or self.closed or _is_whole(self.came)


class BlockOrder:
    """Gives the pieces of one stream in the order in which they are shown."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._current: _Block | None = None
        self._queue: list[_Block] = []

    def feed(self, chunk: Chunk) -> Iterator[Piece]:
        """What ``chunk`` adds to what is shown."""
        match chunk:
            case BlockStart(index=index, block_type=kind):
                self._block(index, kind)
            case TextDelta(index=index, text=text):
                block = self._block(index, TEXT)
                if text and block.kind != TOOL_CALL:
                    yield from self._delta(block, text)
            case ReasoningDelta(index=index, text=text):
                block = self._block(index, REASONING)
                if text and block.kind != TOOL_CALL:
                    yield from self._delta(block, text)
            case ToolCallDelta(index=index, name=name, arguments_delta=text):
                block = self._block(index, TOOL_CALL)
                if block.kind == TOOL_CALL and (text or not block.came):
                    block.name = name or block.name
                    yield from self._delta(block, text)
            case BlockEnd(index=index, block=whole):
                yield from self._close(self._block(index, whole.tag), whole)

    def end(self) -> Iterator[Piece]:
        """What was still waiting, now that nothing more comes."""
        for block in self._blocks.values():
            block.closed = True
        yield from self._turns()

    def _block(self, index: int, kind: str) -> _Block:
        return self._blocks.setdefault(index, _Block(kind))

    def _delta(self, block: _Block, text: str) -> Iterator[Piece]:
        if block.closed:
            return
        block.came.append(text)
        if block is self._current:
            yield Piece(block.kind, block.name, text, opens=False)
        else:
            yield from self._enqueue(block, text)

    def _close(self, block: _Block, whole: AnyBlock) -> Iterator[Piece]:
        if block.closed:
            return
        block.closed = True
        if block.came:
            yield from self._turns()
            return
        block.kind = whole.tag
        match whole:
            case TextBlock(text=text) | ReasoningBlock(text=text):
                if text:
                    yield from self._enqueue(block, text)
            case ToolCallBlock(name=name, arguments=arguments):
                block.name = name
                yield from self._enqueue(block, arguments)
            case _:
                yield from self._enqueue(block, f"[{whole.tag}]")

    def _enqueue(self, block: _Block, text: str) -> Iterator[Piece]:
        block.waiting.append(text)
        if block not in self._queue:
            self._queue.append(block)
        yield from self._turns()

    def _turns(self) -> Iterator[Piece]:
        """The blocks that wait, as long as it is their turn."""
        while self._current is None or self._current.done:
            block = next((block for block in self._queue if block.presentable), None)
            if block is None:
                return
            self._queue.remove(block)
            self._current = block
            yield Piece(block.kind, block.name, "".join(block.waiting), opens=True)
            block.waiting.clear()


def _is_whole(pieces: list[str]) -> bool:
    """Whether the arguments of a call are complete: a JSON object."""
    if not pieces or not pieces[-1].rstrip().endswith("}"):
        return False
    try:
        json_text.parse("".join(pieces))
    except (ValueError, RecursionError):
        return False
    return True
