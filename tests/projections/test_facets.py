"""Small projections: what recorded logs say, and the cases that only damaged or cut logs have."""

from __future__ import annotations

from typing import Any

import pytest
from reference import cases, shared_path
from session_logs import recorded
from twins import Log, Twins, read_log, twins

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.projections.approvals import approvals
from playhead.projections.compactions import compactions
from playhead.projections.event_rows import events as event_rows
from playhead.projections.folding import advance, begin, fold
from playhead.projections.jobs import jobs
from playhead.projections.permissions import permissions
from playhead.projections.projection import Projection, Row
from playhead.projections.session_list import session_list
from playhead.projections.todos import todos

Event = tuple[str, Any] | tuple[str, Any, Any]
USER = {"kind": "user"}


def log(*events: Event, header: SessionHeader | None = None) -> Log:
    """A log of events given as (type, data) or (type, data, surface operation); times are 10 ms apart."""
    objects = []
    for seq, (type, data, *op) in enumerate(events):
        told = {"type": type, "seq": seq, "time": 1000 + 10 * seq, "data": data}
        objects.append(told | ({"surfaceOp": op[0]} if op else {}))
    return Log.of(recorded(objects), header)


def view(projection: Projection[Any], of: Log) -> Any:
    return projection.view(fold(of, projection).state)


def rows(projection: Projection[Any], of: Log) -> list[dict[str, Any]]:
    names = [column.name for column in projection.tables[0].columns]
    emitted: list[Row] = []
    state = advance(projection, begin(projection, of.header), of.events(deltas=False), emitted=emitted).state
    made = [*emitted, *projection.rows(state)]
    return [{"seq": row.seq, **dict(zip(names, row.values, strict=True))} for row in made]


def prompt(text: str, id: str = "u", source: Any = USER) -> Event:
    message = {"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": source}
    return ("user/message", message, "append")


def replacement(start: int, end: int) -> dict[str, Any]:
    return {"op": "replace", "start": start, "end": end}


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_a_recorded_log_has_the_title_and_the_todos_of_the_original(case: dict[str, Any]) -> None:
    of = read_log(shared_path(case["corpus"]))
    assert view(session_list, of)["title"] == case["title"]
    assert view(todos, of) == case["todos"]


_NOT_COMPARED = {"version", "nextSeq", "firstMs", "lastMs", "inheritedTo"}


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_is_listed_like_its_source(pair: Twins) -> None:
    def listed(of: Log, repaired: bool) -> dict[str, Any]:
        found = session_list.view(fold(of, session_list, repaired=repaired).state)
        return {name: value for name, value in found.items() if name not in _NOT_COMPARED}

    assert listed(pair.migrated, False) == listed(pair.source, True)


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_has_the_facets_of_its_source(pair: Twins) -> None:
    for facet in (todos, approvals, permissions):
        source = facet.view(fold(pair.source, facet, repaired=True).state)
        assert _without_seqs(view(facet, pair.migrated)) == _without_seqs(source)


def _without_seqs(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_seqs(item) for key, item in value.items() if "eq" not in key}
        case list():
            return [_without_seqs(item) for item in value]
    return value


# The list of sessions


def test_the_state_of_a_session_is_that_of_its_last_turn() -> None:
    def state(*events: Event) -> str:
        return str(view(session_list, log(*events))["state"])

    start, over = ("turn/start", {"turn": 1}), ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    repaired = ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}})
    assert state() == "empty"
    assert state(("session/end-seed", {})) == "empty"
    assert state(start) == "open"
    assert state(start, over) == "idle"
    assert state(start, repaired) == "crashed"
    assert state(start, repaired, start) == "open"
    assert state(start, repaired, start, over) == "idle"


def test_a_fork_did_not_crash_where_its_parent_was_cut_off() -> None:
    forked = SessionHeader(SessionId("s"), 1, parent=SessionId("p"), seed_length=2)
    events = [("turn/start", {"turn": 1}), ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}})]
    assert view(session_list, log(*events, header=forked))["state"] == "idle"
    again = [("turn/start", {"turn": 2}), ("turn/end", {"turn": 2, "reason": {"kind": "interrupted"}})]
    assert view(session_list, log(*events, *again, header=forked))["state"] == "crashed"


