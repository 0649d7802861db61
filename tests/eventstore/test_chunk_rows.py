"""Chunk rows: what packs, what a row must look like, and that nothing is lost either way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.eventstore import chunk_rows, json_text
from playhead.eventstore.chunk_rows import JSONL, SQLITE, Limits, MalformedRow
from playhead.eventstore.ids import SAFE_INTEGER


def _delta(seq: int, time: int, chunk: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "assistant/chunk",
        "seq": seq,
        "time": time,
        "data": {"turn": 1, "step": 1, "chunk": chunk},
    }


def _text(seq: int, text: str, time: int = 0) -> dict[str, Any]:
    return _delta(seq, time, {"type": "text-delta", "index": 0, "text": text})


@pytest.mark.parametrize("case", cases("chunk_rows", "cases"))
def test_vector(case: dict[str, Any]) -> None:
    if case["op"] == "pack":
        rows = chunk_rows.pack(case["events"])
        assert rows == case["records"]
        assert [json_text.dumps(row).decode() for row in rows] == case["lines"]
        assert [event for row in rows for event in chunk_rows.unpack(row)] == case["events"]
        return
    value = json_text.parse(case["line"])
    if "error" in case or case.get("optional"):
        with pytest.raises(MalformedRow) as caught:
            chunk_rows.unpack(value)
        assert caught.value.code == case.get("error", "row-seq-range")
        return
    events = chunk_rows.unpack(value)
    assert events == case["events"]
    assert json_text.dumps(events) == json_text.dumps(case["events"])


@pytest.mark.parametrize("case", cases("chunk_rows", "sqlite_read_differences"))
def test_vector_of_the_limits_on_reading(case: dict[str, Any]) -> None:
    row = json_text.parse(case["line"])
    for limits, accepted in ((SQLITE, case["sqlite_accepts"]), (chunk_rows.READ, case["jsonl_accepts"])):
        if accepted:
            chunk_rows.validate(row, limits)
        else:
            with pytest.raises(MalformedRow) as caught:
                chunk_rows.validate(row, limits)
            assert caught.value.code == "row-members"


@pytest.mark.parametrize("case", cases("chunk_rows", "sqlite_run_splitting"))
def test_vector_of_splitting_a_long_run(case: dict[str, Any]) -> None:
    events = [_text(seq, "a") for seq in range(case["members"])]
    rows = chunk_rows.pack(events, SQLITE)
    assert [len(row["data"].get("texts", ())) for row in rows] == case["rows"]
    assert [event for row in rows for event in chunk_rows.unpack(row)] == events


def test_a_row_too_large_for_a_database_is_cut_where_its_data_still_fits() -> None:
    events = [_text(seq, "é" * 100_000) for seq in range(14)]
    rows = chunk_rows.pack(events, SQLITE)
    assert [len(row["data"].get("texts", ())) for row in rows] == [5, 5, 4]
    for row in rows:
        chunk_rows.validate(row, SQLITE)
    too_large = chunk_rows.pack(events[:6], JSONL)[0]
    with pytest.raises(MalformedRow) as caught:
        chunk_rows.validate(too_large, SQLITE)
    assert caught.value.code == "row-size"


def test_a_member_too_large_for_any_row_stays_unpacked_between_rows() -> None:
    events = [_text(seq, "x" * 2_000_000 if seq == 3 else "a") for seq in range(7)]
    rows = chunk_rows.pack(events, SQLITE)
    assert [row["type"] for row in rows] == ["text-chunks", "assistant/chunk", "text-chunks"]


def test_times_follow_the_gaps_backwards_too() -> None:
    row = chunk_rows.pack([_text(0, "a", 10), _text(1, "b", 4), _text(2, "c", 5)])[0]
    assert row["data"]["dt"] == [-6, 1]
    assert chunk_rows.times(row) == [10, 4, 5]


def test_a_number_that_json_cannot_print_makes_a_row_malformed() -> None:
    row = chunk_rows.pack([_text(seq, "a") for seq in range(3)])[0]
    row["data"]["turn"] = float("inf")
    with pytest.raises(MalformedRow) as caught:
        chunk_rows.validate(row)
    assert caught.value.code == "row-placement"


@pytest.mark.parametrize("value", [None, 7, "text", [], {}, {"type": None}, {"type": ["text-chunks"]}])
def test_what_is_no_row_passes_through_unread(value: Any) -> None:
    assert chunk_rows.unpack(value) == [value]


_texts = st.text(st.characters(exclude_categories=()), max_size=4)
_small = st.integers(0, 1)
_chunks = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text-delta", "reasoning-delta"]), "index": _small, "text": _texts}
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool-call-delta"), "index": _small, "id": st.just("c"), "argumentsDelta": _texts},
        optional={"name": st.sampled_from(["", "read"])},
    ),
    st.fixed_dictionaries({"type": st.just("block-start"), "index": _small, "blockType": st.just("text")}),
)


@st.composite
def _batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events of one batch: runs of deltas with holes, foreign members and clocks that step back."""
    seq = draw(st.integers(0, 1000))
    time = draw(st.sampled_from([0, -5, 1_780_000_000_000, SAFE_INTEGER]))
    batch = []
    for _ in range(draw(st.integers(0, 6))):
        chunk = draw(_chunks)
        step = draw(_small)
        for _ in range(draw(st.integers(1, 5))):
            event = _delta(seq, time, dict(chunk))
            event["data"]["step"] = step
            if "text" in chunk:
                event["data"]["chunk"]["text"] = draw(_texts)
            if draw(st.integers(0, 20)) == 0:
                event["ignorable"] = True
            batch.append(event)
            seq += 1 if draw(st.integers(0, 20)) else 2
            time = max(-SAFE_INTEGER, min(SAFE_INTEGER, time + draw(st.integers(-50, 50))))
    return batch


@given(_batches(), st.sampled_from([JSONL, SQLITE, Limits(3, 4, 120), Limits(2, 3)]))
def test_unpacking_what_was_packed_gives_the_events_back(batch: list[dict[str, Any]], limits: Limits) -> None:
    rows = chunk_rows.pack(batch, limits)
    assert [event for row in rows for event in chunk_rows.unpack(row)] == batch
    for row in rows:
        if row["type"] in chunk_rows.TAGS:
            chunk_rows.validate(row, limits)
            assert len(chunk_rows.times(row)) == len(chunk_rows.unpack(row))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(sorted(chunk_rows.TAGS)), "seq0": _json, "time0": _json, "data": _json}
    )
)
def test_any_value_is_a_row_or_malformed(row: dict[str, Any]) -> None:
    try:
        events = chunk_rows.unpack(row)
    except MalformedRow:
        return
    assert [event["time"] for event in events] == chunk_rows.times(row)
