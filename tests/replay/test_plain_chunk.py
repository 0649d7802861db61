"""The quick way to read a chunk gives what the slow one gives, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabulary import chunks, writable

from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, ChunkError, decode_chunk
from playhead.eventstore.ids import SAFE_INTEGER
from playhead.replay import plain_chunk

ODD = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def slowly(raw: bytes) -> Chunk | None:
    """The chunk of the data ``raw``; None where there is none."""
    try:
        return decode_chunk(json_text.parse(raw).get("chunk"))
    except ChunkError:
        return None


@settings(max_examples=200)
@given(
    writable(chunks()),
    st.integers(0, 9),
    st.integers(0, 9),
    st.dictionaries(st.text(), ODD, max_size=1),
    st.data(),
)
def test_what_is_read_quickly_is_what_is_read_slowly(
    chunk: dict[str, Any], turn: int, step: int, more: dict[str, Any], data: st.DataObject
) -> None:
    member = data.draw(st.sampled_from(["", *chunk]))
    if member:
        chunk = chunk | {member: data.draw(ODD)}
    raw = json_text.dumps({"turn": turn, "step": step, "chunk": chunk | more})
    read = plain_chunk.read(raw)
    assert read is None or read == ((turn, step), slowly(raw))


@pytest.mark.parametrize(
    "chunk",
    [
        '{"type":"block-start","index":0,"blockType":"text"}',
        '{"type":"text-delta","index":1,"text":"a\\u00fcb"}',
        '{"index":1,"text":"the tag behind","type":"reasoning-delta"}',
        '{"type":"tool-call-delta","index":2,"argumentsDelta":"{"}',
        '{"type":"tool-call-delta","index":2,"id":"c","name":"","argumentsDelta":""}',
        '{"type":"block-end","index":2,"block":{"type":"tool-call","id":"c","name":"n","arguments":"{}"}}',
        '{"type":"block-end","index":2,"block":{"type":"x/unknown","of":[1.5,null]}}',
        '{"type":"usage","usage":{"inputTokens":1,"outputTokens":2.0,"totalTokens":null,"x":[]}}',
        '{"type":"finish","reason":{"kind":"stop"}}',
        '{"type":"finish","reason":{"kind":"error","failure":{"message":"busy"}}}',
        '{"type":"finish","reason":{"kind":7},"replayState":{"response":null}}',
        '{"type":"text-delta","index":99999999999999999999,"text":""}',
        '{"type":"text-delta","index":0,"text":"one","text":"another"}',
    ],
)
def test_chunks_of_every_kind_are_read_quickly(chunk: str) -> None:
    raw = f'{{"turn":3,"step":{SAFE_INTEGER},"chunk":{chunk},"more":0}}'.encode()
    assert plain_chunk.read(raw) == ((3, SAFE_INTEGER), slowly(raw))


@pytest.mark.parametrize(
    "data",
    [
        b'{"turn":1,"step":1,"chunk":{"type":"usage","usage":{"inputTokens":1,"outputTokens":true}}}',
        b'{"turn":1,"step":1,"chunk":{"type":"usage","usage":null}}',
        b'{"turn":1,"step":1,"chunk":{"type":"finish","reason":null}}',
        b'{"turn":1,"step":1,"chunk":{"type":"finish","reason":{"kind":"stop"},"replayState":null}}',
        b'{"turn":1,"step":1,"chunk":{"type":"finish","reason":{"kind":"stop"},"index":0}}',
        b'{"turn":1,"step":1,"chunk":{"type":"x","index":0}}',
        b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a","type":"x"}}',
        b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a","cached":true}}',
        b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a","more":[]}}',
        b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0.0,"text":"a"}}',
        b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"\\ud800"}}',
        b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"\xff"}}',
        b'{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":0,"id":null,"argumentsDelta":""}}',
        b'{"turn":1,"step":1,"chunk":{"type":"block-end","index":0,"block":"text"}}',
        b'{"turn":1,"step":9007199254740992,"chunk":{"type":"text-delta","index":0,"text":"a"}}',
        b'{"turn":1.0,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a"}}',
        b'{"step":1,"chunk":{"type":"text-delta","index":0,"text":"a"}}',
        b'{"turn":1,"step":1,"chunk":{"type":"block-end","index":0,"block":{"of":'
        + b"[" * 9000
        + b"]" * 9000
        + b"}}}",
        b"[]",
        b"",
    ],
)
def test_anything_else_is_left_to_the_slow_way(data: bytes) -> None:
    assert plain_chunk.read(data) is None
