from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import recorded, sessions
from twins import Log, Twins, read_log, recorded_logs, twins

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.projections.folding import advance, begin, fold
from playhead.projections.transcript import apply, transcript
from playhead.projections.transcript_items import (
    Answer,
    AnyItem,
    Between,
    Compaction,
    FailedAttempt,
    Mark,
    Message,
    Step,
    ToolCall,
    Turn,
    items_of,
)
from playhead.projections.transcript_state import Transcript


def items(state: Transcript) -> list[AnyItem]:
    return [item for section in state.sections() for _, item in items_of(section)]


def turns(state: Transcript) -> list[Turn]:
    return [section for section in state.sections() if isinstance(section, Turn)]


def folded(log: Log, **options: Any) -> Transcript:
    return fold(log, transcript, **options).state


class Script:
    """A log that a test writes event by event."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, type: str, data: dict[str, Any], *, at: int | None = None, **envelope: Any) -> int:
        seq = len(self.events)
        time = 1000 + 10 * seq if at is None else at
        self.events.append({"type": type, "seq": seq, "time": time, "data": data, **envelope})
        return seq

    def start(self, turn: int = 1, step: int = 1) -> dict[str, int]:
        self.add("turn/start", {"turn": turn})
        return self.step(turn, step)

    def step(self, turn: int = 1, step: int = 1) -> dict[str, int]:
        place = {"turn": turn, "step": step}
        self.add("step/start", place)
        return place

    def say(self, id: str, text: str = "hi", source: dict[str, Any] | None = None) -> int:
        message = {
            "id": id,
            "role": "user",
            "content": [{"type": "text", "text": text}],
            "source": source or {"kind": "user"},
        }
        return self.add("user/message", message, surfaceOp="append")

    def chunk(self, place: dict[str, int], chunk: dict[str, Any]) -> int:
        return self.add("assistant/chunk", {**place, "chunk": chunk})

    def answer(self, place: dict[str, int], *blocks: dict[str, Any], **data: Any) -> int:
        source = {"kind": "model", "provider": "p", "model": "m"}
        message = {"id": "a", "role": "assistant", "content": list(blocks), "source": source}
        return self.add("assistant/message", {**place, "message": message, **data}, surfaceOp="append")

    def log(self, header: SessionHeader | None = None) -> Log:
        return Log.of(recorded(self.events), header)

    def fold(self, **options: Any) -> Transcript:
        return folded(self.log(), **options)


# Recorded logs


@pytest.mark.parametrize("path", recorded_logs())
def test_recorded_logs_fold_without_a_breach_and_make_rows(path: Any) -> None:
    state = folded(read_log(path))
    assert "edited-" in str(path) or state.breaches == ()
    assert transcript.load(transcript.dump(state)) == state
    columns = {table.name: len(table.columns) for table in transcript.tables}
    assert all(len(row.values) == columns[row.table] for row in transcript.rows(state))


_FREE = {
    "seq",
    "endedSeq",
    "startedSeq",
    "resultSeq",
    "messageSeq",
    "fromSeq",
    "toSeq",
    "inheritedTo",
    "sourceKind",
    "firstTokenMs",
    "chars",
}
"""What a migration changes: numbers of events, source kinds, and what only an embedded stream tells."""


def without_migration(value: Any) -> Any:
    """A view of the transcript without what a migration is free to change."""
    match value:
        case dict():
            kept = {key: without_migration(item) for key, item in value.items() if key not in _FREE}
            if kept.get("errorCode") in ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"):
                del kept["result"]  # the wording is free
                kept["resultId"] = re.sub(r"\d+$", "", kept["resultId"])
            return kept
        case list():
            return [
                without_migration(item)
                for item in value
                if not isinstance(item, dict)
                or item.get("provenance") not in ("system-prompt", "tool-registry")
            ]
    return value


@pytest.mark.parametrize("pair", twins())
def test_a_log_and_its_migrated_twin_give_equal_transcripts(pair: Twins) -> None:
    before = transcript.view(folded(pair.source, repaired=True))
    after = transcript.view(folded(pair.migrated))
    assert without_migration(before) == without_migration(after)
    assert before["sections"]


def accepted() -> list[Any]:
    """The cases of the surface whose events are all accepted."""
    return [
        case
        for case in cases("surface", "cases")
        if not case.values[0] or "error" not in case.values[0]["expect"]
    ]


@pytest.mark.parametrize("case", accepted())
def test_every_appended_message_stands_in_it_once_and_in_order(case: dict[str, Any]) -> None:
    shown = [
        item.result_seq if isinstance(item, ToolCall) else item.seq
        for item in items(folded(Log.of(recorded(case["events"]))))
        if isinstance(item, Message | Answer) or (isinstance(item, ToolCall) and item.result_seq is not None)
    ]
    assert shown == case["expect"]["transcriptSeqs"]


# Reported faults


def test_a_clock_that_goes_back_changes_no_order_and_makes_no_negative_duration() -> None:
    state = folded(read_log(shared_path("cases/10-the-clock-goes-back/log.jsonl")))
    prompts = [
        item.text for item in items(state) if isinstance(item, Message) and item.provenance == "prompt"
    ]
    answers = [item.parts[0].text for item in items(state) if isinstance(item, Answer)]
    assert (prompts, answers[0]) == (["first", "second"], "ABC")
    first, second = turns(state)
    assert first.ended_ms is not None
    assert first.ended_ms < first.time_ms
    assert first.duration_ms is None
    assert second.duration_ms is not None
    assert second.duration_ms >= 0


def test_after_a_crash_every_call_has_one_result_in_the_repaired_view() -> None:
    log = read_log(shared_path("cases/16-crash-with-parallel-calls/log.jsonl"))
    calls = [item for item in items(folded(log)) if isinstance(item, ToolCall)]
    assert [(call.call_id, call.result is None) for call in calls] == [
        ("c-1", True),
        ("c-2", False),
        ("c-3", True),
    ]
    state = folded(log, repaired=True)
    calls = [item for item in items(state) if isinstance(item, ToolCall)]
    assert [(call.call_id, call.error_code, call.result_seq) for call in calls] == [
        ("c-1", "TOOL_OUTCOME_UNKNOWN", 9),
        ("c-2", None, 8),
        ("c-3", "TOOL_NOT_STARTED", 10),
    ]
    assert calls[1].result == "two is done"
    (turn,) = turns(state)
    assert turn.ending is not None
    assert turn.ending.reason == "interrupted"
    assert turns(folded(log))[0].ending is None


def test_compactions_are_marks_and_the_person_still_sees_every_message() -> None:
    state = folded(read_log(shared_path("cases/20-two-compactions-two-views/log.jsonl")))
    found = items(state)
    assert [item.seq for item in found if isinstance(item, Message | Answer)] == [4, 9, 16, 21, 32, 37]
    compactions = [item for item in found if isinstance(item, Compaction)]
    assert [(item.id, item.outcome) for item in compactions] == [
        ("k-1", "done"),
        ("k-2", "done"),
        ("k-3", "failed"),
    ]
    assert [item.message_seq for item in compactions] == [26, 42, None]
    assert sum(isinstance(item, Message) and item.provenance == "prompt" for item in found) == 3


# What decides


def test_steering_is_a_prompt_claimed_from_the_next_step_list() -> None:
    script = Script()
    place = script.start()
    prompt = {"id": "s", "role": "user", "content": [], "source": {"kind": "user"}}
    notice = {"id": "n", "role": "user", "content": [], "source": {"kind": "tool-jobs"}}
    script.add("agent/inbox/spliced", {"target": "next-step", "start": 0, "inserted": [prompt, notice]})
    script.add("step/end", place)
    script.add("agent/inbox/spliced", {"target": "next-step", "start": 0, "removedCount": 2, "inserted": []})
    script.step(step=2)
    script.say("s")
    script.say("n", source={"kind": "tool-jobs"})
    script.say("other")
    messages = [item for item in items(script.fold()) if isinstance(item, Message)]
    assert [(item.id, item.steering, item.provenance) for item in messages] == [
        ("s", True, "prompt"),
        ("n", False, "job-notice"),
        ("other", False, "prompt"),
    ]


def test_a_cancelled_entry_of_the_inbox_is_no_steering() -> None:
    script = Script()
    script.start()
    message = {"id": "s", "content": [], "source": {"kind": "user"}}
    splice = {"target": "next-step", "start": 0}
    script.add("agent/inbox/spliced", {**splice, "inserted": [message]})
    script.add("agent/inbox/spliced", {**splice, "removedCount": 1, "inserted": [], "outcome": "canceled"})
    script.say("s")
    assert [item.steering for item in items(script.fold()) if isinstance(item, Message)] == [False]


FAILURE = {"message": "broken", "code": "TRANSPORT", "status": 502}


def retry(place: dict[str, int], number: int = 1) -> dict[str, Any]:
    return {**place, "retryId": "r", "retry": number, "maxRetries": 5, "delayMs": 500.5, "failure": FAILURE}


def test_a_failed_attempt_has_its_failure_its_retry_and_the_range_of_its_chunks() -> None:
    script = Script()
    place = script.start()
    script.say("u")
    first = script.chunk(place, {"type": "block-start", "index": 0, "blockType": "text"})
    script.chunk(place, {"type": "text-delta", "index": 0, "text": "par"})
    last = script.chunk(place, {"type": "finish", "reason": {"kind": "error", "failure": FAILURE}})
    script.add("llm/retry", retry(place))
    script.add("llm/retry-started", {**place, "retryId": "r", "retry": 1}, at=5000)
    again = script.chunk(place, {"type": "block-start", "index": 0, "blockType": "text"})
    script.chunk(place, {"type": "finish", "reason": {"kind": "stop"}})
    script.answer(place, {"type": "text", "text": "whole"})
    (attempt,) = (item for item in items(script.fold()) if isinstance(item, FailedAttempt))
    assert attempt.failure is not None
    assert attempt.retry is not None
    assert attempt.stream is not None
    assert (attempt.finish, attempt.failure.code, attempt.failure.status) == ("error", "TRANSPORT", 502)
    assert (attempt.retry.number, attempt.retry.delay_ms, attempt.retry.started_ms) == (1, 500.5, 5000)
    assert (attempt.stream.from_seq, attempt.stream.to_seq) == (first, last + 1)
    (answer,) = (item for item in items(script.fold()) if isinstance(item, Answer))
    assert answer.stream is not None
    assert answer.stream.from_seq == again
    assert answer.finish == "stop"


def test_an_embedded_stream_tells_its_first_token_and_how_much_came() -> None:
    script = Script()
    place = script.start()
    stream = [
        {"type": "chunk", "time": 50, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 60, "index": 0, "dt": [5], "texts": ["", "part"]},
        {
            "type": "chunk",
            "time": 70,
            "chunk": {"type": "finish", "reason": {"kind": "aborted", "failure": FAILURE}},
        },
    ]
    seq = script.add("assistant/attempt", {**place, "stream": stream})
    (attempt,) = items(script.fold())
    assert isinstance(attempt, FailedAttempt)
    assert attempt.stream is not None
    assert (attempt.stream.from_seq, attempt.stream.chars, attempt.stream.first_token_ms) == (seq, 4, 65)
    assert (attempt.finish, attempt.stream.started_ms, attempt.stream.ended_ms) == ("aborted", 50, 70)


def test_a_stream_without_an_answer_is_shown_as_one_that_just_stopped() -> None:
    script = Script()
    place = script.start()
    script.chunk(place, {"type": "block-start", "index": 0, "blockType": "text"})
    (attempt,) = items(script.fold())
    assert isinstance(attempt, FailedAttempt)
    assert attempt.finish is None
    script.add("step/end", place)
    assert [type(item) for item in items(script.fold())] == [FailedAttempt]


def call_block(id: str) -> dict[str, Any]:
    return {"type": "tool-call", "id": id, "name": "bash", "arguments": "{}"}


def result(place: dict[str, int], id: str, text: str = "out", **data: Any) -> dict[str, Any]:
    block = {"type": "tool-result", "toolCallId": id, "content": [{"type": "text", "text": text}]}
    source = {"kind": "tool", "callId": id}
    return {
        **place,
        "message": {"id": f"r-{id}", "role": "user", "content": [block], "source": source},
        **data,
    }


def test_results_find_their_calls_in_any_order_and_tell_how_long_they_took() -> None:
    script = Script()
    place = script.start()
    script.answer(place, call_block("x"), call_block("y"))
    script.add("tool/call", {**place, "callId": "y", "name": "bash", "arguments": "{}"}, at=2000)
    script.add("tool/call", {**place, "callId": "x", "name": "bash", "arguments": "{}"}, at=2001)
    script.add("tool/result", result(place, "x"), at=2500, surfaceOp="append")
    error = {"name": "AbortError", "code": "ABORTED"}
    script.add("tool/result", result(place, "y", error=error), at=2400, surfaceOp="append")
    x, y = (item for item in items(script.fold()) if isinstance(item, ToolCall))
    assert (x.call_id, x.number, x.duration_ms, x.is_error, x.result) == ("x", 1, 499, False, "out")
    assert (y.call_id, y.number, y.duration_ms, y.is_error, y.error_code) == ("y", 2, None, True, "ABORTED")


def test_a_shortened_result_leaves_the_transcript_as_it_was() -> None:
    script = Script()
    place = script.start()
    script.answer(place, call_block("x"))
    seq = script.add("tool/result", result(place, "x", "long"), surfaceOp="append")
    script.add("compaction/prune", {"shadowedSeqs": [seq], "shadowedTokenCount": 9})
    op = {"op": "replace", "start": seq, "end": seq}
    script.add("tool/result", result(place, "x", "s"), surfaceOp=op, sourceEventSeqs=[seq])
    call, prune = items(script.fold())[1:]
    assert isinstance(call, ToolCall)
    assert call.result == "long"
    assert isinstance(prune, Compaction)
    assert (prune.kind, prune.shadowed, prune.tokens) == ("prune", 1, 9)


def test_the_calls_of_a_program_stand_below_the_call_that_runs_it() -> None:
    script = Script()
    place = script.start()
    script.answer(place, call_block("x"))
    ids = {"rootCallId": "x", "parentCallId": "x", "subCallId": "x:code:1"}
    script.add("tool/code-dispatch-start", {**ids, "name": "read", "arguments": {"path": "a"}})
    content = [{"type": "text", "text": "inner"}]
    script.add("tool/code-dispatch", {**ids, "name": "read", "isError": True, "content": content})
    _, outer, inner = items(script.fold())
    assert isinstance(outer, ToolCall)
    assert outer.result_seq is None
    assert isinstance(inner, ToolCall)
    assert (inner.parent, inner.arguments, inner.result, inner.is_error) == (
        "x",
        '{"path":"a"}',
        "inner",
        True,
    )


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ({"kind": "completed"}, ("completed", None, None)),
        ({"kind": "aborted", "reason": {"kind": "user"}}, ("aborted", "user", None)),
        ({"kind": "aborted", "reason": {"kind": "hook", "reason": "no"}}, ("aborted", "hook: no", None)),
        ({"kind": "error", "error": FAILURE}, ("error", None, "TRANSPORT")),
        ({"kind": "from-the-future"}, ("from-the-future", None, None)),
        ({}, ("unknown", None, None)),
    ],
)
def test_a_turn_tells_how_it_ended(reason: dict[str, Any], shown: tuple[str | None, ...]) -> None:
    script = Script()
    script.add("turn/start", {"turn": 1})
    script.add("turn/end", {"turn": 1, "reason": reason})
    (turn,) = turns(script.fold())
    assert turn.ending is not None
    assert turn.steps == 0
    failure = turn.ending.failure
    assert (turn.ending.reason, turn.ending.cause, failure and failure.code) == shown
    assert turn.duration_ms == 10


def test_what_a_crash_left_open_is_shown_as_open_and_is_a_breach_when_more_follows() -> None:
    script = Script()
    script.start()
    script.say("u")
    assert [turn.ending for turn in turns(script.fold())] == [None]
    assert script.fold().breaches == ()
    script.start(turn=2)
    state = script.fold()
    assert [turn.number for turn in turns(state)] == [1, 2]
    assert [breach.kind for breach in state.breaches] == ["turn-not-closed"]


def test_an_inherited_prefix_ends_at_the_header_length_or_at_the_last_marker() -> None:
    script = Script()
    script.say("u")
    script.add("session/end-seed", {})
    early = SessionHeader(SessionId("s1"), 1, seed_length=1)
    state = folded(script.log(early))
    assert (state.inherited.to_seq, [item.kind for item in items(state) if isinstance(item, Mark)]) == (
        1,
        ["inherited"],
    )
    script.events[1]["data"] = {"inherited": True}
    late = SessionHeader(SessionId("s1"), 1, version=4, is_seeded=True)
    assert folded(script.log(late)).inherited.to_seq == 1
    script.events[1]["data"] = {}
    resumed = folded(script.log())
    assert [item.kind for item in items(resumed) if isinstance(item, Mark)] == ["resumed"]


def test_a_fork_inherits_no_steering() -> None:
    script = Script()
    message = {"id": "s", "content": [], "source": {"kind": "user"}}
    splice = {"target": "next-step", "start": 0}
    script.add("agent/inbox/spliced", {**splice, "inserted": [message]})
    script.add("session/end-seed", {})
    script.start()
    script.add("agent/inbox/spliced", {**splice, "removedCount": 1, "inserted": []})
    script.say("s")
    fork = SessionHeader(SessionId("s1"), 1, seed_length=1)
    assert [item.steering for item in items(folded(script.log(fork))) if isinstance(item, Message)] == [False]
    assert [item.steering for item in items(script.fold()) if isinstance(item, Message)] == [True]


def test_marks_tell_titles_commands_approvals_goals_and_todos() -> None:
    script = Script()
    script.add("session/title", {"title": "A title", "messageSeqs": [], "source": {"kind": "user"}})
    script.add("command/run", {"commandId": "c", "name": "compact", "args": "now"})
    script.add("command/done", {"commandId": "c", "kind": "error", "text": "busy"})
    script.add("approval/asked", {"id": "a", "toolName": "bash", "reason": "writes"})
    script.add("approval/decided", {"id": "a", "outcome": "rejected"})
    script.add("goal/change", {"operation": "create", "goal": {"objective": "Count"}})
    script.add("todo/write", {"todos": [{"content": "a", "status": "completed"}, {"content": "b"}]})
    state = script.fold()
    assert state.title == "A title"
    assert [(item.kind, item.text, item.is_error) for item in items(state) if isinstance(item, Mark)] == [
        ("title", "A title", False),
        ("command", "/compact now", False),
        ("command-result", "busy", True),
        ("approval", "asked: bash, writes", False),
        ("approval", "decided: rejected", True),
        ("goal", "create: Count", False),
        ("todo", "[x] a\n[ ] b", False),
    ]


def test_rows_of_all_tables_are_told_apart_by_their_keys_and_refer_to_rows_that_are_there() -> None:
    script = Script()
    place = script.start()
    script.say("u", "question")
    script.answer(place, {"type": "reasoning", "text": "hm"}, call_block("x"), call_block("y"))
    script.add("step/end", place)
    script.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    found = list(transcript.rows(script.fold()))
    by_table: dict[str, list[dict[str, Any]]] = {}
    for table in transcript.tables:
        names = [column.name for column in table.columns]
        rows = [
            {"seq": row.seq} | dict(zip(names, row.values, strict=True))
            for row in found
            if row.table == table.name
        ]
        assert len({tuple(row[name] for name in table.key) for row in rows}) == len(rows) > 0
        by_table[table.name] = rows
    for table in transcript.tables:
        for column in table.columns:
            if column.references is not None:
                target, name = column.references
                there = {row[name] for row in by_table[target]}
                assert {row[column.name] for row in by_table[table.name]} <= there
    (turn,) = by_table["read_turn"]
    assert (turn["prompt"], turn["prompts"], turn["tool_calls"], turn["duration_ms"]) == (
        "question",
        1,
        2,
        50,
    )
    answer = by_table["read_message"][1]
    assert (answer["provenance"], answer["reasoning_chars"], answer["tool_calls"]) == ("answer", 2, 2)


# Properties


def values() -> st.SearchStrategy[Any]:
    """What may stand where something else belongs."""
    return st.sampled_from(
        [
            None,
            0,
            1,
            1.5,
            -1,
            2**60,
            1e300,
            True,
            "",
            "x",
            "\ud800",
            [],
            {},
            [1],
            [{}],
            {"kind": 1},
            {"type": "text"},
        ]
    )


MEMBERS = ["message", "reason", "chunk", "stream", "inserted", "target", "start", "failure", "error", "goal"]


@st.composite
def damaged(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A session with events taken out, doubled, and with members that say nonsense."""
    events = draw(sessions())
    types = sorted(transcript.handles)
    made: list[dict[str, Any]] = []
    for event in events:
        match draw(st.integers(0, 9)):
            case 0:
                continue
            case 1:
                made.append(event)
            case 2:
                made.append({**event, "type": draw(st.sampled_from(types))})
            case 3:
                made.append({**event, "data": draw(values())})
            case 4 if isinstance(event["data"], dict):
                made.append({**event, "data": {key: draw(values()) for key in event["data"]}})
            case 5:
                keys = [
                    "message",
                    "reason",
                    "chunk",
                    "stream",
                    "inserted",
                    "target",
                    "start",
                    "failure",
                    "error",
                    "todos",
                ]
                data = {**event["data"], draw(st.sampled_from(keys)): draw(values())}
                made.append({**event, "data": data})
        made.append(event)
    return [{**event, "seq": seq} for seq, event in enumerate(made)]


