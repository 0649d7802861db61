"""The lines of a log: what a strict reader keeps, and what makes it refuse."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import HEADER, decoded, sessions

from playhead.eventstore import json_text, jsonl
from playhead.eventstore.ids import SessionId

S = SessionId("s1")


def _seqs(found: jsonl.Scan) -> list[int]:
    return [fact.seq for fact in found.facts]


@pytest.mark.parametrize("case", cases("jsonl_framing", "plain"))
def test_vector(case: dict[str, Any]) -> None:
    text = case["text"].encode() if "text" in case else base64.b64decode(case["base64"])
    found = jsonl.scan(text, S)
    if "storedSeqs" in case:
        assert _seqs(found) == case["storedSeqs"]
        assert found.safe_length == case["safeLength"]
        assert not found.committed
        assert len(text) == case["fileLength"]
    elif case["id"] in ("no-newline-header", "empty-file"):
        assert found.header_line is None
        assert found.torn_bytes == len(text)
    elif case["refused"] == "corrupt-or-io" and not case["id"].startswith("header-"):
        assert found.committed
    elif case["id"] == "bad-envelope":
        assert [finding.kind for finding in found.odd] == ["bad-envelope"]
    else:  # refused for what the header or an event says, which is no matter of lines
        assert found.header_line == text.split(b"\n")[0]
        assert not found.committed


@given(sessions(), st.booleans())
def test_a_whole_log_is_kept_whole(events: list[dict[str, Any]], packed: bool) -> None:
    log = decoded(events, packed=packed)
    found = jsonl.scan(log, S)
    assert (found.issue, found.committed, found.torn_bytes, found.odd) == (None, False, 0, [])
    assert found.safe_length == len(log)
    assert [json_text.dumps(fact.json) for fact in found.facts] == [
        json_text.dumps(event["data"]) for event in events
    ]
    assert [(fact.seq, fact.type, fact.time_ms) for fact in found.facts] == [
        (event["seq"], event["type"], event["time"]) for event in events
    ]


@given(sessions(), st.data())
def test_a_cut_log_keeps_its_whole_lines(events: list[dict[str, Any]], data: st.DataObject) -> None:
    log = decoded(events)
    cut = data.draw(st.integers(len(HEADER), len(log)))
    found = jsonl.scan(log[:cut], S)
    assert found.issue is None
    assert found.safe_length == log.rindex(b"\n", 0, cut) + 1
    assert found.safe_length + found.torn_bytes == cut
    assert _seqs(found) == list(range(log[:cut].count(b"\n") - 1))


_line_texts = st.one_of(
    st.binary(max_size=30).map(lambda text: text.replace(b"\n", b"")),
    st.sampled_from(
        [
            b"",
            b"\r",
            b"null",
            b"7",
            b'{"type":"turn/end"}',
            b'{"type":["turn/end"],"seq":0}',
            b'{"type":"turn/end","seq":1,"time":0,"data":{}}',
            b'{"type":"x/y","seq":0,"time":0,"data":{}}',
            b'{"type":"x/y","seq":0,"time":0.5,"data":{},"more":1}',
            b'{"type":"x/y","seq":1,"time":0,"data":"\xff"}',
            b'{"type":"text-chunks","seq0":0,"time0":0,"data":{}}',
            b"[" * 5_000,
            b'{"type":"x/y","seq":0,"time":0,"data":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
            b'{"type":"x/y","seq":0,"time":0,"data":' + b"1" * 5000 + b"}",
        ]
    ),
)


@given(st.lists(_line_texts, max_size=6), st.binary(max_size=10), st.integers(0, 100))
def test_any_bytes_are_scanned_without_an_error(texts: list[bytes], tail: bytes, framed_bytes: int) -> None:
    log = b"\n".join([*texts, tail])
    found = jsonl.scan(log, S, framed_bytes=min(framed_bytes, len(log)))
    assert 0 <= found.safe_length <= len(log) - found.torn_bytes
    assert _seqs(found) == list(range(len(found.facts)))
    if found.issue is None:
        assert found.safe_length + found.torn_bytes == len(log)
    else:
        assert found.issue.byte == found.safe_length


@given(sessions(), st.data())
def test_lines_are_the_log_cut_at_line_feeds_alone(events: list[dict[str, Any]], data: st.DataObject) -> None:
    log = decoded(events)
    log = log[: data.draw(st.integers(0, len(log)))]
    *whole, _ = log.split(b"\n")
    found = list(jsonl.lines(log))
    assert [line.text for line in found] == whole
    assert [line.number for line in found] == list(range(1, len(whole) + 1))
    assert all(log[line.byte : line.byte + len(line.text)] == line.text for line in found)


TURN = b'{"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}\n'
NOTE = b'{"type":"feedback/record","seq":1,"time":0,"data":{"text":"x"}}\n'
END = b'{"type":"turn/end","seq":2,"time":0,"data":{"turn":1}}\n'


@pytest.mark.parametrize(
    ("lines", "kept", "kind", "committed"),
    [
        (TURN + b"{oops\n" + NOTE, 1, "bad-json", False),
        (TURN + b"{oops\n" + END, 1, "bad-json", True),
        (TURN + END, 1, "seq-gap", True),
        (TURN + b'{"type":"turn/end"}\n', 1, "bad-envelope", True),
        (TURN + b'{"type":"x/y","seq":1}\n', 1, "bad-envelope", True),
        (TURN + b'{"type":"x/y","seq":5}\n', 1, "bad-envelope", False),
        (TURN + b'{"seq":1,"t' + END[:-1] + b"\n", 1, "two-records-on-one-line", False),
        (TURN + b'{"seq":1,"t' + END[:-1] + b"\n" + END, 1, "two-records-on-one-line", True),
        (TURN + b"null\n", 1, "bad-envelope", True),
        (TURN + b"\n", 1, "blank-line", False),
    ],
)
def test_what_follows_decides_whether_damage_is_a_tail(
    lines: bytes, kept: int, kind: str, committed: bool
) -> None:
    found = jsonl.scan(HEADER + lines, S)
    assert found.issue is not None
    assert (len(found.facts), found.issue.kind, found.committed) == (kept, kind, committed)
    assert (found.issue.line, found.issue.byte) == (kept + 2, found.safe_length)


@pytest.mark.parametrize(
    ("log", "framed_bytes", "byte"),
    [
        (HEADER + TURN + b"{oops\n", len(HEADER + TURN) + 6, len(HEADER + TURN)),
        (HEADER + TURN + END, len(HEADER + TURN + END), len(HEADER + TURN)),
        (HEADER + TURN + NOTE[:9], len(HEADER + TURN) + 9, len(HEADER + TURN)),
        (HEADER + TURN + NOTE, len(HEADER + TURN) + 9, len(HEADER + TURN)),
        (HEADER + TURN + NOTE[:20], len(HEADER + TURN) + 9, len(HEADER + TURN)),
    ],
)
def test_a_fault_in_whole_frames_is_committed(log: bytes, framed_bytes: int, byte: int) -> None:
    found = jsonl.scan(log, S, framed_bytes=framed_bytes)
    assert found.committed
    assert found.issue is not None
    assert (found.issue.line, found.issue.byte) == (3, byte)


def test_a_fault_behind_whole_frames_is_a_tail() -> None:
    found = jsonl.scan(HEADER + TURN + b"{oops\n" + NOTE[:9], S, framed_bytes=len(HEADER + TURN))
    assert not found.committed
    assert (found.safe_length, found.torn_bytes) == (len(HEADER + TURN), 9)


def test_damage_in_the_middle_is_named_with_line_and_byte_and_what_lies_behind() -> None:
    folder = shared_path("cases/02-two-records-on-one-line")
    expected = json.loads((folder / "expected.json").read_bytes())
    found = jsonl.scan((folder / "log.jsonl").read_bytes(), S)
    assert found.committed
    assert found.issue is not None
    assert (found.issue.line, found.issue.byte) == (
        expected["bad_physical_line"],
        expected["bad_byte_offset"],
    )
    assert found.whole_behind == 13
    assert _seqs(found) == list(range(expected["prefix_seqs"][1] + 1))


def test_a_torn_tail_is_told_with_its_size() -> None:
    folder = shared_path("cases/01-torn-tail-then-append")
    expected = json.loads((folder / "expected.json").read_bytes())
    found = jsonl.scan((folder / "log.jsonl").read_bytes(), S)
    assert found.issue is None
    assert len(found.facts) == expected["events_read"]
    assert (found.safe_length, found.torn_bytes) == (expected["committed_bytes"], expected["torn_bytes"])
