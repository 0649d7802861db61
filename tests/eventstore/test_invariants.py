"""Invariants: each owner's rules alone, and that they hold for valid logs and survive any data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import HEADER, decoded, recorded, sessions

from playhead.eventstore import invariants, jsonl, repair, zstd_frames
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded, Replace

_EVERY_TYPE = sorted(
    {"turn/start", "assistant/chunk", "assistant/message", "tool/call", "tool/result"}.union(
        *(make(0).types or () for make in invariants.OWNERS.values())
    )
)


@pytest.mark.parametrize("case", cases("invariants", "core", "plugins"))
def test_vector(case: dict[str, Any]) -> None:
    seed_length = case.get("header", {}).get("seedLength", 0)
    facts = recorded(case["events"])
    found = list(invariants.check(facts, [case["owner"]], seed_length=seed_length))
    if case["valid"]:
        assert found == []
        return
    refused = facts[case["index"]]
    assert found[0][:3] == (case["owner"], case["rule"], refused.seq)
    assert list(invariants.check(facts[: case["index"]], [case["owner"]], seed_length=seed_length)) == []


@pytest.mark.parametrize("case", cases("goal_fold", "folds"))
def test_vector_of_a_goal_log(case: dict[str, Any]) -> None:
    facts = recorded(
        [
            {"seq": seq, "time": 0, **event}
            | ({"surfaceOp": "append"} if event["type"] == "user/message" else {})
            for seq, event in enumerate(case["events"])
        ]
    )
    found = [violation.seq for violation in invariants.check(facts, ["goal"])]
    assert found[:1] == ([case["expect"]["error_at"]] if "error_at" in case["expect"] else [])


@given(sessions(), st.data())
def test_a_valid_log_breaks_no_rule_and_neither_does_a_repaired_cut_of_it(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    log = decoded(events)
    assert list(invariants.check(recorded(events))) == []
    cut = log[: data.draw(st.integers(len(HEADER), len(log)))]
    facts = jsonl.scan(repair.repaired(cut), SessionId("s1")).facts
    assert list(invariants.check(facts)) == []


_keys = [
    *("turn", "step", "message", "content", "callId", "source", "id", "kind", "todos", "schedule", "goal"),
    *("operation", "retry", "retryId", "seq", "runId", "shadowedSeqs", "messageSeqs", "everySeconds"),
    *("scheduledAt", "acceptedAt", "rootCallId", "parentCallId", "subCallId", "compactionId", "failure"),
]
_leaves = st.sampled_from(
    [
        *(None, True, False, 0, 1, 2, -1, 0.5, 1e400, 10**30, "", "x", "goal", "every", "create", "dispatch"),
        *("2026-01-01T00:00:00.000Z", "0000-00-00T00:00:00Z", "\ud800"),
    ]
)
_json = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_keys), inner, max_size=6),
    max_leaves=12,
)


@given(st.lists(st.tuples(st.sampled_from(_EVERY_TYPE), _json, st.booleans()), max_size=12), st.booleans())
def test_any_data_gives_violations_and_no_error(
    contents: list[tuple[str, Any, bool]], backwards: bool
) -> None:
    facts = [
        Recorded(
            SessionId("s1"),
            Seq(9 - at if backwards else at),
            0,
            type,
            json.dumps(data).replace("Infinity", "1e400").encode(),
            Replace(Seq(0), Seq(0)) if replaces else "append",
        )
        for at, (type, data, replaces) in enumerate(contents)
    ]
    for violation in invariants.check(facts):
        assert violation.owner in invariants.OWNERS
        assert violation.message


def test_a_fault_is_reported_once_and_not_again_with_what_follows() -> None:
    facts = recorded(
        [
            {"type": type, "seq": seq, "time": 0, "data": {"turn": turn}}
            for seq, (type, turn) in enumerate(
                [("turn/start", 4), ("turn/end", 4), ("turn/start", 5), ("turn/start", 6), ("turn/end", 6)]
            )
        ]
    )
    assert [(found.rule, found.seq) for found in invariants.check(facts)] == [
        ("turn-number", 0),
        ("turn-already-open", 3),
    ]


def test_a_chunk_is_checked_whatever_its_spelling() -> None:
    def chunk(seq: int, data: bytes) -> Recorded:
        return Recorded(SessionId("s1"), Seq(seq), 0, "assistant/chunk", data)

    facts = recorded(
        [
            {"type": "turn/start", "seq": 0, "time": 0, "data": {"turn": 1}},
            {"type": "step/start", "seq": 1, "time": 0, "data": {"turn": 1, "step": 1}},
        ]
    )
    facts += [
        chunk(2, b'{"turn":1,"step":1,"chunk":{}}'),
        chunk(3, b'{"turn":1,"step":1,"chunk":{"type":"finish"}}'),
        chunk(4, b'{"step":1, "turn":1.0,"chunk":{}}'),
        chunk(5, b'{"turn":1,"step":12,"chunk":{}}'),
        chunk(6, b'{"step":2, "turn":1,"chunk":{}}'),
        chunk(7, b'{"turn":true,"step":1,"chunk":{}}'),
    ]
    facts += recorded([{"type": "step/end", "seq": 8, "time": 0, "data": {"turn": 1, "step": 1}}])
    facts += [chunk(9, b'{"turn":1,"step":1,"chunk":{}}')]
    assert [found.seq for found in invariants.check(facts, ["core"])] == [5, 6, 7, 9]


def test_a_crash_inside_a_compaction_is_no_violation_once_the_session_was_resumed() -> None:
    def events(reason: str, *behind: dict[str, Any]) -> list[Recorded]:
        start = [
            {"type": "turn/start", "data": {"turn": 1}},
            {"type": "compaction/start", "data": {"compactionId": "k", "turn": 1}},
            {"type": "turn/end", "data": {"turn": 1, "reason": {"kind": reason}}},
        ]
        return recorded([{"seq": seq, "time": 0, **event} for seq, event in enumerate([*start, *behind])])

    resumed = {"type": "session/end-seed", "data": {}}
    turn = {"type": "turn/start", "data": {"turn": 2}}
    assert list(invariants.check(events("interrupted", resumed, turn))) == []
    assert [found.seq for found in invariants.check(events("interrupted", turn))] == [3]
    assert [found.seq for found in invariants.check(events("completed", resumed, turn))] == [2]


def test_recorded_logs_break_no_rule() -> None:
    root = shared_path("corpus/dsh")
    checked = 0
    for file in json.loads((root / "MANIFEST.json").read_bytes())["files"]:
        if file["kind"] != "session-log" or file["scenario"].startswith("edited-"):
            continue
        data = (root / file["path"]).read_bytes()
        if file["path"].endswith(".zstd"):
            data = b"".join(
                piece for span in zstd_frames.FrameWalk(data) for piece in zstd_frames.decode(data, span)
            )
        header = SessionHeader.parse(data.split(b"\n")[0])
        facts = jsonl.scan(data, header.id).facts
        found = list(invariants.check(facts, seed_length=header.seed_length or 0))
        assert found == [], file["path"]
        checked += 1
    assert checked > 100
