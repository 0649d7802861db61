"""Writing logs: what is written reads back as what went in, and is what dsh writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_sessions import CREATED_MS, Native, natives, recorded
from reference import SHARED, needs_shared

from playhead.adapters.dsh import DIALECTS, dialect_name, seed_length
from playhead.adapters.dsh.strict import StrictLog, parse_strict
from playhead.adapters.dsh.writer import LAYOUTS, Layout, header_of, rows, write_log
from playhead.eventstore import chunk_rows, envelope, json_text, zstd_frames
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded, Replace

Json = dict[str, Any]
HEADER = SessionHeader(SessionId("s1"), CREATED_MS, cwd="/w")
EARLY = [name for name, layout in LAYOUTS.items() if layout.version < 2]
LATER = [name for name, layout in LAYOUTS.items() if layout.version >= 2]


def written(name: str, native: Native, *, compressed: bool) -> StrictLog:
    """The session as dsh would open it once it is written."""
    file = write_log(LAYOUTS[name], native.header, native.batches, compressed=compressed)
    log = parse_strict(file, compressed=compressed)
    assert (log.dropped, log.torn_bytes, log.torn_frame) == (None, 0, None)
    return log


def lines(name: str, events: list[Json], header: SessionHeader = HEADER) -> list[Json]:
    """The lines behind the header of one batch of events."""
    return [line for batch in rows(LAYOUTS[name], header, [recorded(events)]) for line in batch]


def log_of(*facts: tuple[str, Any] | tuple[str, Any, Json]) -> list[Json]:
    """Event objects numbered from 0, one millisecond apart."""
    return [
        {
            "type": fact[0],
            "seq": at,
            "time": CREATED_MS + at,
            "data": fact[1],
            **(fact[2] if fact[2:] else {}),
        }
        for at, fact in enumerate(facts)
    ]


def without_totals(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_totals(item) for key, item in value.items() if key != "totalTokens"}
    return [without_totals(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", EARLY)
@settings(max_examples=60)
@given(native=natives(), compressed=st.booleans())
def test_early_formats_read_back_as_the_events_that_were_written(
    name: str, native: Native, compressed: bool
) -> None:
    log = written(name, native, compressed=compressed)
    read = [event.envelope() for event in log.events]
    expected = [event.envelope() for event in native.events]
    assert (without_totals(read) if LAYOUTS[name].adds_totals else read) == expected
    assert seed_length(log.header, log.facts) == native.header.seed_length


def chunk_list(events: Iterable[Recorded]) -> list[tuple[int, int, int, Json]]:
    """Every chunk with time, turn and step, from chunk events and from embedded streams."""
    found = []
    for event in events:
        data = event.json
        if event.type == "assistant/chunk":
            found.append((event.time_ms, data["turn"], data["step"], data["chunk"]))
        for entry in data.get("stream", ()) if isinstance(data, dict) else ():
            if entry["type"] == "chunk":
                found.append((entry["time"], data["turn"], data["step"], entry["chunk"]))
                continue
            row = {"type": entry["type"], "seq0": 0, "time0": entry["time0"]}
            rest = {key: value for key, value in entry.items() if key not in ("type", "time0")}
            for chunk in chunk_rows.unpack(row | {"data": {"turn": 1, "step": 1, **rest}}):
                found.append((chunk["time"], data["turn"], data["step"], chunk["data"]["chunk"]))
    return found


@pytest.mark.parametrize("name", LATER)
@settings(max_examples=60)
@given(native=natives(), compressed=st.booleans())
def test_later_formats_keep_every_chunk_with_its_time_and_in_order(
    name: str, native: Native, compressed: bool
) -> None:
    read = chunk_list(written(name, native, compressed=compressed).events)
    assert read == sorted(read, key=lambda chunk: chunk[0])
    assert read == chunk_list(native.events)


def kept(events: Iterable[Recorded]) -> list[tuple[int, str, Any]]:
    """Time, type and data of what every format has, without what a format may add, move or rename."""
    changed = ("assistant/chunk", "assistant/attempt", "system/message", "session/end-seed")
    found = []
    for event in events:
        data = event.json
        if event.type in changed:
            continue
        if event.type == "request/header":
            header = {key: value for key, value in data["header"].items() if key != "system"}
            data = data | {"header": header}
        if isinstance(data, dict):
            cited = ("messageSeqs", "shadowedSeqs", "shadowedRange", "stream", "source", "inserted")
            data = {key: value for key, value in data.items() if key not in cited}
        found.append((event.time_ms, event.type, data))
    return found


@pytest.mark.parametrize("name", LATER)
@settings(max_examples=60)
@given(native=natives())
def test_later_formats_keep_everything_else_in_order(name: str, native: Native) -> None:
    log = written(name, native, compressed=False)
    assert kept(log.events) == kept(native.events)


def cited_times(events: list[Recorded]) -> list[tuple[int, list[int]]]:
    """For each event that cites others the times of these; chunks that it cites are left out."""
    time_of = {event.seq: event.time_ms for event in events}
    chunks = {event.time_ms for event in events if event.type == "assistant/chunk"}
    found = []
    for event in events:
        if event.type in ("system/message", "assistant/message"):
            continue
        seqs = [*(event.source_seqs or ())]
        if isinstance(event.surface_op, Replace):
            seqs += [event.surface_op.start, event.surface_op.end]
        data = event.json if isinstance(event.json, dict) else {}
        seqs += [*data.get("messageSeqs", ()), *data.get("shadowedSeqs", ())]
        seqs += [*data.get("shadowedRange", {}).values()]
        times = [time_of[seq] for seq in seqs]
        if times:
            found.append((event.time_ms, [time for time in times if time not in chunks]))
    return found


@pytest.mark.parametrize("name", LATER)
@settings(max_examples=60)
@given(native=natives())
def test_in_later_formats_every_reference_follows_the_event_that_it_means(name: str, native: Native) -> None:
    log = written(name, native, compressed=False)
    assert cited_times(log.events) == cited_times(native.events)


@pytest.mark.parametrize("name", LATER)
@settings(max_examples=60)
@given(native=natives())
def test_in_later_formats_a_marker_ends_the_inherited_events(name: str, native: Native) -> None:
    log = written(name, native, compressed=False)
    cut, early_cut = seed_length(log.header, log.facts), native.header.seed_length
    assert (cut is None) == (early_cut is None)
    assert log.header.is_seeded == (cut is not None)
    inherited = native.events[: early_cut or 0]
    assert kept(log.events[: cut or 0]) == kept(inherited)
    assert kept(log.events[cut or 0 :]) == kept(native.events[early_cut or 0 :])


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=30)
@given(native=natives())
def test_a_compressed_file_is_the_plain_one_in_a_frame_for_the_header_and_one_for_each_batch(
    name: str, native: Native
) -> None:
    layout = LAYOUTS[name]
    file = write_log(layout, native.header, native.batches, compressed=True)
    frames = [b"".join(zstd_frames.decode(file, span)) for span in zstd_frames.FrameWalk(file)]
    assert b"".join(frames) == write_log(layout, native.header, native.batches)
    assert frames[0] == header_of(layout, native.header).line() + b"\n"
    assert len(frames) == 1 + len(rows(layout, native.header, native.batches))
    assert all(frame.endswith(b"\n") for frame in frames)


def test_a_chunk_row_ends_where_its_batch_ends() -> None:
    chunk = {"type": "text-delta", "index": 0, "text": "x"}
    events = recorded(log_of(*[("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})] * 8))
    [first, second] = rows(LAYOUTS["v0"], HEADER, [events[:5], events[5:]])
    assert [(line["seq0"], len(line["data"]["texts"])) for line in (*first, *second)] == [(0, 5), (5, 3)]
    assert len(rows(LAYOUTS["v0-unpacked"], HEADER, [events])[0]) == 8


def test_usage_gains_a_total_in_the_second_dialect_of_format_0_and_only_there() -> None:
    usage = {"inputTokens": 56, "outputTokens": 7, "cacheReadTokens": 64, "reasoningTokens": 2}
    chunk = {"turn": 1, "step": 1, "chunk": {"type": "usage", "usage": usage}}
    [line] = lines("v0-ranged", log_of(("assistant/chunk", chunk)))
    assert json_text.dumps(line["data"]["chunk"]["usage"]) == (
        b'{"inputTokens":56,"outputTokens":7,"totalTokens":127,"cacheReadTokens":64,"reasoningTokens":2}'
    )
    [again] = lines("v0-ranged", [line])
    assert again == line
    [plain] = lines("v1", log_of(("assistant/chunk", chunk)))
    assert plain["data"] == chunk


def test_each_attempt_without_a_message_is_an_event_at_the_place_and_time_of_its_last_chunk() -> None:
    place = {"turn": 1, "step": 1}
    error = {"type": "finish", "reason": {"kind": "error", "failure": {"message": "m", "code": "SERVER"}}}
    start = {"type": "block-start", "index": 0, "blockType": "text"}
    events = log_of(
        ("step/start", place),
        ("assistant/chunk", {**place, "chunk": start}),
        ("feedback/record", {"text": "within"}),
        ("assistant/chunk", {**place, "chunk": error}),
        ("assistant/chunk", {**place, "chunk": start}),
        ("feedback/record", {"text": "behind"}),
        ("step/end", place),
    )
    got = lines("v2", events)
    assert [(line["type"], line["time"] - CREATED_MS) for line in got] == [
        ("step/start", 0),
        ("feedback/record", 2),
        ("assistant/attempt", 3),
        ("assistant/attempt", 4),
        ("feedback/record", 5),
        ("step/end", 6),
    ]
    streams = [line["data"]["stream"] for line in got if line["type"] == "assistant/attempt"]
    assert [[entry["chunk"] for entry in stream] for stream in streams] == [[start, error], [start]]


def test_the_system_prompt_becomes_an_empty_message_and_a_replacement_for_each_change() -> None:
    def request(system: str) -> tuple[str, Json]:
        config = {"provider": "p", "model": "m"}
        return "request/header", {"header": {"config": config, "system": system}, "reason": "change"}

    place = {"turn": 1, "step": 1}
    events = log_of(
        ("turn/start", {"turn": 1}), ("step/start", place), request("A"), request("A"), request("B")
    )
    got = lines("v3", events)
    assert [line["type"].partition("/")[0] for line in got] == [
        *("turn", "step", "system", "system", "request", "request", "system", "request")
    ]
    prompts = [line for line in got if line["type"] == "system/message"]
    assert [line["data"]["message"]["content"] for line in prompts] == [
        [],
        [{"type": "text", "text": "A"}],
        [{"type": "text", "text": "B"}],
    ]
    assert [line["surfaceOp"] for line in prompts] == [
        "append",
        {"op": "replace", "startSeq": 2, "endSeq": 2},
        {"op": "replace", "startSeq": 3, "endSeq": 3},
    ]
    assert [line.get("sourceEventSeqs") for line in prompts] == [None, [2], [3]]
    assert len({line["data"]["message"]["id"] for line in prompts}) == 3
    assert all("system" not in line["data"]["header"] for line in got if line["type"] == "request/header")


@pytest.mark.parametrize(
    ("plugin", "kind"),
    [
        ("@deepseek-ai/dsh-system-prompt", "runtime-context"),
        ("compact", "compact-checkpoint"),
        ("tool-goal", "tool-goal"),
        ("of-my-own", "plugin:of-my-own"),
    ],
)
def test_format_4_gives_the_messages_of_a_plugin_a_kind_of_their_own(plugin: str, kind: str) -> None:
    source = {"kind": "plugin", "plugin": plugin, "form": "notice"}
    message = {"content": [], "source": source, "role": "user", "id": "m"}
    splice = {"target": "next-turn", "start": 0, "inserted": [message]}
    said = ("user/message", message, {"surfaceOp": "append"})
    events = log_of(("agent/inbox/spliced", splice), said)
    assert lines("v3", events)[1]["data"] == message
    [queued, shown] = lines("v4", events)
    assert queued["data"]["inserted"] == [shown["data"]]
    assert shown["data"]["source"] == {"kind": kind, "form": "notice"}


@pytest.mark.parametrize(
    "source", [{"kind": "plugin"}, {"kind": "plugin", "plugin": ["a list"]}, "plugin", None]
)
def test_format_4_leaves_a_source_that_names_no_plugin_as_it_is(source: Any) -> None:
    message = {"content": [], "source": source, "role": "user", "id": "m"}
    [shown] = lines("v4", log_of(("user/message", message, {"surfaceOp": "append"})))
    assert shown["data"] == message


def test_a_header_of_format_2_or_newer_is_refused() -> None:
    with pytest.raises(UsageError, match="format 2"):
        write_log(LAYOUTS["v4"], replace(HEADER, version=2), [])


def test_a_chunk_without_its_place_is_refused_by_the_formats_that_need_it() -> None:
    events = log_of(("assistant/chunk", {"turn": 1, "chunk": {}}))
    assert lines("v0", events) == events
    with pytest.raises(UsageError, match="seq 0"):
        lines("v2", events)


CORPUS = SHARED / "corpus" / "dsh"
RUNTIMES = {"0.1.0rc6": "v0", "0.1.1rc1": "v0", "0.1.2a3": "v0-ranged", "0.1.2rc1": "v0-ranged"}
UNPACKED = {"raw-unpacked"}
CLOSER = b'"surfaceOp":"append","sourceEventSeqs"'
"""How repair orders the two members; the order is no part of an event, and is written as a live log has it."""


def recorded_files() -> list[Any]:
    """Every log of format 0 that its runtime wrote, without the torn ones."""
    if not CORPUS.is_dir():
        return [pytest.param(None, "", marks=needs_shared, id="no-reference-material")]
    return [
        pytest.param(file, RUNTIMES[runtime], id=str(file.relative_to(CORPUS).parent.parent))
        for runtime in RUNTIMES
        for file in sorted((CORPUS / runtime).rglob("session.jsonl*"))
        if "torn" not in str(file)
    ]


@pytest.mark.parametrize(("file", "name"), recorded_files())
def test_a_recorded_log_of_format_0_is_written_again_byte_for_byte(file: Path, name: str) -> None:
    layout, header, batches = recorded_log(file, name)
    again = write_log(layout, header, batches, compressed=file.suffix == ".zstd")
    if CLOSER in decoded(file):
        found = [json_text.parse(line) for line in decoded(file).splitlines()[1:]]
        assert [line for batch in rows(layout, header, batches) for line in batch] == found
    else:
        assert again == file.read_bytes()


def recorded_log(file: Path, name: str) -> tuple[Layout, SessionHeader, list[list[Recorded]]]:
    """How a recorded log is laid out, its header, and its facts in batches: its frames, or one for a plain log."""
    data = file.read_bytes()
    content = [decoded(file)]
    if file.suffix == ".zstd":
        content = [b"".join(zstd_frames.decode(data, span)) for span in zstd_frames.FrameWalk(data)]
    line, _, content[0] = content[0].partition(b"\n")
    header = SessionHeader.parse(line)
    batches = [
        [fact for text in block.splitlines() for fact in envelope.facts(text, header.id)] for block in content
    ]
    layout = LAYOUTS[name]
    return replace(layout, packs_chunks=not UNPACKED & {*file.parts}), header, batches


def decoded(file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix != ".zstd":
        return data
    return b"".join(b"".join(zstd_frames.decode(data, span)) for span in zstd_frames.FrameWalk(data))


def conversions() -> list[Any]:
    """Pairs of logs: one of format 0 or 1, and what a released runtime converted it to."""
    if not CORPUS.is_dir():
        return [pytest.param(None, None, marks=needs_shared, id="no-reference-material")]
    pairs = []
    for before in sorted(CORPUS.glob("*/migrate-from-*/before/sessions/*/*/session.*")):
        after = [*Path(str(before.parent).replace("/before/", "/after-resume/")).glob("session.v[34].*")]
        pairs += [(before, file) for file in after if ".v2." not in before.name and ".v3." not in before.name]
    for after_v2 in sorted((CORPUS / "derived-v2").rglob("session.v2.*")):
        place = after_v2.parent.relative_to(CORPUS / "derived-v2")
        pairs += [(file, after_v2) for file in (CORPUS / "derived-v1" / place).glob("session.v1.*")]
    return [
        pytest.param(
            before, after, id=f"{after.relative_to(CORPUS).parts[1]}-{after.parent.name[:8]}-{after.name}"
        )
        for before, after in pairs
    ]


@pytest.mark.parametrize(("before", "after"), conversions())
def test_a_later_format_is_what_dsh_converts_the_log_to_byte_for_byte(before: Path, after: Path) -> None:
    head, *converted = decoded(after).splitlines()
    version = SessionHeader.parse(head).version
    parsed = [line for line in decoded_whole(before).splitlines() if line]
    header = SessionHeader.parse(parsed[0])
    events = list(logical(header, parsed[1:]))
    mine = [
        json_text.dumps(line) for batch in rows(LAYOUTS[f"v{version}"], header, [events]) for line in batch
    ]
    assert header_of(LAYOUTS[f"v{version}"], header).line() == head
    assert mine == converted[: len(mine)]
    added = {json_text.parse(line)["type"] for line in converted[len(mine) :]}
    assert added <= {
        *("step/end", "turn/end", "tool/result", "session/end-seed", "subagent/catalog"),
        *("permission/preset", "sandbox/mode", "approval/policy"),
    }


def decoded_whole(file: Path) -> bytes:
    """The whole lines of a log; a torn frame at its end gave none."""
    data = decoded(file)
    return data[: data.rfind(b"\n") + 1]


def logical(header: SessionHeader, found: list[bytes]) -> Iterable[Recorded]:
    dialect = DIALECTS[dialect_name(header)]
    state = dialect.initial(header)
    for line in found:
        for fact in envelope.facts(line, header.id):
            state, events = dialect.step(state, fact)
            yield from events
