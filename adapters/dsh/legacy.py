"""Shapes that format 0 retired, read as the shapes that took their place.

Logs of formats 0 and 1 may hold them; which release wrote them does not show in the header.

=========================================== ==============================================================
stored                                      read as
=========================================== ==============================================================
``turn/start`` with ``trigger {kind}``      the trigger is dropped
``turn/end`` reason ``aborted``, no cause   ``aborted {reason: {kind: legacy}}``
``turn/end`` reason ``disposed``            ``aborted {reason: {kind: disposed}}``
``turn/end`` reason ``error`` with          ``error {error}``, with code ``UNKNOWN`` where none stands
``failure``, or flat with ``message``
``user/message`` without id                 the id and the role ``user`` are added
``steering/message``                        ``user/message``: its ``message``, or its content and source
flat ``assistant/message`` (``provenance``) ``message`` with source ``{...provenance, kind: model}``
flat ``tool/result`` (``callId``)           ``message`` with one ``tool-result`` block
``compact/*``                               ``compaction/*``
=========================================== ==============================================================

The id of a message that had none is ``legacy-message:<session>:<seq>``; a flat tool result that replaces
another inherits the id of the one it begins at. Refused: ``request/header-delta``, ``mode/set``,
``request/header`` with reason ``fallback``, a closed turn-end reason with further members, and old shapes
with a part missing. Source: docs/formats.md, "Format 0, retired shapes".
"""

from __future__ import annotations

from typing import Any, NoReturn

from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.recorded import Recorded, Replace

CLOSED_REASONS = frozenset({"completed", "blocked", "max-tokens", "interrupted"})
"""Turn-end reasons that have no member beside their kind."""

COMPACTION = {f"compact/{part}": f"compaction/{part}" for part in ("start", "summary", "end", "prune")}


def refuse(fact: Recorded, message: str) -> NoReturn:
    """Raise the ``CorruptLog`` that names the place of ``fact``."""
    raise CorruptLog(fact.session, f"seq {fact.seq}: {message}", seq=fact.seq, kind="retired-shape")


def legacy_id(fact: Recorded) -> str:
    """The id of a message that was stored without one."""
    return f"legacy-message:{fact.session}:{fact.seq}"


def turn_start(fact: Recorded) -> Recorded:
    """The turn start without its trigger."""
    data = fact.json
    if not isinstance(data, dict) or "trigger" not in data:
        return fact
    trigger = data["trigger"]
    if not isinstance(trigger, dict) or not isinstance(trigger.get("kind"), str) or not trigger["kind"]:
        refuse(fact, "turn/start has a trigger without a kind")
    return fact.with_json({key: value for key, value in data.items() if key != "trigger"})


def turn_end(fact: Recorded) -> Recorded:
    """The turn end with its reason in the present shape."""
    data = fact.json
    if not isinstance(data, dict) or not isinstance(data.get("reason"), dict):
        return fact
    reason = data["reason"]
    kind = reason.get("kind")
    if not isinstance(kind, str):
        return fact
    if kind in CLOSED_REASONS:
        if len(reason) > 1:
            refuse(fact, f"turn/end: the reason {kind} has further members")
        return fact
    if kind == "aborted":
        if "reason" not in reason:
            return fact.with_json(data | {"reason": {"kind": "aborted", "reason": {"kind": "legacy"}}})
        cause = reason["reason"]
        if not isinstance(cause, dict) or not isinstance(cause.get("kind"), str):
            refuse(fact, "turn/end: the reason aborted has a cause without a kind")
        return fact
    if kind == "disposed":
        return fact.with_json(data | {"reason": {"kind": "aborted", "reason": {"kind": "disposed"}}})
    if kind == "error" and "error" not in reason:
        return fact.with_json(data | {"reason": {"kind": "error", "error": _failure(fact, reason)}})
    return fact