def test_the_first_prompt_stands_in_until_there_is_a_title() -> None:
    untitled = (
        prompt("\x1b[1m  "),
        prompt("goal", source={"kind": "goal"}),
        prompt("please do this\nand that now"),
    )
    found = view(session_list, log(*untitled))
    assert (found["title"], found["shownTitle"]) == (None, "please do this and that")
    title = ("session/title", {"title": "Named", "messageSeqs": [], "source": USER})
    found = view(session_list, log(*untitled, title))
    assert (found["title"], found["shownTitle"], found["titledBy"]) == ("Named", "Named", "user")


def test_only_what_a_session_did_itself_is_counted() -> None:
    parents = (("turn/start", {"turn": 1}), prompt("before"), ("tool/call", {"callId": "c", "name": "t"}))
    own = (("turn/start", {"turn": 2}), prompt("after"))
    forked = SessionHeader(SessionId("s"), 1, parent=SessionId("p"), seed_length=3)
    marked = SessionHeader(SessionId("s"), 1, version=4, parent=SessionId("p"), is_seeded=True)
    for of in (
        log(*parents, ("session/end-seed", {}), *own, header=forked),
        log(*parents, ("session/end-seed", {"inherited": True}), *own, header=marked),
    ):
        found = view(session_list, of)
        assert (found["turns"], found["prompts"], found["toolCalls"]) == (1, 1, 0)
        assert (found["inheritedTo"], found["nextSeq"], found["lastPromptMs"]) == (3, 6, 1050)


def test_copies_of_a_replacement_are_not_counted() -> None:
    failed = {"content": [{"type": "tool-result", "toolCallId": "c", "content": [], "isError": True}]}
    of = log(
        prompt("one"),
        ("tool/result", {"message": failed}, "append"),
        ("tool/result", {"message": failed}, replacement(1, 1)),
        ("user/message", prompt("one")[1], replacement(0, 2)),
    )
    found = view(session_list, of)
    assert (found["prompts"], found["toolErrors"]) == (1, 1)


def test_a_session_is_one_row_however_empty() -> None:
    (row,) = rows(session_list, log())
    assert (row["seq"], row["state"], row["events"], row["title"]) == (0, "empty", 0, None)


# To-do lists


def test_a_list_of_todos_lasts_until_the_next_turn() -> None:
    written = ("todo/write", {"todos": [{"content": "a", "status": "pending"}, {"content": 3}, 4]})
    assert view(todos, log()) is None
    assert view(todos, log(written)) == [{"content": "a", "status": "pending"}]
    assert view(todos, log(written, ("todo/write", {"todos": []}))) == []
    assert view(todos, log(written, ("turn/start", {"turn": 2}))) is None
    assert view(todos, log(written, ("todo/write", {"todos": 7}))) == [{"content": "a", "status": "pending"}]


# Approvals


def test_an_approval_is_asked_and_decided_once() -> None:
    asked = ("approval/asked", {"id": "a", "toolName": "shell", "callId": "c", "reason": "why"})
    decided = ("approval/decided", {"id": "a", "outcome": "rejected"})
    (row,) = rows(approvals, log(asked, ("turn/end", {}), decided))
    assert row == {
        "seq": 0,
        "inherited": False,
        "approval_id": "a",
        "tool": "shell",
        "call_id": "c",
        "reason": "why",
        "asked_ms": 1000,
        "decided_seq": 2,
        "decided_ms": 1020,
        "waited_ms": 20,
        "outcome": "rejected",
    }
    (open_row,) = rows(approvals, log(asked))
    assert (open_row["outcome"], open_row["waited_ms"]) == (None, None)


def test_approvals_that_break_a_rule_are_breaches() -> None:
    asked = ("approval/asked", {"id": "a", "toolName": "shell"})
    found = view(approvals, log(asked, asked, ("approval/decided", {"id": "b"}), ("approval/asked", {})))
    assert [(breach["kind"], breach["seq"]) for breach in found["breaches"]] == [
        ("approval-asked-twice", 1),
        ("approval-not-asked", 2),
        ("approval-malformed", 3),
    ]
    assert [asked["seq"] for asked in found["approvals"]] == [0, 1]


# Jobs


