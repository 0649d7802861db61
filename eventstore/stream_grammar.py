"""The grammar of a stream of chunks: what a source of chunks must emit, checked chunk by chunk.

=========================  ==================================================================
``bad-index``              an index is a whole number, 0 or more
``repeated-start``         a ``block-start`` does not repeat the index of an open block
``delta-without-block``    a delta needs an open block of its index
``delta-of-another-kind``  a delta goes into a block of its own kind
``end-without-block``      a ``block-end`` needs an open block of its index
``end-of-another-type``    a ``block-end`` has a block of the type that was begun
``repeated-usage``         there is at most one ``usage``
``after-finish``           nothing comes after ``finish``; so ``usage`` comes before it
``unclosed-block``         a ``finish`` that is no failure finds every block closed
``no-finish``              a ``finish`` must come
=========================  ==================================================================

An index may be used again once its block is closed. A stream that raises owes no ``finish``: the error is its end.
``BlockAssembler`` takes whatever comes; this is for tests of sources, and for who wants to be strict.
Rules: docs/providers.md, "Client and failures".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import Literal, TypeAlias, assert_never

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
from playhead.eventstore.reasons import is_failure

GrammarRule: TypeAlias = Literal[
    "bad-index",
    "repeated-start",
    "delta-without-block",
    "delta-of-another-kind",
    "end-without-block",
    "end-of-another-type",
    "repeated-usage",
    "after-finish",
    "unclosed-block",
    "no-finish",
]


class StreamGrammarError(PlayheadError):
    """A stream broke ``rule`` with its chunk number ``place`` (from 0), which is ``chunk``.

    For ``no-finish`` the place is the length of the stream, and there is no chunk.
    """

    code = "stream-grammar"

    def __init__(self, rule: GrammarRule, place: int, chunk: Chunk | None, message: str) -> None:
        self.rule: GrammarRule = rule
        self.place = place
        self.chunk = chunk
        super().__init__(f"chunk {place}: {message} ({rule})")


class StreamGrammar:
    """Checks one stream. A chunk that was refused changes nothing."""

    def __init__(self) -> None:
        self._open: dict[int, str] = {}
        self._count = 0
        self._usage = False
        self._finished = False

    def push(self, chunk: Chunk) -> None:
        """Take the next chunk. Raises ``StreamGrammarError`` when it may not come here."""
        if self._finished:
            raise self._breach("after-finish", chunk, f"a {chunk.tag} after the finish")
        match chunk:
            case BlockStart():
                self._start(chunk)
            case TextDelta():
                self._delta(chunk, "text")
            case ReasoningDelta():
                self._delta(chunk, "reasoning")
            case ToolCallDelta():
                self._delta(chunk, "tool-call")
            case BlockEnd():
                self._end(chunk)
            case UsageChunk():
                if self._usage:
                    raise self._breach("repeated-usage", chunk, "a second usage")
                self._usage = True
            case FinishChunk():
                if self._open and not is_failure(chunk.reason):
                    still = ", ".join(map(str, self._open))
                    raise self._breach("unclosed-block", chunk, f"finished with block {still} open")
                self._finished = True
            case _:
                assert_never(chunk)
        self._count += 1

    def finish(self) -> None:
        """The stream is over. Raises ``StreamGrammarError`` when its ``finish`` never came."""
        if not self._finished:
            raise self._breach("no-finish", None, "the stream ended without a finish")

    def _start(self, chunk: BlockStart) -> None:
        self._require_index(chunk)
        if chunk.index in self._open:
            raise self._breach("repeated-start", chunk, f"block {chunk.index} is open already")
        self._open[chunk.index] = chunk.block_type

    def _delta(self, chunk: TextDelta | ReasoningDelta | ToolCallDelta, kind: str) -> None:
        self._require_index(chunk)
        opened = self._open.get(chunk.index)
        if opened is None:
            raise self._breach(
                "delta-without-block", chunk, f"a {chunk.tag} while block {chunk.index} is not open"
            )
        if opened != kind:
            message = f"a {chunk.tag} for block {chunk.index} of type {opened}"
            raise self._breach("delta-of-another-kind", chunk, message)

    def _end(self, chunk: BlockEnd) -> None:
        self._require_index(chunk)
        opened = self._open.get(chunk.index)
        if opened is None:
            raise self._breach(
                "end-without-block", chunk, f"the end of block {chunk.index}, which is not open"
            )
        if opened != chunk.block.tag:
            message = f"a {chunk.block.tag} block ends block {chunk.index} of type {opened}"
            raise self._breach("end-of-another-type", chunk, message)
        del self._open[chunk.index]

    def _require_index(
        self, chunk: BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd
    ) -> None:
        if type(chunk.index) is not int or chunk.index < 0:
            raise self._breach("bad-index", chunk, f"the index of a {chunk.tag} is {chunk.index!r}")

    def _breach(self, rule: GrammarRule, chunk: Chunk | None, message: str) -> StreamGrammarError:
        return StreamGrammarError(rule, self._count, chunk, message)


def checked(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """``chunks`` as they come. Raises ``StreamGrammarError`` in the place of the first one that may not come."""
    grammar = StreamGrammar()
    for chunk in chunks:
        grammar.push(chunk)
        yield chunk
    grammar.finish()


async def checked_stream(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
    """``chunks`` of a source as they come, checked like ``checked``. Closing this closes ``chunks``, if it can be."""
    grammar = StreamGrammar()
    try:
        async for chunk in chunks:
            grammar.push(chunk)
            yield chunk
        grammar.finish()
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
