"""Events that no reader could rely on do not get into a log, and the reason is said."""

from __future__ import annotations

from typing import Any

import pytest
from reference import cases

from playhead.eventstore import json_text
from playhead.eventstore.admission import seed_refusal, stored_refusal


@pytest.mark.parametrize("case", cases("json_losslessness", "envelopes"))
def test_seed_and_storage_admit_what_the_vectors_admit(case: dict[str, Any]) -> None:
    event = json_text.parse_ecma(case["line"])
    assert (seed_refusal(event, 0) is None) == case["accepted_as_seed"]
    assert (stored_refusal(event, 0) is None) == case["accepted_on_restore"]


def message(role: str, **source: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "content": [], "source": source}


def event(tag: str, data: Any, **members: Any) -> dict[str, Any]:
    return {"type": tag, "seq": 3, "time": 0, "data": data, **members}


ADMITTED = {
    "system-prompt": event(
        "system/message", {"message": message("system", kind="system-prompt")}, surfaceOp="append"
    ),
    "developer-notice": event(
        "developer/message", {"message": message("developer", kind="tool-registry")}, surfaceOp="append"
    ),
    "answer": event(
        "assistant/message", {"message": message("assistant", kind="model", provider="p", model="m")}
    ),
    "header": event("request/header", {"header": {"config": {"provider": "p", "model": "m"}}}),
    "marked-header": event(
        "request/header",
        {
            "header": {
                "config": {"provider": "p", "model": "m", "maxTokens": 1},
                "adapterDefaults": {"maxTokens": True},
            }
        },
    ),
    "seq-as-float": event("turn/start", {"turn": 1}) | {"seq": 3.0},
}


@pytest.mark.parametrize("name", ADMITTED)
def test_a_whole_event_is_admitted(name: str) -> None:
    assert seed_refusal(ADMITTED[name], 3) is None


REFUSED: dict[str, tuple[Any, str]] = {
    "no-object": ([], "an event is an object"),
    "no-type": ({"seq": 3, "time": 0, "data": {}}, "type"),
    "true-is-no-seq": (event("turn/start", {}) | {"seq": True}, "seq"),
    "surface-op-off-the-surface": (event("turn/start", {}, surfaceOp="append"), "not on the surface"),
    "sources-off-the-surface": (event("x/y", {}, sourceEventSeqs=[1]), "not on the surface"),
    "message-missing": (event("tool/result", {"turn": 1}), "not an object"),
    "message-of-no-object": (event("assistant/message", None), "not an object"),
    "system-prompt-of-a-user": (event("system/message", {"message": message("user", kind="x")}), "role"),
    "result-of-a-user": (event("tool/result", {"message": message("user", kind="user")}), "is a tool"),
    "result-without-block": (
        event("tool/result", {"message": message("user", kind="tool", callId="c")}),
        "exactly one",
    ),
    "result-without-array": (
        event(
            "tool/result",
            {
                "message": message("user", kind="tool", callId="c")
                | {"content": [{"type": "tool-result", "toolCallId": "c", "content": "text"}]}
            },
        ),
        "not an array",
    ),
    "header-without-config": (event("request/header", {"header": {}}), "no config"),
    "defaults-of-no-object": (
        event(
            "request/header", {"header": {"config": {"provider": "p", "model": "m"}, "adapterDefaults": True}}
        ),
        "not an object",
    ),
    "unknown-default": (
        event(
            "request/header",
            {
                "header": {
                    "config": {"provider": "p", "model": "m", "stop": []},
                    "adapterDefaults": {"stop": True},
                }
            },
        ),
        "stop",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_event_says_why(name: str) -> None:
    refused, why = REFUSED[name]
    for refusal in (seed_refusal(refused, 3), stored_refusal(refused, 3)):
        assert refusal is not None
        assert why in refusal