def test_a_job_runs_until_it_settles() -> None:
    told = {
        "jobId": "j",
        "kind": "shell",
        "label": "make",
        "startedAt": 5,
        "toolCall": {"callId": "c", "rootCallId": "r"},
    }
    settled = ("job/settled", told | {"finishedAt": 25, "status": "killed", "cause": "timeout"})
    (running,) = rows(jobs, log(("job/registered", told)))
    assert (running["status"], running["duration_ms"], running["root_call_id"]) == (None, None, "r")
    (over,) = rows(jobs, log(("job/registered", told), settled))
    assert (over["seq"], over["status"], over["cause"], over["duration_ms"]) == (0, "killed", "timeout", 20)
    (alone,) = rows(jobs, log(settled))
    assert (alone["seq"], alone["label"], alone["settled_seq"]) == (0, "make", 0)


# Permissions


def test_the_last_setting_counts_and_every_change_is_kept() -> None:
    of = log(
        ("permission/preset", {"preset": "careful"}),
        ("sandbox/mode", {"mode": "read-only", "source": "delegation"}),
        ("plan/mode", {"active": True}),
        ("sandbox/mode", {"mode": "workspace-write"}),
        ("plan/mode", {"active": "yes"}),
    )
    assert view(permissions, of) == {
        "preset": "careful",
        "sandbox": "workspace-write",
        "approval": None,
        "plan": True,
    }
    found = rows(permissions, of)
    assert [(row["setting"], row["value"], row["is_current"]) for row in found] == [
        ("preset", "careful", True),
        ("sandbox", "read-only", False),
        ("plan", "on", True),
        ("sandbox", "workspace-write", True),
    ]


# Compactions


def test_a_summary_and_a_cut_name_what_took_the_place_of_the_rest() -> None:
    id = {"compactionId": "k"}
    shadowed = {"shadowedSeqs": [0, 1], "shadowedTokenCount": 9}
    usage = {"inputTokens": 7, "outputTokens": 2}
    found = rows(
        compactions,
        log(
            prompt("one"),
            prompt("two"),
            ("compaction/start", {**id, "turn": None}),
            ("compaction/summary", {**id, **shadowed, "provider": "p", "model": "m", "usage": usage}),
            ("user/message", prompt("sum")[1], replacement(0, 1)),
            ("compaction/end", {**id, "turn": None}),
            ("compaction/prune", {"shadowedSeqs": [4], "shadowedTokenCount": 3}),
            ("tool/result", {}, replacement(4, 4)),
            ("user/message", prompt("other")[1], replacement(7, 7)),
        ),
    )
    summary, cut = found
    assert (summary["kind"], summary["outcome"], summary["replaced_by_seq"]) == ("summary", "done", 4)
    assert (summary["shadowed_events"], summary["input_tokens"], summary["duration_ms"]) == (2, 7, 30)
    assert (cut["kind"], cut["outcome"], cut["replaced_by_seq"], cut["shadowed_tokens"]) == (
        "prune",
        "done",
        7,
        3,
    )


@pytest.mark.parametrize(
    ("behind", "outcome"),
    [
        ([], "open"),
        ([("compaction/end", {"error": {"code": "busy"}})], "failed"),
        ([("session/end-seed", {})], "stale"),
        ([("compaction/start", {"compactionId": "l"})], "stale"),
    ],
)
def test_a_summary_that_was_begun_ends_in_one_way(behind: list[Event], outcome: str) -> None:
    found = rows(compactions, log(("compaction/start", {"compactionId": "k"}), *behind))
    assert found[0]["outcome"] == outcome


# Events


def test_every_event_but_deltas_is_a_row() -> None:
    chunk = {"turn": 1, "step": 2, "chunk": {"type": "text-delta", "index": 0, "text": "x"}}
    message = {"source": {"kind": "tool", "callId": "c"}}
    found = rows(
        event_rows,
        log(
            ("step/start", {"turn": 1, "step": 2}),
            ("assistant/chunk", chunk),
            ("tool/call", {"turn": 1, "step": 2, "callId": "c", "name": "t"}),
            ("tool/result", {"turn": 1, "step": 2, "message": message}, "append"),
            ("user/message", {}, replacement(3, 3)),
            ("nobody/knows", [1]),
        ),
    )
    assert [row["seq"] for row in found] == [0, 2, 3, 4, 5]
    assert [row["call_id"] for row in found] == [None, "c", "c", None, None]
    assert (found[0]["turn"], found[0]["step"], found[0]["data"]) == (1, 2, {"turn": 1, "step": 2})
    assert [row["surface"] for row in found] == [None, None, "append", "replace", None]
    assert (found[3]["replaces_from_seq"], found[3]["replaces_to_seq"]) == (3, 3)
    assert (found[4]["type"], found[4]["data"]) == ("nobody/knows", [1])
