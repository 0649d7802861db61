"""Whatever a log holds is compared, and equals itself."""

from __future__ import annotations

from typing import Any

from diff_logs import log, told, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import Log

import playhead
from playhead.eventstore import json_text
from playhead.eventstore.ids import SessionId
from playhead.replay.diff import pairs
from playhead.replay.part import Part

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["turn", "message", "id", "x"]), inner)
    ),
    max_leaves=8,
)
TYPES = [
    "turn/start",
    "step/start",
    "turn/end",
    "assistant/chunk",
    "assistant/message",
    "assistant/attempt",
    "system/message",
    "request/header",
    "session/title",
    "session/end-seed",
    "tool/result",
    "x/unknown",
]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(TYPES), json_values), max_size=6),
    st.lists(st.tuples(st.sampled_from(TYPES), json_values), max_size=6),
)
def test_any_data_is_compared_and_equals_itself(a: list[tuple[str, Any]], b: list[tuple[str, Any]]) -> None:
    one, other = (
        Log.of(
            playhead.Recorded(SessionId("s1"), playhead.Seq(seq), 1, type, json_text.dumps(data))
            for seq, (type, data) in enumerate(events)
        )
        for events in (a, b)
    )
    assert told(pairs(one, one)) == []
    list(pairs(one, other))


def test_data_that_is_no_json_and_data_without_a_bottom_are_compared() -> None:
    def raw(text: bytes) -> Log:
        return Log.of([playhead.Recorded(SessionId("s1"), playhead.Seq(0), 1, "x/odd", text)])

    deep, deeper = (b"[" * 50_000 + inner + b"]" * 50_000 for inner in (b"1", b"2"))
    assert told(pairs(raw(deep), raw(deep))) == []
    ((kind, _, (path, change)),) = told(pairs(raw(deep), raw(deeper)))
    assert (kind, change, set(path)) == ("changed", "changed", {0})
    assert told(pairs(raw(b"{"), raw(b"{"))) == []
    assert told(pairs(raw(b"{"), raw(b"["))) == [("changed", "x/odd", (("notJson",), "text"))]


def test_halves_of_characters_are_compared() -> None:
    one, other = (log(("feedback/record", {"text": text})) for text in ("\ud83d", "\ude00"))
    assert told(pairs(one, one)) == []
    assert told(pairs(one, other)) == [("changed", "feedback/record", (("text",), "text"))]


def test_a_cut_session_ends_before_its_end() -> None:
    session = log(*turn(1), *turn(2))
    assert told(pairs(Part(session, to_seq=2), log(*turn(1)))) == []
    assert (Part(session, to_seq=2).next_seq, Part(session, to_seq=99).next_seq) == (2, 4)
    assert [fact.seq for fact in Part(session, to_seq=3).events(1, 9)] == [1, 2]
