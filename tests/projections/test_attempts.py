"""Model calls: boundaries, outcomes, retries; recorded logs, their migrated twins, and what the original counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from native_sessions import Native, natives
from reference import cases, shared_path
from session_logs import recorded
from twins import Log, Twins, read_log, recorded_logs, twins

from playhead.projections.attempt import Attempt, CallFailure, Tokens
from playhead.projections.attempt_fold import calls
from playhead.projections.attempts import attempts
from playhead.projections.folding import advance, begin, fold

PLACE = {"turn": 1, "step": 1}


def calls_of(log: Log, **how: Any) -> list[Attempt]:
    return list(calls(fold(log, attempts, **how).state))


def written(*events: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], dict[str, Any]]) -> Log:
    """The log of (type, data, further members of the envelope), one event every 10 ms."""
    return Log.of(
        recorded(
            [
                {
                    "type": event[0],
                    "seq": seq,
                    "time": 10 * seq,
                    "data": event[1],
                    **(event[2] if event[2:] else {}),
                }
                for seq, event in enumerate(events)
            ]
        )
    )


def chunk(**chunk: Any) -> tuple[str, dict[str, Any]]:
    return "assistant/chunk", {**PLACE, "chunk": chunk}


def ended(kind: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "turn/end", {"turn": 1, "reason": {"kind": kind, **more}}


TURN = ("turn/start", {"turn": 1})
STEP = ("step/start", PLACE)
STEP_END = ("step/end", PLACE)
BLOCK = chunk(type="block-start", index=0, blockType="text")
STOP = chunk(type="finish", reason={"kind": "stop"})
FAILURE = {"message": "busy", "code": "SERVER", "status": 503, "providerRetryAfterMs": 9}
ERROR = chunk(type="finish", reason={"kind": "error", "failure": FAILURE})
HEADER = ("request/header", {"header": {"config": {"provider": "p", "model": "m"}}})
MESSAGE = {
    **PLACE,
    "message": {"id": "a1", "source": {"kind": "model", "provider": "p", "model": "m"}},
    "usage": {"inputTokens": 3, "outputTokens": 2},
}


def test_a_call_in_chunk_events_ends_with_its_finish_and_gets_its_message() -> None:
    usage = chunk(type="usage", usage={"inputTokens": 3, "outputTokens": 1})
    (call,) = calls_of(
        written(
            TURN, STEP, HEADER, BLOCK, usage, STOP, ("assistant/message", MESSAGE, {"surfaceOp": "append"})
        )
    )
    assert call == Attempt(
        kind="step",
        turn=1,
        step=1,
        number=1,
        seq=3,
        from_seq=3,
        to_seq=6,
        outcome="finished",
        asked_ms=10,
        started_ms=30,
        ended_ms=50,
        provider="p",
        model="m",
        finish="stop",
        tokens=Tokens(input=3, output=2),
        message_seq=6,
        message_id="a1",
    )


def test_a_call_in_an_embedded_stream_is_its_event() -> None:
    stream = [
        {"type": "chunk", "time": 12, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 13, "index": 0, "dt": [1, 2], "texts": ["", "", "x"]},
        {"type": "chunk", "time": 18, "chunk": {"type": "usage", "usage": {"inputTokens": 9}}},
        {"type": "chunk", "time": 19, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
    ]
    (call,) = calls_of(
        written(TURN, STEP, ("assistant/message", {**MESSAGE, "stream": stream}, {"surfaceOp": "append"}))
    )
    assert (call.from_seq, call.to_seq, call.outcome, call.finish) == (2, 3, "finished", "stop")
    assert (call.asked_ms, call.started_ms, call.first_token_ms, call.ended_ms) == (10, 12, 16, 19)
    assert call.tokens == Tokens(input=3, output=2)


def test_a_failed_call_and_its_retry_are_two_calls_of_the_step() -> None:
    retry = {"retryId": "r", **PLACE, "retry": 1, "maxRetries": 5, "delayMs": 7.5, "failure": FAILURE}
    started = {"retryId": "r", **PLACE, "retry": 1}
    first, second = calls_of(
        written(
            TURN, STEP, ERROR, ("llm/retry", retry), ("llm/retry-started", started), BLOCK, STOP, STEP_END
        )
    )
    assert (first.number, first.outcome, first.finish) == (1, "failed", "error")
    assert first.failure == CallFailure("SERVER", "busy", 503, 9.0)
    assert first.retry is not None
    assert (first.retry.id, first.retry.number, first.retry.most) == ("r", 1, 5)
    assert (first.retry.delay_ms, first.retry.started_ms) == (7.5, 40)
    assert (second.number, second.outcome, second.asked_ms, second.started_ms) == (2, "finished", 40, 50)


def test_a_retry_without_any_chunk_before_it_is_a_failed_call() -> None:
    retry = {"retryId": "r", **PLACE, "retry": 1, "delayMs": 5, "failure": FAILURE}
    first, second = calls_of(written(TURN, STEP, ("llm/retry", retry), STEP_END, TURN, STEP))
    assert (first.outcome, first.from_seq, first.to_seq, first.asked_ms) == ("failed", 2, 2, 10)
    assert second.outcome == "unanswered"


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (ended("aborted", reason={"kind": "user"}), "cancelled"),
        (ended("interrupted"), "crashed"),
        (ended("error", error={"message": "no", "code": "UNKNOWN"}), "failed"),
        (ended("completed"), "open"),
        (("turn/start", {"turn": 2}), "crashed"),
        (("feedback/record", {"text": "x"}), "open"),
    ],
)
@pytest.mark.parametrize("embedded", [False, True])
def test_the_end_of_the_turn_tells_how_a_call_without_a_finish_ended(
    end: tuple[str, dict[str, Any]], outcome: str, embedded: bool
) -> None:
    stream = {"type": "chunk", "time": 20, "chunk": BLOCK[1]["chunk"]}
    begun = ("assistant/attempt", {**PLACE, "stream": [stream]}) if embedded else BLOCK
    (call,) = calls_of(written(TURN, STEP, begun, STEP_END, end))
    assert (call.outcome, call.finish, call.started_ms) == (outcome, None, 20)
    assert (call.ended_ms is None) == (outcome in ("crashed", "open"))
    assert (call.failure is not None) == (outcome == "failed")


def test_what_was_kept_of_a_cancelled_answer_belongs_to_its_call() -> None:
    kept = {**MESSAGE, "interrupted": True, "usage": None}
    (call,) = calls_of(written(TURN, STEP, BLOCK, ("assistant/message", kept, {"surfaceOp": "append"})))
    assert (call.outcome, call.message_seq, call.tokens, call.ended_ms) == ("cancelled", 3, None, 30)


def test_a_step_of_which_nothing_came_is_unanswered() -> None:
    log = written(TURN, STEP, STEP_END, ended("error", error={"message": "no key", "code": "AUTH"}))
    (call,) = calls_of(log)
    assert (call.outcome, call.number, call.asked_ms, call.ended_ms) == ("unanswered", 1, 10, 20)
    assert call.failure == CallFailure("AUTH", "no key")
    assert [call.outcome for call in calls_of(log, at=1)] == ["unanswered"]


def test_a_message_alone_is_a_call_and_one_that_replaces_another_is_none() -> None:
    replaced = {"surfaceOp": {"op": "replace", "start": 2, "end": 2}, "sourceEventSeqs": [2]}
    (call,) = calls_of(
        written(
            TURN,
            STEP,
            ("assistant/message", MESSAGE, {"surfaceOp": "append"}),
            ("assistant/message", MESSAGE, replaced),
        )
    )
    assert (call.seq, call.to_seq, call.outcome, call.finish) == (2, 3, "finished", None)


def test_a_message_names_the_chunks_of_a_stream_that_began_with_a_delta() -> None:
    deltas = [chunk(type="text-delta", index=0, text="x")] * 2
    sourced = ("assistant/message", MESSAGE, {"surfaceOp": "append", "sourceEventSeqs": [2, 3]})
    (call,) = calls_of(written(TURN, STEP, *deltas, sourced))
    assert (call.seq, call.from_seq, call.to_seq) == (4, 2, 4)


def test_a_summary_is_a_call_of_its_own() -> None:
    told = {"llmStreamCall": True, "provider": "p", "model": "s", "usage": {"outputTokens": 4}}
    (call,) = calls_of(written(("compaction/summary", told), ("compaction/summary", {"provider": "p"})))
    assert (call.kind, call.number, call.turn, call.model, call.outcome) == (
        "summary",
        0,
        None,
        "s",
        "finished",
    )
    assert call.tokens == Tokens(output=4)


def test_the_last_inherited_marker_tells_which_calls_are_the_parents() -> None:
    def inherited(log: Log) -> list[bool]:
        return [row.values[4] for row in attempts.rows(fold(log, attempts).state)]

    marker = ("session/end-seed", {"inherited": True})
    answer = ("assistant/message", MESSAGE, {"surfaceOp": "append"})
    events = written(answer, marker, answer, marker, answer, ("session/end-seed", {}), answer)
    later = events.header.__class__(events.header.id, 1, version=4, is_seeded=True)
    assert inherited(Log(later, events.facts)) == [True, True, False, False]
    assert inherited(events) == [False] * 4
    counted = events.header.__class__(events.header.id, 1, seed_length=3)
    assert inherited(Log(counted, events.facts)) == [True, True, False, False]


@settings(max_examples=100)
@given(natives())
def test_deltas_change_nothing(native: Native) -> None:
    log = Log(native.header, tuple(native.events))
    every = advance(attempts, begin(attempts, log.header), log.events()).state
    assert every == fold(log, attempts).state


@settings(max_examples=100)
@given(natives())
def test_every_finish_is_the_end_of_one_call_and_every_answer_belongs_to_one(native: Native) -> None:
    found = calls_of(Log(native.header, tuple(native.events)))

    def seqs(*types: str) -> list[int]:
        return [
            fact.seq
            for fact in native.events
            if (fact.json["chunk"]["type"] if fact.type == "assistant/chunk" else fact.type) in types
        ]

    assert [call.to_seq - 1 for call in found if call.finish is not None and call.to_seq] == seqs("finish")
    assert [call.message_seq for call in found if call.message_seq is not None] == seqs("assistant/message")
    assert len({call.seq for call in found}) == len(found)


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_a_recorded_log_has_the_attempts_that_the_original_counted(case: dict[str, Any]) -> None:
    found = [call for call in calls_of(read_log(shared_path(case["corpus"]))) if call.outcome != "unanswered"]
    assert [
        (call.turn, call.step, call.number, call.from_seq, call.finish, call.message_seq, _usage(call))
        for call in found
        if call.kind == "step"
    ] == [
        (
            told["turn"],
            told["step"],
            told["attempt"],
            told["seqs"][0],
            told["finish"],
            told.get("message_seq"),
            told["usage"],
        )
        for told in case["attempts"]
    ]


def _usage(call: Attempt) -> dict[str, int] | None:
    if call.tokens is None:
        return None
    figures = {
        "inputTokens": call.tokens.input,
        "outputTokens": call.tokens.output,
        "totalTokens": call.tokens.total,
        "cacheReadTokens": call.tokens.cache_read,
        "cacheWriteTokens": call.tokens.cache_write,
        "reasoningTokens": call.tokens.reasoning,
    }
    return {name: value for name, value in figures.items() if value is not None}


def outcomes(logs: Iterable[Log]) -> Counter[tuple[str, str]]:
    return Counter((call.kind, call.outcome) for log in logs for call in calls_of(log))


def test_the_calls_of_all_recorded_logs_are_those_that_were_counted() -> None:
    shared_path("corpus")
    logs = [param.values[0] for param in recorded_logs()]
    # Who counted stopped at a defect in three logs of three calls each, and read one that is refused here.
    # In one log a step is entered without its number, and there the call of that step is not taken for it.
    assert outcomes(map(read_log, logs)) == {
        ("step", "finished"): 966 + 3 * 3 - 3,
        ("step", "failed"): 155,
        ("step", "crashed"): 22,
        ("step", "open"): 16,
        ("step", "cancelled"): 11,
        ("step", "unanswered"): 38 - 1,
        ("summary", "finished"): 12,
    }


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_has_the_calls_of_its_source(pair: Twins) -> None:
    def told(log: Log, **how: Any) -> list[tuple[Any, ...]]:
        return [
            (
                *(call.kind, call.turn, call.step, call.number, call.outcome, call.finish, call.failure),
                *(call.asked_ms, call.started_ms, call.ended_ms, call.tokens, call.provider, call.model),
                *(call.message_id, call.retry and (call.retry.id, call.retry.number, call.retry.started_ms)),
            )
            for call in calls_of(log, **how)
        ]

    assert told(pair.migrated) == told(pair.source, repaired=True)