@settings(max_examples=100)
@given(st.one_of(sessions(), damaged()), st.data())
def test_a_cut_and_a_checkpoint_anywhere_change_nothing(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    log = Log.of(recorded(events))
    cut = data.draw(st.integers(0, len(events)))
    part = advance(transcript, begin(transcript, log.header), log.events(0, cut, deltas=False))
    assert transcript.load(transcript.dump(part.state)) == part.state
    rest = advance(transcript, part, log.events(cut, deltas=False))
    assert rest.state == folded(log)


@settings(max_examples=100)
@given(damaged())
def test_any_events_fold_view_and_make_rows(events: list[dict[str, Any]]) -> None:
    log = Log.of(recorded(events))
    state = folded(log)
    json.dumps(transcript.view(state))
    numbers = [row.values[0] for row in transcript.rows(state) if row.table == "read_tool_call"]
    assert sorted(numbers) == list(range(1, state.calls + 1))
    durations = [item.duration_ms for item in items(state) if isinstance(item, ToolCall)]
    durations += [step.duration_ms for turn in turns(state) for step in turn.items if isinstance(step, Step)]
    assert all(duration is None or duration >= 0 for duration in durations)


@given(sessions())
def test_valid_sessions_break_no_rule_and_lose_nothing(events: list[dict[str, Any]]) -> None:
    state = folded(Log.of(recorded(events)))
    assert state.breaches == ()
    appended = [event["seq"] for event in events if event.get("surfaceOp") == "append"]
    shown = [item.seq for item in items(state) if isinstance(item, Message | Answer)]
    shown += [
        item.result_seq for item in items(state) if isinstance(item, ToolCall) and item.result_seq is not None
    ]
    assert sorted(shown) == appended
    assert all(isinstance(section, Turn | Between) for section in state.sections())


@pytest.mark.parametrize("type", sorted(transcript.handles))
def test_an_event_that_changes_nothing_leaves_the_same_state(type: str) -> None:
    nothing = {
        "agent/inbox/spliced": {"target": "next-turn", "start": 0, "inserted": []},
        "llm/retry-started": {"retryId": "r", "retry": 1},
        "session/title": {},
    }
    if type in nothing:
        (event,) = recorded([{"type": type, "seq": 0, "time": 1, "data": nothing[type]}])
        state = transcript.initial(SessionHeader(SessionId("s1"), 1))
        assert apply(state, event) is state
