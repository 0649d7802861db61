"""What a request of the Messages format asks: the way back from a body, for a proxy and for matching.

What the wire does not tell is made up in a way that is always the same: ids of messages are their place in the body,
and the provider is the name that the caller gives. Blocks and messages come back so that ``build_request`` gives the
same body again for one that it wrote; the order of tool results and of neighbours that were merged is that of the body.

A ``tool_result`` becomes a message of its own, as Playhead's own sessions hold it. Blocks of the format that have no
spelling of ours (images, documents, tools that the provider runs) are kept as they are.
Source: docs/providers.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from playhead.adapters.providers.messages_profile import MessagesProfile
from playhead.eventstore import json_text, members
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.failures import Failure
from playhead.eventstore.request_header import CallConfig, Tool

_ROLES = ("user", "assistant", "system")


def read_request(body: Mapping[str, Any], profile: MessagesProfile, provider: str) -> ModelRequest:
    """What ``body`` asks for. Raises ``AdapterError`` with ``INVALID_REQUEST`` for a body that is no request."""
    given = body.get("messages")
    if not isinstance(given, list):
        raise _invalid("messages is not a list")
    config = _config(body, provider)
    messages = [
        message for place, wire in enumerate(given) for message in _messages(wire, place, config, profile)
    ]
    system = body.get("system")
    return ModelRequest(
        config=config,
        messages=tuple(messages),
        system=None if system is None else _joined(_blocks(system, "system")),
        tools=tuple(_tool(tool) for tool in members.objects(dict(body), "tools")),
    )


def _messages(
    wire: object, place: int, config: CallConfig, profile: MessagesProfile
) -> Iterator[dict[str, Any]]:
    where = f"messages[{place}]"
    if not isinstance(wire, dict):
        raise _invalid(f"{where} is not an object")
    role = wire.get("role")
    if role not in _ROLES:
        raise _invalid(f"the role of {where} is none of {', '.join(_ROLES)}")
    blocks = _blocks(wire.get("content"), f"the content of {where}")
    id = f"message-{place}"
    if role == "assistant":
        yield _answer(id, blocks, config, profile)
        return
    rest = []
    for at, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            yield _result(f"{id}-result-{at}", block, where)
        else:
            rest.append(block)
    if rest or not blocks:
        yield {"id": id, "role": role, "content": rest, "source": {"kind": "user"}}


def _result(id: str, block: dict[str, Any], where: str) -> dict[str, Any]:
    call = members.text(block, "tool_use_id") or ""
    content = block.get("content")
    result: dict[str, Any] = {
        "type": "tool-result",
        "toolCallId": call,
        "content": [] if content is None else _blocks(content, f"a tool result of {where}"),
    }
    if isinstance(block.get("is_error"), bool):
        result["isError"] = block["is_error"]
    return {"id": id, "role": "user", "content": [result], "source": {"kind": "tool", "callId": call}}


def _answer(
    id: str, blocks: list[dict[str, Any]], config: CallConfig, profile: MessagesProfile
) -> dict[str, Any]:
    """An assistant message. Signatures and redacted thinking are its replay state, where there are any."""
    content, entries = [], []
    for block in blocks:
        ours, entry = _answer_block(block)
        content.append(ours)
        entries.append({"type": ours.get("type"), **entry} if profile.types_entries else entry)
    source: dict[str, Any] = {"kind": "model", "provider": config.provider, "model": config.model}
    if any("signature" in entry or "redacted" in entry for entry in entries):
        response = {"kind": profile.kind, "version": 1, "model": config.model}
        source["replayState"] = {"response": response, "blocks": entries}
    return {"id": id, "role": "assistant", "content": content, "source": source}


def _answer_block(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A block of an answer in our spelling, and its entry in the replay state."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": members.text(block, "text") or ""}, {}
        case "thinking":
            signature = members.text(block, "signature")
            entry = {} if signature is None else {"signature": signature}
            return {"type": "reasoning", "text": members.text(block, "thinking") or ""}, entry
        case "redacted_thinking":
            return {"type": "reasoning", "text": ""}, {"redacted": members.text(block, "data") or ""}
        case "tool_use":
            call = {
                "type": "tool-call",
                "id": members.text(block, "id") or "",
                "name": members.text(block, "name") or "",
                "arguments": _arguments(block.get("input", {})),
            }
            return call, {}
    return block, {}


def _arguments(value: object) -> str:
    try:
        return json_text.dumps(value).decode()
    except ValueError as error:
        raise _invalid("the input of a tool has a number that JSON cannot spell") from error


def _blocks(content: object, what: str) -> list[dict[str, Any]]:
    """The blocks of a content: text, or a list of blocks. Text blocks keep their text alone."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise _invalid(f"{what} is neither text nor a list of blocks")
    return [
        {"type": "text", "text": members.text(block, "text") or ""} if block.get("type") == "text" else block
        for block in content
    ]


def _joined(blocks: list[dict[str, Any]]) -> str:
    return "\n\n".join(block["text"] for block in blocks if block.get("type") == "text" and block["text"])


def _tool(tool: dict[str, Any]) -> Tool:
    return Tool(
        name=members.text(tool, "name") or "",
        description=members.text(tool, "description") or "",
        parameters=tool.get("input_schema", {}),
    )


def _config(body: Mapping[str, Any], provider: str) -> CallConfig:
    """Model and settings; where thinking is switched off, that is the effort ``off``."""
    whole = dict(body)
    is_off = members.inner(whole, "thinking").get("type") == "disabled"
    stop = body.get("stop_sequences")
    asked = {
        "provider": provider,
        "model": body.get("model"),
        "reasoningEffort": "off" if is_off else members.inner(whole, "output_config").get("effort"),
        "temperature": body.get("temperature"),
        "maxTokens": body.get("max_tokens"),
        "stop": tuple(stop) if isinstance(stop, list) else stop,
    }
    try:
        return CallConfig.decode({member: value for member, value in asked.items() if value is not None})
    except ValidationError as error:
        wrong = ", ".join(sorted({str(problem["loc"][0]) for problem in error.errors()}))
        raise _invalid(f"these settings are missing or of the wrong kind: {wrong}") from error


def _invalid(problem: str) -> AdapterError:
    message = f"the request is no request of the Messages format: {problem}"
    return AdapterError(Failure(message=message, code="INVALID_REQUEST"))
