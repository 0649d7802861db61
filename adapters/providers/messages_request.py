"""The request of the Messages format, from what a model is asked.

The body has, in this order: ``model``, ``stream: true``, ``messages``, ``max_tokens``, ``thinking`` and
``output_config`` as the effort wants them, and where set ``system``, ``temperature``, ``stop_sequences``, ``tools``.
What is absent is left out. Messages:

- neighbours of the same wire role are one message, its content always a list; each block of text stays a block;
- a tool result is a ``tool_result`` block of a user message, with ``is_error`` always; in a message with other blocks
  the results come first. It may be a block of a user message or a message of role ``tool`` (log format 4);
- a tool call is ``tool_use``; its ``input`` is the parsed arguments, ``{}`` where they are no JSON object;
- reasoning is ``thinking`` with the signature that the replay state of its message has, or ``redacted_thinking``. One
  without a signature is left out, or sent without one, as the profile says. A replay state counts when it is of this
  kind, of the model that is asked, and its entries fit the blocks one to one;
- a system message inside the history is user text; a message of role ``developer`` is not sent;
- empty text is left out, and so is a message without content. Blocks that the format cannot say are left out.

Source: docs/providers.md, "Messages"; platform.claude.com, "Messages" (2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playhead.adapters.providers.messages_profile import MessagesProfile
from playhead.eventstore import json_text, members
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.failures import Failure
from playhead.eventstore.request_header import Tool

NATIVE_BLOCKS = ("image", "document")
"""Blocks of the format itself that a history read from a request holds as they came; they have a ``source``."""


def build_request(request: ModelRequest, profile: MessagesProfile) -> dict[str, Any]:
    """The body that asks for ``request`` as a stream.

    Raises ``AdapterError`` with ``UNSUPPORTED_REASONING_EFFORT`` for an effort that the endpoint does not know.
    """
    config = request.config
    body: dict[str, Any] = {
        "model": config.model,
        "stream": True,
        "messages": _wire_messages(request, profile),
        "max_tokens": profile.max_tokens if config.max_tokens is None else config.max_tokens,
        **_thinking(config.reasoning_effort, profile),
    }
    if request.system:
        body["system"] = request.system
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if config.stop is not None:
        body["stop_sequences"] = list(config.stop)
    if request.tools:
        body["tools"] = [_wire_tool(tool) for tool in request.tools]
    return body


def tool_input(arguments: str, profile: MessagesProfile) -> dict[str, Any]:
    """The arguments of a tool call as an object, numbers as the runtime that the profile stands for reads them."""
    parse = json_text.parse_ecma if profile.strict else json_text.parse
    try:
        value = parse(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _thinking(effort: str | None, profile: MessagesProfile) -> dict[str, Any]:
    if effort not in profile.efforts:
        known = ", ".join(effort for effort in profile.efforts if effort is not None)
        message = f"{profile.label} does not support the reasoning effort {effort!r}; it knows {known}"
        raise AdapterError(Failure(message=message, code="UNSUPPORTED_REASONING_EFFORT"))
    return dict(profile.efforts[effort])


def _wire_tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _wire_messages(request: ModelRequest, profile: MessagesProfile) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    for message in request.messages:
        role = "assistant" if message.get("role") == "assistant" else "user"
        content = list(_wire_content(message, request.config.model, profile))
        if not content:
            continue
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += content
        else:
            merged.append({"role": role, "content": content})
    for message in merged:
        message["content"].sort(
            key=lambda block: block["type"] != "tool_result"
        )  # stable: results come first
    return merged


def _wire_content(message: dict[str, Any], model: str, profile: MessagesProfile) -> Iterator[dict[str, Any]]:
    match message.get("role"):
        case "developer":
            return
        case "assistant":
            yield from _wire_answer(message, model, profile)
        case "tool":
            yield _wire_result(message)
        case _:
            for block in members.objects(message, "content"):
                if block.get("type") == "tool-result":
                    yield _wire_result(block)
                else:
                    yield from _wire_input(block)


def _wire_input(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A block of a user message or of a tool result."""
    kind, text = block.get("type"), members.text(block, "text")
    if kind == "text" and text:
        yield {"type": "text", "text": text}
    elif kind in NATIVE_BLOCKS and "source" in block:
        yield block


def _wire_result(result: dict[str, Any]) -> dict[str, Any]:
    """The block for a tool result: a block of that type, or a message of role ``tool``."""
    content = [part for block in members.objects(result, "content") for part in _wire_input(block)]
    return {
        "type": "tool_result",
        "tool_use_id": members.text(result, "toolCallId") or "",
        "content": content,
        "is_error": result.get("isError") is True,
    }


def _wire_answer(message: dict[str, Any], model: str, profile: MessagesProfile) -> Iterator[dict[str, Any]]:
    blocks = members.objects(message, "content")
    for block, entry in zip(blocks, _replayed(message, blocks, model, profile), strict=True):
        text = members.text(block, "text") or ""
        match block.get("type"):
            case "text" if text:
                yield {"type": "text", "text": text}
            case "reasoning":
                yield from _wire_thinking(text, entry, profile)
            case "tool-call":
                yield {
                    "type": "tool_use",
                    "id": members.text(block, "id") or "",
                    "name": members.text(block, "name") or "",
                    "input": tool_input(members.text(block, "arguments") or "", profile),
                }


def _wire_thinking(text: str, entry: dict[str, Any], profile: MessagesProfile) -> Iterator[dict[str, Any]]:
    signature, redacted = members.text(entry, "signature"), members.text(entry, "redacted")
    if redacted is not None:
        yield {"type": "redacted_thinking", "data": redacted}
    elif signature is not None:
        yield {"type": "thinking", "thinking": text, "signature": signature}
    elif profile.sends_unsigned:
        yield {"type": "thinking", "thinking": text}


def _replayed(
    message: dict[str, Any], blocks: list[dict[str, Any]], model: str, profile: MessagesProfile
) -> list[dict[str, Any]]:
    """The entry of the replay state for each block; empty ones where the state cannot be used."""
    nothing: list[dict[str, Any]] = [{} for _ in blocks]
    source = members.inner(message, "source")
    state = members.inner(source, "replayState")
    response, entries = members.inner(state, "response"), members.objects(state, "blocks")
    if (response.get("kind"), response.get("version")) != (profile.kind, 1) or len(entries) != len(blocks):
        return nothing
    if profile.types_entries:
        fits = [entry.get("type") for entry in entries] == [block.get("type") for block in blocks]
        if not fits or not (response.get("model") == source.get("model") == model):
            return nothing
    return entries
