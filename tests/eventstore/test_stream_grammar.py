"""The grammar of chunk streams: what is well-formed passes, and each breach is named with its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.eventstore.blocks import ReasoningBlock, TextBlock, ToolCallBlock
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
    decode_chunk,
)
from playhead.eventstore.failures import Failure
from playhead.eventstore.ids import CallId
from playhead.eventstore.reasons import FinishAborted, FinishError, FinishStop, FinishToolCalls
from playhead.eventstore.stream_grammar import (
    GrammarRule,
    StreamGrammar,
    StreamGrammarError,
    checked,
    checked_stream,
)
from playhead.eventstore.usage import Usage

KINDS = ("text", "reasoning", "tool-call")
FAILURE = Failure(message="it broke", code="SERVER")
USAGE = UsageChunk(Usage(input_tokens=1, output_tokens=2))
STOP = FinishChunk(FinishStop())


def delta(index: int, kind: str) -> Chunk:
    if kind == "text":
        return TextDelta(index, "t")
    return ReasoningDelta(index, "r") if kind == "reasoning" else ToolCallDelta(index, CallId("c"), None, "{")


def end(index: int, kind: str) -> Chunk:
    if kind == "text":
        return BlockEnd(index, TextBlock(text="t"))
    if kind == "reasoning":
        return BlockEnd(index, ReasoningBlock(text="r"))
    return BlockEnd(index, ToolCallBlock(id=CallId("c"), name="f", arguments="{}"))


@st.composite
def streams(draw: st.DrawFn) -> list[Chunk]:
    """A well-formed stream: blocks that interleave, indexes that skip and come again, any kind of finish."""
    chunks: list[Chunk] = []
    opened: dict[int, str] = {}
    usage = draw(st.booleans())
    for _ in range(draw(st.integers(0, 12))):
        index = draw(st.integers(0, 5))
        kind = opened.get(index)
        if kind is None:
            opened[index] = draw(st.sampled_from(KINDS))
            chunks.append(BlockStart(index, opened[index]))
        elif draw(st.booleans()):
            chunks.append(delta(index, kind))
        else:
            chunks.append(end(index, opened.pop(index)))
    reason = draw(
        st.sampled_from(
            [FinishStop(), FinishToolCalls(), FinishError(failure=FAILURE), FinishAborted(failure=FAILURE)]
        )
    )
    if not isinstance(reason, FinishError | FinishAborted):
        chunks += [end(index, kind) for index, kind in opened.items()]
    if usage:
        chunks.insert(draw(st.integers(0, len(chunks))), USAGE)
    return [*chunks, FinishChunk(reason)]


def breach(chunks: list[Chunk]) -> tuple[str, int]:
    with pytest.raises(StreamGrammarError) as caught:
        list(checked(chunks))
    assert caught.value.code == "stream-grammar"
    assert caught.value.chunk is (chunks[caught.value.place] if caught.value.place < len(chunks) else None)
    return caught.value.rule, caught.value.place


@given(streams())
def test_a_well_formed_stream_passes_unchanged(chunks: list[Chunk]) -> None:
    assert list(checked(chunks)) == chunks


Breach = Callable[[list[Chunk], int, dict[int, str], st.DataObject], Chunk | None]


def _open_index(opened: dict[int, str], data: st.DataObject) -> int | None:
    return data.draw(st.sampled_from(sorted(opened))) if opened else None


def _bad_index(_: list[Chunk], __: int, ___: dict[int, str], data: st.DataObject) -> Chunk | None:
    index = data.draw(st.sampled_from([-1, -(2**53), True, 1.0]))
    return data.draw(st.sampled_from([BlockStart(index, "text"), delta(index, "text"), end(index, "text")]))


def _repeated_start(_: list[Chunk], __: int, opened: dict[int, str], data: st.DataObject) -> Chunk | None:
    index = _open_index(opened, data)
    return None if index is None else BlockStart(index, data.draw(st.sampled_from(KINDS)))


def _delta_without_block(_: list[Chunk], __: int, ___: dict[int, str], data: st.DataObject) -> Chunk | None:
    return delta(9, data.draw(st.sampled_from(KINDS)))


def _delta_of_another_kind(
    _: list[Chunk], __: int, opened: dict[int, str], data: st.DataObject
) -> Chunk | None:
    index = _open_index(opened, data)
    if index is None:
        return None
    return delta(index, data.draw(st.sampled_from([kind for kind in KINDS if kind != opened[index]])))


def _end_without_block(_: list[Chunk], __: int, ___: dict[int, str], data: st.DataObject) -> Chunk | None:
    return end(9, data.draw(st.sampled_from(KINDS)))


def _end_of_another_type(
    _: list[Chunk], __: int, opened: dict[int, str], data: st.DataObject
) -> Chunk | None:
    index = _open_index(opened, data)
    if index is None:
        return None
    return end(index, data.draw(st.sampled_from([kind for kind in KINDS if kind != opened[index]])))


def _repeated_usage(chunks: list[Chunk], at: int, _: dict[int, str], __: st.DataObject) -> Chunk | None:
    return USAGE if USAGE in chunks[:at] else None


def _unclosed_block(_: list[Chunk], __: int, opened: dict[int, str], ___: st.DataObject) -> Chunk | None:
    return STOP if opened else None


INSERTED: dict[GrammarRule, Breach] = {
    "bad-index": _bad_index,
    "repeated-start": _repeated_start,
    "delta-without-block": _delta_without_block,
    "delta-of-another-kind": _delta_of_another_kind,
    "end-without-block": _end_without_block,
    "end-of-another-type": _end_of_another_type,
    "repeated-usage": _repeated_usage,
    "unclosed-block": _unclosed_block,
}
"""What to insert before chunk ``at`` of a well-formed stream, with ``opened`` as it stands there, to break a rule."""


@pytest.mark.parametrize("rule", INSERTED)
@given(chunks=streams(), data=st.data())
@settings(max_examples=60)
def test_one_wrong_chunk_is_named_with_its_place(
    rule: GrammarRule, chunks: list[Chunk], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(chunks) - 1))
    opened: dict[int, str] = {}
    for chunk in chunks[:at]:
        if isinstance(chunk, BlockStart):
            opened[chunk.index] = chunk.block_type
        elif isinstance(chunk, BlockEnd):
            del opened[chunk.index]
    wrong = INSERTED[rule](chunks, at, opened, data)
    if wrong is not None:
        assert breach([*chunks[:at], wrong, *chunks[at:]]) == (rule, at)


@given(chunks=streams(), data=st.data())
def test_whatever_comes_after_the_finish_is_refused(chunks: list[Chunk], data: st.DataObject) -> None:
    extra = data.draw(st.sampled_from([USAGE, STOP, BlockStart(0, "text"), delta(0, "text"), end(0, "text")]))
    assert breach([*chunks, extra]) == ("after-finish", len(chunks))


@given(streams())
def test_a_stream_without_its_finish_is_refused_at_its_end(chunks: list[Chunk]) -> None:
    assert breach(chunks[:-1]) == ("no-finish", len(chunks) - 1)


def test_every_rule_is_broken_by_a_test() -> None:
    assert set(INSERTED) | {"after-finish", "no-finish"} == set(get_args(GrammarRule))


def test_a_block_of_a_type_that_nobody_knows_is_well_formed() -> None:
    image = decode_chunk({"type": "block-end", "index": 0, "block": {"type": "picture", "url": "x"}})
    assert list(checked([BlockStart(0, "picture"), image, STOP])) == [BlockStart(0, "picture"), image, STOP]
    assert breach([BlockStart(0, "picture"), TextDelta(0, "t")]) == ("delta-of-another-kind", 1)


def test_a_refused_chunk_changes_nothing() -> None:
    grammar = StreamGrammar()
    grammar.push(BlockStart(0, "text"))
    for wrong in (BlockStart(0, "text"), delta(0, "reasoning"), end(0, "reasoning"), STOP):
        with pytest.raises(StreamGrammarError, match="chunk 1: "):
            grammar.push(wrong)
    grammar.push(end(0, "text"))
    grammar.push(STOP)
    grammar.finish()


class Source:
    """An asynchronous stream that remembers whether it was closed, and may fail at its end."""

    def __init__(self, chunks: list[Chunk], failure: Exception | None = None) -> None:
        self.closed = False
        self._chunks, self._failure = chunks, failure

    async def stream(self) -> AsyncIterator[Chunk]:
        try:
            for chunk in self._chunks:
                yield chunk
            if self._failure is not None:
                raise self._failure
        finally:
            self.closed = True


async def _taken(stream: AsyncIterator[Chunk], into: list[Chunk]) -> None:
    async for chunk in stream:
        into.append(chunk)


def test_an_asynchronous_stream_is_checked_alike() -> None:
    got: list[Chunk] = []
    asyncio.run(_taken(checked_stream(Source([USAGE, STOP]).stream()), got))
    assert got == [USAGE, STOP]
    got.clear()
    with pytest.raises(StreamGrammarError, match="repeated-usage"):
        asyncio.run(_taken(checked_stream(Source([USAGE, USAGE, STOP]).stream()), got))
    assert got == [USAGE]
    with pytest.raises(StreamGrammarError, match="no-finish"):
        asyncio.run(_taken(checked_stream(Source([]).stream()), got))


def test_the_failure_of_a_source_passes_and_stands_for_the_finish() -> None:
    got: list[Chunk] = []
    with pytest.raises(AdapterError):
        asyncio.run(_taken(checked_stream(Source([USAGE], AdapterError(FAILURE)).stream()), got))
    assert got == [USAGE]


def test_closing_a_checked_stream_closes_its_source() -> None:
    async def run() -> bool:
        source = Source([BlockStart(0, "text"), delta(0, "text")])
        stream: Any = checked_stream(source.stream())
        await anext(stream)
        await stream.aclose()
        return source.closed

    assert asyncio.run(run())
