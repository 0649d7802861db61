"""The part of a request that a conversation consists of, in one form for whatever a client spells it like.

``messages``, ``system`` and ``tools`` count; everything else (model, limits, stream, ids of users, ``dsh_session_log``,
``dsh_plugin_packages``) says how to answer, or whom. Within them these are the same:

- a text, and a list with that text as its only part; a list of texts of chat completions, and the texts joined;
- a member that is null or has its default (``is_error: false``, ``signature: ""``, no tools), and one that is absent;
- neighbours of one role in the Messages format, and one message with the parts of both;
- the roles ``system`` and ``developer`` of chat completions;
- with marks for caches (``cache_control``), and without;
- ids of tool calls, whatever they are, as long as calls and results belong together in the same way.

Source: docs/replaying-in-tests.md, "Matching".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playhead.eventstore import members

Json = dict[str, Any]

INSTRUCTION = "(the instruction to write a summary)"
"""Stands for the last text of a request for a summary, which is in no log."""

_DEFAULTS: Mapping[str, Any] = {
    "annotations": [],
    "description": "",
    "is_error": False,
    "signature": "",
    "strict": False,
    "tool_calls": [],
}
"""Members that say nothing with this value."""

_IDS = frozenset({"tool_call_id", "tool_use_id"})
"""Members that hold the id of a tool call."""

_CALLS = frozenset({"tool_use", "function"})
"""Types of objects whose ``id`` is that of a tool call."""


def comparable(body: Mapping[str, Any], path: str) -> Json:
    """The conversation in the body of a request to ``path``, a path that a dialect has."""
    ids: dict[str, str] = {}
    is_chat = path.endswith("/chat/completions")
    form = _chat_message if is_chat else _messages_message
    listed = body.get("messages")
    messages = [form(_plain(message, ids)) for message in listed] if isinstance(listed, list) else []
    found: Json = {"messages": messages if is_chat else _merged(messages)}
    tools = body.get("tools")
    if isinstance(tools, list) and tools:
        found["tools"] = [_tool(_plain(tool, ids)) for tool in tools]
    system = None if is_chat else _joined(_plain(body.get("system"), ids))
    return {"system": system, **found} if system else found


def without_instruction(conversation: Json) -> Json:
    """A conversation whose last text is ``INSTRUCTION``, whatever it was."""
    messages = conversation["messages"]
    last = messages[-1] if messages and isinstance(messages[-1], dict) else {}
    content = last.get("content")
    if isinstance(content, str):
        content = INSTRUCTION
    elif isinstance(content, list) and content:
        content = [*content[:-1], {"type": "text", "text": INSTRUCTION}]
    else:
        return conversation
    return {**conversation, "messages": [*messages[:-1], {**last, "content": content}]}


def _plain(value: Any, ids: dict[str, str]) -> Any:
    """``value`` without what says nothing, its ids named in the order in which they come."""
    match value:
        case list():
            return [_plain(member, ids) for member in value]
        case dict():
            plain = {}
            for name, member in value.items():
                if member is None or name == "cache_control" or _is_default(name, member):
                    continue
                is_id = name in _IDS or (name == "id" and members.text(value, "type") in _CALLS)
                if is_id and isinstance(member, str):
                    plain[name] = ids.setdefault(member, f"call {len(ids) + 1}")
                elif name in ("input", "arguments", "parameters", "input_schema"):
                    plain[name] = member
                else:
                    plain[name] = _plain(member, ids)
            return plain
        case _:
            return value


def _is_default(name: str, value: Any) -> bool:
    return name in _DEFAULTS and type(value) is type(_DEFAULTS[name]) and value == _DEFAULTS[name]


def _chat_message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    content = _joined(message.get("content", ""))
    role = "system" if message.get("role") == "developer" else message.get("role")
    return {**message, "role": role, "content": content}


def _messages_message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    content = _parts(message.get("content", []))
    if isinstance(content, list):
        content = [_result(part) for part in content]
    return {**message, "content": content}


def _result(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "tool_result":
        return {**part, "content": _parts(part.get("content", []))}
    return part


def _merged(messages: list[Any]) -> list[Any]:
    """The messages with neighbours of one role made one."""
    merged: list[Any] = []
    for message in messages:
        if merged and _can_join(merged[-1], message):
            merged[-1] = {**merged[-1], "content": [*merged[-1]["content"], *message["content"]]}
        else:
            merged.append(message)
    return merged


def _can_join(one: Any, other: Any) -> bool:
    both = (one, other)
    return all(isinstance(message, dict) and isinstance(message["content"], list) for message in both) and (
        one.get("role") == other.get("role")
    )


def _tool(tool: Any) -> Any:
    if isinstance(tool, dict) and tool.get("type") == "custom":
        return {name: member for name, member in tool.items() if name != "type"}
    return tool


def _parts(content: Any) -> Any:
    """Content as a list of parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def _joined(content: Any) -> Any:
    """Content as one text, where it consists of texts."""
    if not isinstance(content, list):
        return "" if content is None else content
    texts = [members.text(part, "text") if _is_text(part) else None for part in content]
    return content if None in texts else "".join(text for text in texts if text is not None)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"
