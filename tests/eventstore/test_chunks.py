"""Chunks are a closed vocabulary: seven types, read exactly, anything else an error at once."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from vocabulary import chunks

from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.chunks import (
    BlockEnd,
    Chunk,
    FinishChunk,
    MalformedChunk,
    TextDelta,
    ToolCallDelta,
    UnknownChunkType,
    decode_chunk,
    is_token_delta,
)
from playhead.eventstore.reasons import FinishStop
from playhead.eventstore.registry import Unknown


@given(chunks())
def test_every_chunk_gives_its_json_back(value: dict[str, Any]) -> None:
    chunk = decode_chunk(value)
    assert isinstance(chunk, get_args(Chunk))
    assert chunk.tag == value["type"]
    assert chunk.to_json() == value


@given(chunks())
def test_a_chunk_decoded_twice_is_the_same_chunk(value: dict[str, Any]) -> None:
    chunk = decode_chunk(value)
    assert decode_chunk(chunk) is chunk
    assert decode_chunk(chunk.to_json()) == chunk


@pytest.mark.parametrize("value", [{"type": "new"}, {}, {"type": None}, {"type": ["text-delta"]}])
def test_a_chunk_of_another_type_is_an_error_at_once(value: dict[str, Any]) -> None:
    with pytest.raises(UnknownChunkType) as error:
        decode_chunk(value)
    assert error.value.tag == value.get("type")


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"type": "text-delta", "index": 0},
        {"type": "text-delta", "index": 0, "text": None},
        {"type": "text-delta", "index": "0", "text": "x"},
        {"type": "text-delta", "index": True, "text": "x"},
        {"type": "reasoning-delta", "index": 0.5, "text": "x"},
        {"type": "tool-call-delta", "index": 0, "id": 5, "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 0},
        {"type": "block-start", "index": 0},
        {"type": "block-end", "index": 0},
        {"type": "usage"},
        {"type": "usage", "usage": {"inputTokens": 1}},
        {"type": "finish"},
    ],
)
def test_a_chunk_that_lacks_a_member_is_malformed(value: Any) -> None:
    with pytest.raises(MalformedChunk):
        decode_chunk(value)


def test_members_that_nobody_knows_are_kept_beside_the_chunk() -> None:
    value = {"type": "tool-call-delta", "index": 1.0, "name": None, "argumentsDelta": "{", "trace": 9}
    chunk = decode_chunk(value)
    assert chunk == ToolCallDelta(1, None, None, "{", more=(("name", None), ("trace", 9)))
    assert chunk.to_json() == value


def test_open_vocabularies_stay_open_inside_a_chunk() -> None:
    end = decode_chunk({"type": "block-end", "index": 0, "block": {"type": "video", "frames": 2}})
    assert end == BlockEnd(0, Unknown("video", {"type": "video", "frames": 2}))
    finish = decode_chunk({"type": "finish", "reason": {"kind": "content-filter"}})
    assert finish == FinishChunk(Unknown("content-filter", {"kind": "content-filter"}))


@pytest.mark.parametrize(
    ("chunk", "counts"),
    [
        (TextDelta(0, "a"), True),
        (TextDelta(0, ""), False),
        (ToolCallDelta(0, None, None, ""), False),
        (ToolCallDelta(0, None, "", ""), True),
        (ToolCallDelta(0, None, None, "{"), True),
        (BlockEnd(0, TextBlock(text="a")), False),
        (FinishChunk(FinishStop()), False),
    ],
)
def test_a_token_delta_shows_that_the_model_produces(chunk: Chunk, counts: bool) -> None:
    assert is_token_delta(chunk) is counts
