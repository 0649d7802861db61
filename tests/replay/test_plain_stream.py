"""The quick way to read the stream inside an event gives what the slow one gives, or nothing."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabulary import any_text, chunks, writable

from playhead.eventstore import json_text
from playhead.eventstore.ids import SAFE_INTEGER, Seq, SessionId
from playhead.eventstore.recorded import Recorded
from playhead.replay import plain_stream, stream
from playhead.replay.timed_chunk import TimedChunk

Json = dict[str, Any]
ODD = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
TIMES = st.integers(-9, 9) | st.just(SAFE_INTEGER)
SINGLE = {"type": "chunk", "time": 5, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}}
RUN = {"type": "text-chunks", "time0": 5, "index": 0, "dt": [0, 3], "texts": ["a", "", "b"]}
THOUGHT = RUN | {"type": "reasoning-chunks"}
CALL = {"type": "tool-call-chunks", "time0": 5, "index": 1, "dt": [-2], "id": "c", "args": ["{", "}"]}


def slowly(entries: list[Any], joined: bool) -> list[TimedChunk] | None:
    """The chunks of a stream; None where something in it is none."""
    raw = json_text.dumps({"stream": entries})
    event = Recorded(SessionId("s"), Seq(0), 0, "assistant/message", raw)
    with patch.object(plain_stream, "read", return_value=None):
        pieces = list(stream.embedded_chunks(event, joined=joined))
    found = [piece for piece in pieces if isinstance(piece, TimedChunk)]
    return found if len(found) == len(pieces) else None


@st.composite
def entries(draw: st.DrawFn) -> Json:
    """An entry of a stream, sometimes with one member that is odd."""
    if draw(st.booleans()):
        entry: Json = {"type": "chunk", "time": draw(TIMES), "chunk": draw(writable(chunks()))}
    else:
        texts = draw(st.lists(any_text, min_size=1, max_size=4))
        gaps = draw(st.lists(st.integers(-9, 9), min_size=len(texts) - 1, max_size=len(texts) - 1))
        entry = draw(st.sampled_from([RUN, THOUGHT, CALL, CALL | {"name": "read"}]))
        entry = entry | {"time0": draw(TIMES), "dt": gaps, "args" if "args" in entry else "texts": texts}
    if draw(st.integers(0, 4)) == 0:
        entry = entry | {draw(st.sampled_from([*entry, "more", "name", "turn"])): draw(ODD)}
    return entry


@settings(max_examples=200)
@given(st.lists(entries(), max_size=3), st.booleans())
def test_what_is_read_quickly_is_what_is_read_slowly(drawn: list[Json], joined: bool) -> None:
    read = plain_stream.read(json_text.parse(json_text.dumps(drawn)), joined=joined)
    assert read is None or read == slowly(drawn, joined)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    "entry",
    [
        SINGLE,
        SINGLE | {"more": 1},
        SINGLE | {"chunk": {"type": "finish", "reason": {"kind": "stop"}}},
        RUN,
        RUN | {"dt": [], "texts": ["\ud83d"]},
        RUN | {"time0": SAFE_INTEGER, "dt": [-SAFE_INTEGER, SAFE_INTEGER]},
        THOUGHT,
        CALL,
        CALL | {"name": ""},
    ],
)
def test_entries_of_every_kind_are_read_quickly(entry: Json, joined: bool) -> None:
    read = plain_stream.read([SINGLE, entry], joined=joined)
    assert read is not None
    assert read == slowly([SINGLE, entry], joined)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        SINGLE | {"type": "song"},
        SINGLE | {"type": "\ud83d"},
        SINGLE | {"time": 5.0},
        SINGLE | {"time": SAFE_INTEGER + 1},
        SINGLE | {"chunk": {"type": "song"}},
        SINGLE | {"chunk": {"type": "usage", "usage": {}}},
        SINGLE | {"chunk": SINGLE["chunk"] | {"more": 1}},
        RUN | {"texts": []},
        RUN | {"texts": ["a", "b"]},
        RUN | {"texts": ["a", "b", 7]},
        RUN | {"dt": [0, SAFE_INTEGER]},
        RUN | {"dt": [0, 0.0]},
        RUN | {"dt": [0, True]},
        RUN | {"index": None},
        RUN | {"turn": 1},
        RUN | {"id": "c"},
        RUN | {"name": "read"},
        CALL | {"name": None},
        {key: value for key, value in CALL.items() if key != "id"},
        CALL | {"texts": ["{", "}"]},
    ],
)
def test_a_stream_with_anything_else_is_left_to_the_slow_way(entry: Any, joined: bool) -> None:
    assert plain_stream.read([SINGLE, entry], joined=joined) is None