def _failure(fact: Recorded, reason: dict[str, Any]) -> dict[str, Any]:
    """The structured failure of an old error reason: its ``failure``, or what lies flat beside its kind."""
    old = reason.get("failure", {key: reason[key] for key in reason if key not in ("kind", "step")})
    if not isinstance(old, dict) or not isinstance(old.get("message"), str):
        refuse(fact, "turn/end: the reason error has no message")
    if not isinstance(old.get("code", ""), str):
        refuse(fact, "turn/end: the code of the reason error is no text")
    return {"message": old["message"], "code": "UNKNOWN"} | old


def user_message(fact: Recorded) -> Recorded:
    """The user message with an id."""
    data = fact.json
    if not isinstance(data, dict) or "id" in data:
        return fact
    return fact.with_json(_identified(fact, data))


def steering_message(fact: Recorded) -> Recorded:
    """The user message that a steering message was."""
    data = fact.json
    if not isinstance(data, dict):
        refuse(fact, "steering/message has no message")
    message = data.get("message", {key: value for key, value in data.items() if key != "turn"})
    if not isinstance(message, dict):
        refuse(fact, "steering/message has no message")
    if "id" not in message:
        message = _identified(fact, message)
    return fact.with_json(message, type="user/message")


def _identified(fact: Recorded, message: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(message.get("content"), list) or not isinstance(message.get("source"), dict):
        refuse(fact, f"{fact.type} has neither an id nor content with a source")
    return message | {"id": legacy_id(fact), "role": "user"}


def assistant_message(fact: Recorded) -> Recorded:
    """The assistant message with its content, id and source in ``message``."""
    data = fact.json
    if not isinstance(data, dict) or "message" in data:
        return fact
    content, provenance = data.get("content"), data.get("provenance")
    if not isinstance(content, list) or not isinstance(provenance, dict):
        refuse(fact, "assistant/message has neither a message nor content with its provenance")
    message = {
        "id": legacy_id(fact),
        "role": "assistant",
        "content": content,
        "source": provenance | {"kind": "model"},
    }
    return fact.with_json(_wrapped(data, message, ("content", "provenance")))


def is_flat_result(fact: Recorded) -> bool:
    """True for a tool result of the time before messages had ids."""
    return isinstance(fact.json, dict) and "message" not in fact.json


def tool_result(fact: Recorded, inherited: str | None) -> Recorded:
    """The flat tool result as a message; ``inherited`` is the id of the result that it replaces."""
    data = fact.json
    call, content = data.get("callId"), data.get("content")
    if not isinstance(call, str) or not call or not isinstance(content, list):
        refuse(fact, "tool/result has neither a message nor content with its callId")
    if isinstance(fact.surface_op, Replace) and inherited is None:
        refuse(fact, f"tool/result replaces seq {fact.surface_op.start}, which is no tool result")
    block: dict[str, Any] = {"type": "tool-result", "toolCallId": call, "content": content}
    if "isError" in data:
        block["isError"] = data["isError"]
    message = {
        "id": inherited or legacy_id(fact),
        "role": "user",
        "content": [block],
        "source": {"kind": "tool", "callId": call},
    }
    return fact.with_json(_wrapped(data, message, ("callId", "content", "isError")))


def _wrapped(data: dict[str, Any], message: dict[str, Any], moved: tuple[str, ...]) -> dict[str, Any]:
    """``data`` with ``message`` behind turn and step, and without the members that moved into it."""
    place = {key: data[key] for key in ("turn", "step") if key in data}
    rest = {key: value for key, value in data.items() if key not in place and key not in moved}
    return place | {"message": message} | rest


def request_header(fact: Recorded) -> Recorded:
    """The request header, unless it has the retired reason."""
    if isinstance(fact.json, dict) and fact.json.get("reason") == "fallback":
        refuse(fact, "request/header has the retired reason fallback")
    return fact


def retired(fact: Recorded) -> NoReturn:
    """Refuse a type that no release reads any more."""
    refuse(fact, f"the type {fact.type} is retired and cannot be read")
