"""A native session in which something of every kind happened, so that every read table has rows of it."""

from __future__ import annotations

from typing import Any

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent, Store
from playhead.eventstore.recorded import Replace

T0 = 1_780_000_000_000
_SURFACE = {"user/message", "assistant/message", "tool/result"}


def write(store: Store, id: str = "eventful") -> None:
    """Add the session to ``store``: a retry, a tool that failed, an approval, a job, a goal round, a lost message."""
    with store.create(SessionHeader(SessionId(id), T0, cwd="/home/ada/kitchen")) as session:
        session.append(
            [
                NewEvent(
                    type, data, T0 + 250 * at, *(op[0] if op else ("append",) if type in _SURFACE else ())
                )
                for at, (type, data, *op) in enumerate(_events())
            ]
        )


def _message(id: str, text: str, source: Any = None) -> dict[str, Any]:
    blocks = [{"type": "text", "text": text}]
    return {"id": id, "role": "user", "content": blocks, "source": source or {"kind": "user"}}


def _queued(message: dict[str, Any]) -> tuple[str, Any]:
    return ("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [message]})


_CLAIMED = ("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []})


def _answer(place: dict[str, Any], *blocks: dict[str, Any]) -> tuple[str, Any]:
    source = {"kind": "model", "provider": "deepseek", "model": "deepseek-v4-flash"}
    usage = {"inputTokens": 120, "outputTokens": 34, "cacheReadTokens": 800}
    content = [{"type": "text", "text": "Done."}, *blocks]
    message = {"id": f"a{place['turn']}", "role": "assistant", "content": content, "source": source}
    return ("assistant/message", {**place, "message": message, "usage": usage})


def _chunk(place: dict[str, Any], chunk: dict[str, Any]) -> tuple[str, Any]:
    return ("assistant/chunk", {**place, "chunk": chunk})


def _goal(operation: str, phase: str, revision: int, rounds: int) -> tuple[str, Any]:
    goal = {"id": "g", "revision": revision, "objective": "Bake bread.", "phase": phase, "maxGoalRounds": 3}
    times = {"createdAt": T0, "updatedAt": T0 + revision}
    return (
        "goal/change",
        {
            "kind": "goal/change",
            "version": 1,
            "operation": operation,
            "goal": goal,
            "roundsStarted": rounds,
            **times,
        },
    )


def _events() -> list[tuple[Any, ...]]:
    first, second = {"turn": 1, "step": 1}, {"turn": 2, "step": 1}
    config = {"provider": "deepseek", "model": "deepseek-v4-flash"}
    failure = {"message": "too many requests", "code": "RATE_LIMIT", "status": 429}
    retry = {"retryId": "r", **first, "retry": 1}
    call = {"type": "tool-call", "id": "c1", "name": "shell", "arguments": '{"command":"make"}'}
    failed = {"type": "tool-result", "toolCallId": "c1", "content": [], "isError": True}
    result = {"id": "t1", "role": "user", "content": [failed], "source": {"kind": "tool", "callId": "c1"}}
    job = {"jobId": "j", "owner": "eventful", "kind": "shell", "label": "make", "startedAt": T0 + 4000}
    compaction = {"compactionId": "k"}
    usage = {"inputTokens": 900, "outputTokens": 60}
    prompt = _message("m1", "Bake bread, please.")
    return [
        ("sandbox/mode", {"mode": "danger-full-access"}),
        ("approval/policy", {"policy": "ask"}),
        _queued(prompt),
        ("turn/start", {"turn": 1}),
        _CLAIMED,
        ("step/start", first),
        ("user/message", prompt),
        ("session/title", {"title": "Bread", "messageSeqs": [6], "source": {"kind": "fallback"}}),
        ("request/header", {"header": {"config": config}, "reason": "initial"}),
        _chunk(first, {"type": "finish", "reason": {"kind": "error", "failure": failure}}),
        (
            "llm/retry",
            {
                **retry,
                "provider": "deepseek",
                "mode": "normal",
                "policyKey": "[]",
                "maxRetries": 5,
                "delayMs": 500,
                "failure": failure,
            },
        ),
        ("llm/retry-started", retry),
        _chunk(first, {"type": "text-delta", "index": 0, "text": "Done."}),
        _chunk(first, {"type": "finish", "reason": {"kind": "tool-calls"}}),
        _answer(first, call),
        ("tool/call", {**first, "callId": "c1", "name": "shell", "arguments": call["arguments"]}),
        ("approval/asked", {"id": "p", "toolName": "shell", "callId": "c1"}),
        ("approval/decided", {"id": "p", "outcome": "allowed-once"}),
        ("job/registered", job),
        ("job/settled", job | {"finishedAt": T0 + 4400, "status": "failed", "cause": "exit 2"}),
        ("todo/write", {"todos": [{"content": "Knead", "status": "in_progress"}]}),
        ("tool/result", {**first, "message": result, "error": {"name": "Failed", "code": "EXIT"}}),
        ("step/end", first),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
        ("compaction/start", {**compaction, "turn": None}),
        (
            "compaction/summary",
            {
                **compaction,
                "summary": [{"type": "text", "text": "Bread is wanted."}],
                "shadowedRange": {"start": 6, "end": 6},
                "shadowedSeqs": [6],
                "shadowedTokenCount": 700,
                **config,
                "usage": usage,
            },
        ),
        (
            "user/message",
            _message("s1", "Bread is wanted.", {"kind": "plugin", "plugin": "compact", **compaction}),
            (Replace(6, 6), (6,)),  # type: ignore[arg-type]
        ),
        ("compaction/end", {**compaction, "turn": None}),
        _goal("create", "active", 1, 0),
        ("turn/start", {"turn": 2}),
        ("step/start", second),
        (
            "user/message",
            _message("g1", "Go on.", {"kind": "goal", "goalId": "g", "revision": 1, "round": 1}),
        ),
        _answer(second),
        ("step/end", second),
        ("turn/end", {"turn": 2, "reason": {"kind": "completed"}}),
        _goal("complete", "complete", 2, 1),
        _queued(_message("m2", "And some soup.")),
        ("turn/start", {"turn": 3}),
        _CLAIMED,
        ("turn/end", {"turn": 3, "reason": {"kind": "interrupted"}}),
        ("turn/start", {"turn": 4}),
        ("todo/write", {"todos": [{"content": "Bake", "status": "pending"}]}),
    ]
