"""What an event must look like to enter a log whole, from a seed or from storage.

An envelope has the members ``type``, ``seq``, ``time``, ``data`` and, optionally, ``ignorable`` (only true),
``sourceEventSeqs`` and ``surfaceOp`` (surface types only). Messages are checked as far as every reader relies
on it: id, role, source, and that the content is an array; a tool result holds exactly one block, for the call
that its source names. A request header names its provider and model. Two retired shapes are refused
everywhere.

A seed is also checked for JSON that would not come back as it is; what was parsed from storage is trusted.
The checks give the reason why the event is refused, or None. They say nothing about how events relate.
"""

from __future__ import annotations

from typing import Any

from playhead.eventstore import json_text
from playhead.eventstore.errors import NotLosslessJson
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.registry import event_types

MEMBERS = frozenset({"type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp"})
"""The members that an event may have."""

_ROLES = {"assistant/message": "assistant", "system/message": "system", "developer/message": "developer"}
_MARKS = ("reasoningEffort", "maxTokens")


def seed_refusal(event: Any, seq: int) -> str | None:
    """Why ``event`` may not become the event ``seq`` of a log that is put together by a program."""
    try:
        json_text.require_lossless(event)
    except NotLosslessJson as error:
        return str(error)
    return stored_refusal(event, seq)


def stored_refusal(event: Any, seq: int) -> str | None:
    """Why ``event``, parsed from storage, cannot be the event ``seq`` of a log."""
    if not isinstance(event, dict):
        return "an event is an object"
    problem = _envelope_problem(event, seq)
    if problem is not None:
        return problem
    return data_refusal(event["type"], event["data"])


def data_refusal(tag: str, data: Any) -> str | None:
    """Why ``data`` cannot be what an event of type ``tag`` says; None for a type that has no such rule."""
    if tag == "request/header-delta":
        return "request/header-delta is retired"
    if tag == "request/header":
        return _header_problem(data)
    if tag == "user/message":
        return _message_problem(tag, data)
    if is_surface(tag):
        return _message_problem(tag, data.get("message") if isinstance(data, dict) else None)
    return None


def _envelope_problem(event: dict[str, Any], seq: int) -> str | None:
    unknown = event.keys() - MEMBERS
    if unknown:
        return f"an event has no member {min(unknown)!r}"
    tag = event.get("type")
    if not isinstance(tag, str):
        return "type is not text"
    if not is_safe_integer(event.get("seq")) or event["seq"] != seq:
        return f"seq is not {seq}, the next one"
    if not is_safe_integer(event.get("time")):
        return "time is not a whole number of milliseconds"
    if "data" not in event:
        return "there is no data"
    if event.get("ignorable", True) is not True:
        return "ignorable is something else than true"
    if not is_surface(tag) and ("surfaceOp" in event or "sourceEventSeqs" in event):
        return f"{tag} is not on the surface, so it has neither surfaceOp nor sourceEventSeqs"
    return None


def is_surface(tag: str) -> bool:
    """True for a type whose events have a place on the surface."""
    known = event_types.find(tag)
    return known is not None and known.surface


def _message_problem(tag: str, message: Any) -> str | None:
    if not isinstance(message, dict):
        return "the message is not an object"
    if not _is_name(message.get("id")):
        return "the message has no id"
    role = _ROLES.get(tag, "user")
    if message.get("role") != role:
        return f"the role of a {tag} is {role}"
    source, content = message.get("source"), message.get("content")
    if not isinstance(source, dict) or not _is_name(source.get("kind")):
        return "the source of the message has no kind"
    if not isinstance(content, list):
        return "the content of the message is not an array"
    if tag == "assistant/message":
        named = (
            source["kind"] == "model" and _is_name(source.get("provider")) and _is_name(source.get("model"))
        )
        return None if named else "the source of an assistant/message is a model, with its provider"
    if tag == "tool/result":
        return _tool_result_problem(source, content)
    return None


def _tool_result_problem(source: dict[str, Any], content: list[Any]) -> str | None:
    if source["kind"] != "tool" or not _is_name(source.get("callId")):
        return "the source of a tool/result is a tool, with its call"
    block = content[0] if len(content) == 1 else None
    if not isinstance(block, dict) or block.get("type") != "tool-result":
        return "the content of a tool/result is exactly one tool-result block"
    if not isinstance(block.get("content"), list):
        return "the content of the tool-result block is not an array"
    if block.get("toolCallId") != source["callId"]:
        return "the tool-result block is for another call than the source"
    return None


def _header_problem(data: Any) -> str | None:
    header = data.get("header") if isinstance(data, dict) else None
    config = header.get("config") if isinstance(header, dict) else None
    if not isinstance(header, dict) or not isinstance(config, dict):
        return "the request header has no config"
    if data.get("reason") == "fallback":
        return "request/header with reason fallback is retired"
    if not _is_name(config.get("provider")) or not _is_name(config.get("model")):
        return "the request header names no provider and model"
    if "reasoningEffort" in config and not _is_name(config["reasoningEffort"]):
        return "the reasoning effort of the request header is empty"
    defaults = header.get("adapterDefaults", {})
    if not isinstance(defaults, dict):
        return "the adapter defaults are not an object"
    for mark, value in defaults.items():
        if mark not in _MARKS or value is not True or mark not in config:
            return f"the adapter default {mark!r} marks nothing that the config holds"
    return None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""
