"""Deltas become blocks the same way however the stream was cut, and whenever somebody looks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.eventstore.assembler import BlockAssembler, OpenUnknownBlock
from playhead.eventstore.blocks import ReasoningBlock, TextBlock, ToolCallBlock
from playhead.eventstore.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    ChunkError,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
    decode_chunk,
    is_token_delta,
)
from playhead.eventstore.ids import CallId
from playhead.eventstore.reasons import FinishMaxTokens, FinishStop, FinishToolCalls
from playhead.eventstore.usage import Usage


@pytest.mark.parametrize("case", cases("assembler", "cases"))
def test_the_assembler_gives_what_the_vectors_say(case: dict[str, Any]) -> None:
    expect = case["expect"]
    assembler = BlockAssembler()
    bad = expect.get("push_error_at")
    decoded: list[Chunk] = []
    for at, raw in enumerate(case["chunks"]):
        if at == bad:
            with pytest.raises(ChunkError):
                decode_chunk(raw)
            break
        decoded.append(decode_chunk(raw))
        assembler.push(decoded[-1])

    if expect.get("blocks_error"):
        with pytest.raises(OpenUnknownBlock):
            assembler.blocks()
    else:
        assert [block.to_json() for block in assembler.blocks()] == expect["blocks"]
    if expect.get("replayState_error"):
        with pytest.raises(OpenUnknownBlock):
            _ = assembler.replay_state
    else:
        assert assembler.replay_state == expect["replayState"]
    assert assembler.finish.to_json() == expect["finish"]
    assert (assembler.usage and assembler.usage.to_json()) == expect["usage"]
    assert [block.to_json() for block in assembler.interrupted_blocks()] == expect["interruptedBlocks"]
    assert [is_token_delta(chunk) for chunk in decoded] == expect["isTokenDelta"][: len(decoded)]


def test_a_character_split_over_two_deltas_is_whole_in_every_reading() -> None:
    high, low = "\ud83d", "\ude00"
    assembler = BlockAssembler(
        [
            TextDelta(0, "a" + high),
            ReasoningDelta(1, high),
            ToolCallDelta(2, CallId("c"), "f", '"' + high),
            TextDelta(0, low),
            ReasoningDelta(1, low),
            ToolCallDelta(2, CallId("c"), None, low + '"'),
        ]
    )
    text, reasoning = TextBlock(text="a😀"), ReasoningBlock(text="😀")
    assert assembler.blocks() == (text, reasoning, ToolCallBlock(id=CallId("c"), name="f", arguments='"😀"'))
    assert assembler.interrupted_blocks() == (text, reasoning)


def test_half_a_character_at_the_end_of_a_stream_stays_half() -> None:
    assert BlockAssembler([TextDelta(0, "a\ud83d")]).blocks() == (TextBlock(text="a\ud83d"),)


def test_reading_between_the_halves_of_a_character_does_not_keep_it_apart() -> None:
    assembler = BlockAssembler([TextDelta(0, "\ud83d")])
    assert assembler.blocks() == (TextBlock(text="\ud83d"),)
    assembler.push(TextDelta(0, "\ude00"))
    assert assembler.blocks() == (TextBlock(text="😀"),)


def test_a_state_that_loses_no_entry_is_the_very_object_of_the_chunk() -> None:
    state = {"response": {"id": 1}, "blocks": ["x"]}
    assembler = BlockAssembler([TextDelta(0, "a"), FinishChunk(FinishMaxTokens(), state)])
    assert assembler.replay_state is state


@pytest.mark.parametrize("blank", ["", " \n", "\ufeff", "\u2003", "\u3000\t"])
def test_blank_text_is_no_interrupted_part(blank: str) -> None:
    assert BlockAssembler([TextDelta(0, blank)]).interrupted_blocks() == ()


@pytest.mark.parametrize("visible", ["\x1c", "\x85", "\u200b"])
def test_only_what_javascript_trims_is_blank(visible: str) -> None:
    assert BlockAssembler([TextDelta(0, visible)]).interrupted_blocks() == (TextBlock(text=visible),)


def test_finished_tells_a_stream_that_stopped_from_one_that_broke_off() -> None:
    assembler = BlockAssembler([TextDelta(0, "a")])
    assert (assembler.finish, assembler.finished) == (FinishStop(), False)
    assembler.push(FinishChunk(FinishStop()))
    assert (assembler.finish, assembler.finished) == (FinishStop(), True)


indexes = st.integers(0, 3)
texts = st.text(st.characters(exclude_categories=()), max_size=6)
states = st.fixed_dictionaries({"response": indexes}, optional={"blocks": st.lists(indexes, max_size=4)})
closings = st.one_of(
    texts.map(lambda text: TextBlock(text=text)),
    texts.map(lambda text: ReasoningBlock(text=text)),
    st.builds(lambda text: ToolCallBlock(id=CallId(text), name=text, arguments=text), texts),
)
chunks = st.one_of(
    st.builds(BlockStart, indexes, st.sampled_from(["text", "reasoning", "tool-call"])),
    st.builds(TextDelta, indexes, texts),
    st.builds(ReasoningDelta, indexes, texts),
    st.builds(ToolCallDelta, indexes, st.none() | texts.map(CallId), st.none() | texts, texts),
    st.builds(BlockEnd, indexes, closings),
    indexes.map(lambda count: UsageChunk(Usage(input_tokens=count, output_tokens=1))),
    st.builds(
        FinishChunk,
        st.sampled_from([FinishStop(), FinishToolCalls(), FinishMaxTokens()]),
        st.none() | states,
    ),
)


def reading(assembler: BlockAssembler) -> tuple[Any, ...]:
    return (
        assembler.blocks(),
        assembler.finish,
        assembler.finished,
        assembler.usage,
        assembler.replay_state,
        assembler.interrupted_blocks(),
    )


@given(st.lists(chunks, max_size=12))
def test_assembling_step_by_step_equals_assembling_from_scratch(stream: list[Chunk]) -> None:
    growing = BlockAssembler()
    for end, chunk in enumerate(stream, start=1):
        growing.push(chunk)
        assert reading(growing) == reading(BlockAssembler(stream[:end]))


def units(text: str) -> list[str]:
    """The UTF-16 units of a text, each as one character."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [chr(int.from_bytes(raw[at : at + 2], "little")) for at in range(0, len(raw), 2)]


@st.composite
def recut(draw: st.DrawFn, stream: list[Chunk]) -> list[Chunk]:
    """The same stream with each delta cut anywhere, also in a character, and into empty pieces."""
    again: list[Chunk] = []
    for chunk in stream:
        match chunk:
            case TextDelta(index=index, text=text):
                again += [TextDelta(index, piece) for piece in draw(pieces(text))]
            case ReasoningDelta(index=index, text=text):
                again += [ReasoningDelta(index, piece) for piece in draw(pieces(text))]
            case ToolCallDelta(index=index, id=call, name=name, arguments_delta=text):
                again += [ToolCallDelta(index, call, name, piece) for piece in draw(pieces(text))]
            case _:
                again.append(chunk)
    return again


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    halves = units(text)
    cuts = sorted(draw(st.lists(st.integers(0, len(halves)), max_size=4)))
    return ["".join(halves[a:b]) for a, b in zip([0, *cuts], [*cuts, len(halves)], strict=True)]


@given(st.data(), st.lists(chunks, max_size=10))
def test_recutting_the_deltas_leaves_the_blocks_unchanged(data: st.DataObject, stream: list[Chunk]) -> None:
    again = data.draw(recut(stream))
    assert reading(BlockAssembler(again)) == reading(BlockAssembler(stream))
