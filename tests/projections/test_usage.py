"""Tokens: what a call took counts once, in whatever way the log is stored, and what nobody said stays unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_sessions import Native, natives
from reference import cases, shared_path
from session_logs import recorded
from twins import Log, Twins, read_log, twins

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore import chunk_rows, json_text, zstd_frames
from playhead.eventstore.header import SessionHeader
from playhead.projections.attempt import Tokens
from playhead.projections.folding import Folded, advance, begin, fold
from playhead.projections.token_sums import TokenSum
from playhead.projections.usage import session_tokens, usage

CASE = "cases/15-usage-stands-three-times"


def own(log: Log, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = usage.view(fold(log, usage, **how).state)["own"]
    return found


@pytest.mark.parametrize("case", cases("projections", "tokenUsage"))
def test_vector(case: dict[str, Any]) -> None:
    assert session_tokens(fold(Log.of(recorded(case["events"])), usage).state) == case["view"]


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_a_recorded_log_has_the_session_tokens_of_the_original(case: dict[str, Any]) -> None:
    state = fold(read_log(shared_path(case["corpus"])), usage).state
    assert session_tokens(state) == case["token_usage"]


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_took_what_its_source_took(pair: Twins) -> None:
    def told(state: Any) -> Any:
        view = usage.view(state)
        for turn in view["turns"]:
            for call in (call for step in turn["steps"] for call in step["each"]):
                del call["seq"]
        return view

    source = fold(pair.source, usage, repaired=True).state
    assert told(fold(pair.migrated, usage).state) == told(source)


def test_usage_that_stands_three_times_counts_once() -> None:
    expected = json.loads(Path(shared_path(f"{CASE}/expected.json")).read_bytes())
    found = own(read_log(shared_path(f"{CASE}/log.jsonl")))
    assert found["calls"] == expected["calls"]
    assert (found["input"], found["output"]) == (expected["uncached_input"], expected["output"])
    assert (found["cacheRead"], found["cacheWrite"]) == (expected["cache_read"], expected["cache_write"])
    assert found["reasoning"] == expected["reasoning_within_output"]
    assert found["billedInput"] == 157 + 740 + 11
    assert found["reportedBy"]["cacheWrite"] == 1


@pytest.mark.parametrize("layout", ["plain", "packed", "compressed"])
def test_sums_do_not_depend_on_how_the_log_is_stored(layout: str, tmp_path: Path) -> None:
    original = Path(shared_path(f"{CASE}/log.jsonl"))
    header, *lines = original.read_bytes().splitlines()
    if layout == "packed":
        lines = [json_text.dumps(row) for row in chunk_rows.pack([json_text.parse(line) for line in lines])]
    decoded = b"".join(line + b"\n" for line in (header, *lines))
    file = tmp_path / ("session.jsonl.zstd" if layout == "compressed" else "session.jsonl")
    file.write_bytes(zstd_frames.write_frame(decoded) if layout == "compressed" else decoded)
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [file])
        (info,) = store.sessions()
        session = store.session(info.id)
        state = fold(session, usage).state
    assert usage.view(state) == usage.view(fold(read_log(original), usage).state)


def test_sums_do_not_depend_on_where_reading_stopped_and_went_on() -> None:
    log = read_log(shared_path(f"{CASE}/log.jsonl"))
    whole = fold(log, usage).state
    for cut in range(len(log.facts) + 1):
        half = advance(usage, begin(usage, log.header), log.facts[:cut])
        kept = Folded(usage.load(usage.dump(half.state)), half.next_seq)
        assert fold(log, usage, since=kept).state == whole


def test_a_failed_call_and_its_retry_both_count_where_the_runtimes_count_one() -> None:
    place = {"turn": 1, "step": 1}

    def call(input: int, reason: str) -> list[dict[str, Any]]:
        return [
            {"type": "usage", "usage": {"inputTokens": input, "outputTokens": 1}},
            {"type": "finish", "reason": {"kind": reason}},
        ]

    chunks = [*call(10, "error"), *call(20, "stop")]
    log = Log.of(
        recorded(
            [
                {"type": "assistant/chunk", "seq": seq, "time": 0, "data": {**place, "chunk": chunk}}
                for seq, chunk in enumerate(chunks)
            ]
        )
    )
    state = fold(log, usage).state
    assert usage.view(state)["own"]["input"] == 30
    assert session_tokens(state)["uncachedInputTokens"] == 20


def test_what_was_not_reported_is_unknown_and_counted_as_such() -> None:
    found = TokenSum.of([None, Tokens(output=3), None])
    assert (found.calls, found.unknown) == (3, 2)
    assert (found.tokens.output, found.tokens.input, found.billed_input) == (3, None, None)
    assert TokenSum.of([Tokens(input=0)]).tokens.input == 0


@pytest.mark.parametrize("case", ["12-error-in-mid-stream", "13-interleaved-tool-calls"])
def test_a_call_whose_stream_tells_no_usage_is_one_call_without_figures(case: str) -> None:
    found = own(read_log(shared_path(f"cases/{case}/log.jsonl")))
    assert (found["calls"], found["withoutUsage"], found["input"], found["output"]) == (1, 1, None, None)


def test_the_inherited_part_is_summed_apart() -> None:
    usage_of = {"inputTokens": 5, "outputTokens": 1}
    events = [
        {
            "type": "assistant/message",
            "seq": seq,
            "time": seq,
            "data": {"turn": seq + 1, "step": 1, "message": {}, "usage": usage_of},
            "surfaceOp": "append",
        }
        for seq in range(3)
    ]
    header = SessionHeader(Log.of([]).header.id, 1, seed_length=2)
    view = usage.view(fold(Log.of(recorded(events), header), usage).state)
    assert (view["own"]["calls"], view["own"]["input"]) == (1, 5)
    assert (view["inherited"]["calls"], view["inherited"]["input"]) == (2, 10)
    assert view["sessionTokens"]["uncachedInputTokens"] == 15


@settings(max_examples=100)
@given(natives(), st.data())
def test_sums_of_two_halves_are_those_of_the_whole(native: Native, data: st.DataObject) -> None:
    log = Log(native.header, tuple(native.events))
    cut = data.draw(st.integers(0, len(native.events)))
    half = advance(usage, begin(usage, log.header), native.events[:cut])
    kept = Folded(usage.load(usage.dump(half.state)), half.next_seq)
    view = usage.view(advance(usage, kept, native.events[cut:]).state)
    assert view == usage.view(fold(log, usage).state)


@settings(max_examples=100)
@given(natives())
def test_turns_and_models_add_up_to_the_session(native: Native) -> None:
    state = fold(Log(native.header, tuple(native.events)), usage).state
    view = usage.view(state)
    for parts in (view["turns"], view["models"], [step for turn in view["turns"] for step in turn["steps"]]):
        for figure in ("calls", "withoutUsage", "input", "output", "cacheRead"):
            known = [part[figure] for part in parts if part[figure] is not None]
            assert (sum(known) if known else None) == (view["own"][figure] or (0 if known else None))
    assert len(list(usage.rows(state))) == view["own"]["calls"] + view["inherited"]["calls"]
