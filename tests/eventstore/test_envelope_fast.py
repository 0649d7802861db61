"""The quick way to read a line and the thorough one say the same of every line."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.eventstore import chunk_rows, envelope
from playhead.eventstore.ids import SAFE_INTEGER, SessionId

SESSION = SessionId("s")

numbers = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([SAFE_INTEGER, SAFE_INTEGER + 1, -SAFE_INTEGER, -SAFE_INTEGER - 1, 2**63, 2**64, 10**30]),
    st.sampled_from([0.0, 1.5, 5.0, True, None, "1", [], {}]),
)
texts = st.sampled_from(["", "a", "é🙂", "\udc80", '"', 1, None])
tags = st.sampled_from([*sorted(chunk_rows.TAGS), "assistant/chunk", "", "\udc80", 5])


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A chunk row, sound or with members that do not fit."""
    tag = draw(tags)
    payload = draw(st.lists(texts if draw(st.booleans()) else st.just("t"), max_size=4))
    gap = numbers if draw(st.booleans()) else st.integers(-9, 9)
    size = draw(st.sampled_from([len(payload) - 1, len(payload) - 1, len(payload) - 1, len(payload), 0]))
    data: dict[str, Any] = {"turn": 1, "step": 2, "index": 0, "dt": [draw(gap) for _ in range(max(0, size))]}
    is_call = tag == "tool-call-chunks"
    data["args" if is_call else "texts"] = payload
    if is_call:
        data["id"] = "c"
    changed = st.sampled_from(["turn", "step", "index", "dt", "texts", "args", "id", "name", "more"])
    for key in draw(st.lists(changed, max_size=2)):
        if draw(st.booleans()):
            data[key] = draw(st.one_of(numbers, texts, st.lists(texts, max_size=2)))
        else:
            data.pop(key, None)
    row: dict[str, Any] = {"type": tag, "seq0": 7, "time0": 1_790_000_000_000, "data": data}
    for key in draw(
        st.lists(st.sampled_from(["seq0", "time0", "data", "seq", "time", "ignorable"]), max_size=1)
    ):
        row[key] = draw(numbers)
    return row


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event, sound or with members that do not fit."""
    event: dict[str, Any] = {"type": draw(tags), "seq": 7, "time": 1_790_000_000_000, "data": draw(texts)}
    keys = st.sampled_from(["seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp", "more"])
    for key in draw(st.lists(keys, max_size=2)):
        event[key] = draw(st.one_of(numbers, st.just("append"), st.lists(numbers, max_size=3)))
    return event


@settings(max_examples=200)
@given(
    st.one_of(rows(), events()), st.booleans(), st.sampled_from([b"", b"\r", b" ", b"x", b"{}"]), st.data()
)
def test_both_ways_of_reading_a_line_agree(
    value: dict[str, Any], escaped: bool, behind: bytes, data: st.DataObject
) -> None:
    line = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass") + behind
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(line) - 1))
        line = line[:at] + data.draw(st.binary(max_size=1)).replace(b"\n", b"") + line[at + 1 :]
    assert envelope.view(line) == envelope._slow_view(line)
    assert envelope.facts(line, SESSION) == list(envelope._slow_facts(line, SESSION, None))
