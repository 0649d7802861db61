"""Strict reading: what a released dsh opens, and what it refuses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path

from playhead.adapters.dsh import strict
from playhead.adapters.dsh.strict import StrictLog, read_strict
from playhead.eventstore.errors import CorruptLog, NotALog, UnknownEventType
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId

HEADER = b'{"type":"session","version":0,"id":"s1","createdAt":1,"cwd":"/w/p","delegationDepth":0}\n'


def stored(folder: Path, content: bytes, name: str = "session.jsonl") -> Path:
    """The place in the layout of dsh where the session s1 of /w/p lies."""
    file = folder / "--w-p--" / "s1" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def refusal(file: Path) -> str:
    """The class of the refusal of ``file``, in the words of the vectors."""
    with pytest.raises((CorruptLog, NotALog, UnknownEventType)) as caught:
        read_strict(file)
    error = caught.value
    if isinstance(error, CorruptLog):
        return "corrupt-validation" if error.kind == "bad-event" else "corrupt-or-io"
    return "format-unsupported"


def without_wording(event: dict[str, Any]) -> dict[str, Any]:
    """A closing event without the text of a result, whose wording is free."""
    event = json.loads(json.dumps(event))
    for block in event["data"].get("message", {}).get("content", []):
        block.pop("content", None)
    return event


@pytest.mark.parametrize("case", cases("jsonl_framing", "plain"))
def test_plain_files_are_read_and_refused_as_by_dsh(case: dict[str, Any], tmp_path: Path) -> None:
    content = base64.b64decode(case["base64"]) if "base64" in case else case["text"].encode()
    file = stored(tmp_path, content)
    if "refused" in case:
        assert refusal(file) == case["refused"]
        return
    log = read_strict(file)
    assert [fact.seq for fact in log.facts] == case["storedSeqs"]
    assert log.safe_length == case["safeLength"]
    assert [without_wording(closer.envelope()) for closer in log.closers] == [
        without_wording(event) for event in case["closers"]
    ]


@pytest.mark.parametrize("case", cases("jsonl_framing", "zstd"))
def test_compressed_files_are_read_and_refused_as_by_dsh(case: dict[str, Any], tmp_path: Path) -> None:
    file = stored(tmp_path, base64.b64decode(case["base64"]), "session.jsonl.zstd")
    if "refused" in case:
        assert refusal(file) == case["refused"]
        return
    log = read_strict(file)
    loaded = [*log.facts, *log.closers]
    assert [event.seq for event in loaded] == case["loadedSeqs"]
    assert [event.type for event in loaded] == case["loadedTypes"]
    assert log.torn_frame == case.get("tornStart")


@pytest.mark.parametrize("case", cases("jsonl_framing", "legacy"))
def test_retired_shapes_are_read_and_refused_as_by_dsh(case: dict[str, Any], tmp_path: Path) -> None:
    lines = [json.dumps(line).encode() + b"\n" for line in case["lines"]]
    file = stored(tmp_path, HEADER + b"".join(lines))
    if case.get("refused"):
        assert refusal(file) == "corrupt-or-io"
    else:
        assert [event.envelope() for event in read_strict(file).events] == case["events"]


@pytest.mark.parametrize("case", cases("jsonl_framing", "headers"))
def test_headers_are_written_and_read_back(case: dict[str, Any]) -> None:
    fields = case["header"]
    header = SessionHeader(
        id=SessionId(fields["id"]),
        created_ms=fields["createdAt"],
        version=fields["version"],
        cwd=fields.get("cwd"),
        parent=fields.get("parentSession"),
        seed_length=fields.get("seedLength"),
        origin=fields.get("origin"),
        delegation_depth=fields.get("delegationDepth", 0),
        agent_preset=fields.get("agentPreset"),
    )
    assert header.line().decode() == case["line"]
    assert strict.strict_header(header.line()) == header


def test_two_records_on_one_line_are_refused_by_line_byte_and_what_lies_behind() -> None:
    with pytest.raises(CorruptLog, match="13 whole records") as caught:
        read_strict(shared_path("cases/02-two-records-on-one-line/log.jsonl"))
    assert (caught.value.line, caught.value.byte) == (9, 1096)


def test_a_second_writer_is_named_as_the_cause() -> None:
    with pytest.raises(CorruptLog, match="ran back: expected 11, got 7: a second writer") as caught:
        read_strict(shared_path("cases/03-two-writers-one-log/log.jsonl"))
    assert (caught.value.line, caught.value.seq) == (13, 11)


def test_a_torn_tail_is_no_refusal_and_the_closers_carry_the_last_time() -> None:
    log = read_strict(shared_path("cases/01-torn-tail-then-append/log.jsonl"))
    assert (len(log.facts), log.safe_length, log.torn_bytes) == (18, 2692, 124)
    assert [(closer.type, closer.seq) for closer in log.closers] == [("step/end", 18), ("turn/end", 19)]
    assert {closer.time_ms for closer in log.closers} == {1783400000180}


@pytest.mark.parametrize("name", ["required.jsonl", "false.jsonl"])
def test_an_unknown_event_that_is_not_ignorable_is_refused_as_such(name: str) -> None:
    with pytest.raises((UnknownEventType, CorruptLog), match="seq 5"):
        read_strict(shared_path(f"cases/21-unknown-event-type/{name}"))


def test_an_ignorable_unknown_event_is_kept() -> None:
    log = read_strict(shared_path("cases/21-unknown-event-type/ignorable.jsonl"))
    assert [fact.seq for fact in log.facts] == list(range(13))


@pytest.mark.parametrize(
    ("version", "members"),
    [
        (1, {"future": 1}),
        (2, {"seedLength": 1, "isSeeded": False}),
        (2, {}),
        (3, {"isSeeded": 1}),
    ],
)
def test_later_headers_must_have_exactly_their_members(version: int, members: dict[str, Any]) -> None:
    line = {"type": "session", "version": version, "id": "s", "createdAt": 1, "delegationDepth": 0} | members
    with pytest.raises(CorruptLog):
        strict.strict_header(json.dumps(line).encode())


def result(seq: int, op: Any, sources: list[int] | None = None, **members: Any) -> bytes:
    block = {"type": "tool-result", "toolCallId": "c", "content": members.pop("content", [])}
    message = {"id": "m", "role": "user", "source": {"kind": "tool", "callId": "c"}, "content": [block]}
    event: dict[str, Any] = {"type": "tool/result", "seq": seq, "time": 1, "surfaceOp": op}
    event["data"] = {"turn": 1, "step": 1, "message": message} | members
    if sources is not None:
        event["sourceEventSeqs"] = sources
    return json.dumps(event).encode() + b"\n"


def opened(*lines: bytes) -> StrictLog:
    return strict.parse_strict(HEADER + b"".join(lines), compressed=False)


def test_a_tool_result_may_be_replaced_by_one_with_other_content_only() -> None:
    replace = {"op": "replace", "start": 0, "end": 0}
    text = [{"type": "text", "text": "cut"}]
    log = opened(
        result(0, "append", meta={"a": 1, "b": 2}),
        result(1, replace, [0], content=text, meta={"b": 2, "a": 1}),
    )
    assert len(log.facts) == 2
    with pytest.raises(CorruptLog, match="more than its content"):
        opened(result(0, "append"), result(1, replace, [0], error={"name": "E", "code": "C"}))


@pytest.mark.parametrize(
    ("op", "sources"),
    [
        ({"op": "replace", "start": 0, "end": 0}, None),
        ({"op": "replace", "start": 0, "end": 0}, [1]),
        ({"op": "replace", "start": 5, "end": 5}, [0]),
        ({"op": "replace", "startSeq": 0, "endSeq": 0}, [0]),
        ("prepend", [0]),
        ("append", [0, 0]),
        ("append", [7]),
        ("append", []),
    ],
)
def test_a_surface_operation_that_does_not_fold_is_refused(op: Any, sources: list[int] | None) -> None:
    with pytest.raises(CorruptLog) as caught:
        opened(result(0, "append"), result(1, op, sources))
    assert (caught.value.kind, caught.value.line) == ("bad-event", 3)


@given(
    st.binary(max_size=200)
    | st.lists(st.binary(max_size=40), max_size=4).map(lambda parts: HEADER + b"\n".join(parts))
)
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    for compressed in (False, True):
        try:
            log = strict.parse_strict(data, compressed=compressed)
        except (CorruptLog, NotALog, UnknownEventType):
            continue
        assert log.safe_length <= len(data)
