"""The request of chat completions, from what a model is asked and back.

The body has ``model``, ``messages``, ``stream: true``, ``stream_options {include_usage: true}``, and where set:
``thinking``, ``reasoning_effort``, ``tools``, ``temperature``, the limit of tokens, ``stop``. What is absent is left
out, never null; zero and an empty system prompt are not absent. Messages:

- the system prompt first, with the role that the profile names;
- a user message: its text, unless it has none and holds tool results, and behind it one message of role ``tool`` per
  result, ``(no output)`` where a result has no text. Whether a tool failed is not on the wire;
- an assistant message: its text, "" without any (a gateway may want null beside tool calls; DeepSeek refuses null),
  its thinking where the profile sends it back, and its tool calls with the arguments as they are;
- a message of role ``tool`` (log format 4), as a result above; one of role ``developer`` is not sent.

Text blocks are joined with nothing between them, blocks of other types are left out. Thinking: titles are made without
it; ``off`` switches it off; ``low``, ``high`` and ``max`` switch it on; any other effort is refused.
Source: docs/providers.md, "Chat completions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from playhead.adapters.providers.chat_profile import ChatProfile
from playhead.eventstore import json_text, members
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.failures import Failure
from playhead.eventstore.request_header import CallConfig, Tool

NO_OUTPUT = "(no output)"
"""What a tool result without text says."""

EFFORTS = ("low", "high", "max")
"""How hard a model of DeepSeek can be asked to think; ``off`` is not at all."""

_PROMPT_ROLES = ("system", "developer")


def build_request(request: ModelRequest, profile: ChatProfile) -> dict[str, Any]:
    """The body that asks for ``request`` as a stream.

    Raises ``AdapterError`` with ``UNSUPPORTED_REASONING_EFFORT`` for an effort that the endpoint does not know.
    """
    config = request.config
    body: dict[str, Any] = {
        "model": config.model,
        "messages": list(_wire_messages(request, profile)),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_thinking(request, profile),
    }
    if request.tools:
        body["tools"] = [_wire_tool(tool) for tool in request.tools]
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if config.max_tokens is not None:
        body[profile.max_tokens_field] = config.max_tokens
    if config.stop is not None:
        body["stop"] = list(config.stop)
    return body


def read_request(body: Mapping[str, Any], provider: str) -> ModelRequest:
    """What ``body`` asks for. Ids of messages are made of their place; ``provider`` is not on the wire.

    A body that ``build_request`` wrote is built again from it. Raises ``AdapterError`` with ``INVALID_REQUEST``.
    """
    given = body.get("messages")
    if not isinstance(given, list):
        raise _invalid("messages is not a list")
    model = body.get("model")
    if not isinstance(model, str):
        raise _invalid("model is not text")
    system: str | None = None
    messages: list[dict[str, Any]] = []
    for place, message in enumerate(given):
        if not isinstance(message, dict):
            raise _invalid(f"messages[{place}] is not an object")
        if place == 0 and message.get("role") in _PROMPT_ROLES:
            system = _joined(_parts(message.get("content")))
        else:
            messages.append(_read_message(message, place, provider, model))
    return ModelRequest(
        config=_config(body, provider),
        messages=tuple(messages),
        system=system,
        tools=tuple(_read_tool(tool) for tool in members.objects(dict(body), "tools") if "function" in tool),
    )


def _wire_messages(request: ModelRequest, profile: ChatProfile) -> Iterator[dict[str, Any]]:
    if request.system is not None:
        yield {"role": profile.system_role, "content": request.system}
    for message in request.messages:
        blocks = members.objects(message, "content")
        match message.get("role"):
            case "system":
                yield {"role": profile.system_role, "content": _joined(blocks)}
            case "assistant":
                yield _wire_assistant(blocks, profile)
            case "tool":
                yield _wire_result(message)
            case "developer":
                continue
            case _:
                results = [block for block in blocks if block.get("type") == "tool-result"]
                text = _joined(blocks)
                if text or not results:
                    yield {"role": "user", "content": text}
                yield from map(_wire_result, results)


def _wire_assistant(blocks: list[dict[str, Any]], profile: ChatProfile) -> dict[str, Any]:
    text, thinking = _joined(blocks), _joined(blocks, "reasoning")
    calls = [
        {
            "id": members.text(block, "id") or "",
            "type": "function",
            "function": {
                "name": members.text(block, "name") or "",
                "arguments": members.text(block, "arguments") or "",
            },
        }
        for block in blocks
        if block.get("type") == "tool-call"
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls and not text:
        message["content"] = profile.empty_content
    if profile.reasoning_field and thinking and (calls or not profile.reasoning_with_calls_only):
        message[profile.reasoning_field] = thinking
    if calls:
        message["tool_calls"] = calls
    return message


def _wire_result(result: dict[str, Any]) -> dict[str, Any]:
    """The message for a tool result: a block of that type, or a message of role ``tool``."""
    return {
        "role": "tool",
        "tool_call_id": members.text(result, "toolCallId") or "",
        "content": _joined(members.objects(result, "content")) or NO_OUTPUT,
    }


def _wire_tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _thinking(request: ModelRequest, profile: ChatProfile) -> dict[str, Any]:
    effort = request.config.reasoning_effort or profile.default_effort
    if not profile.has_thinking:
        return {"reasoning_effort": effort} if effort and profile.sends_effort else {}
    if request.purpose == "session-title" or effort == "off":
        return {"thinking": {"type": "disabled"}}
    if effort is None:
        return {"thinking": {"type": profile.default_thinking}} if profile.default_thinking else {}
    if effort not in EFFORTS:
        raise _unsupported(f"the reasoning effort {effort!r} is none of {', '.join(EFFORTS)} and off")
    if profile.default_thinking == "disabled":
        raise _unsupported(f"the endpoint does not think, so it has no reasoning effort {effort!r}")
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


def _read_message(message: dict[str, Any], place: int, provider: str, model: str) -> dict[str, Any]:
    parts = _parts(message.get("content"))
    id, role = f"message-{place}", message.get("role")
    if role in _PROMPT_ROLES:
        return {"id": id, "role": "system", "content": parts, "source": {"kind": "user"}}
    if role == "user":
        return {"id": id, "role": "user", "content": parts, "source": {"kind": "user"}}
    if role == "assistant":
        source = {"kind": "model", "provider": provider, "model": model}
        return {"id": id, "role": "assistant", "content": _read_blocks(message, parts), "source": source}
    if role == "tool":
        call = members.text(message, "tool_call_id") or ""
        result = {"type": "tool-result", "toolCallId": call, "content": parts}
        return {"id": id, "role": "user", "content": [result], "source": {"kind": "tool", "callId": call}}
    raise _invalid(
        f"messages[{place}] has the role {role!r}, which is none of system, user, assistant and tool"
    )


def _read_blocks(message: dict[str, Any], parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of an assistant message: thinking, text, tool calls. The wire does not tell another order."""
    thinking = members.text(message, "reasoning_content") or members.text(message, "reasoning")
    blocks = [{"type": "reasoning", "text": thinking}] if thinking else []
    blocks += parts or _parts(message.get("refusal"))
    for call in members.objects(message, "tool_calls"):
        function = members.inner(call, "function")
        blocks.append(
            {
                "type": "tool-call",
                "id": members.text(call, "id") or "",
                "name": members.text(function, "name") or "",
                "arguments": members.text(function, "arguments") or "",
            }
        )
    return blocks


def _parts(content: object) -> list[dict[str, Any]]:
    """The blocks of a wire content: text, or a list of typed parts. A part that is no text stays what it is."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _read_tool(tool: dict[str, Any]) -> Tool:
    function = members.inner(tool, "function")
    return Tool(
        name=members.text(function, "name") or "",
        description=members.text(function, "description") or "",
        parameters=function.get("parameters", {}),
    )


def _config(body: Mapping[str, Any], provider: str) -> CallConfig:
    """Model and settings; where thinking is switched off, that is the effort ``off``."""
    stop = body.get("stop")
    limit = body.get("max_tokens")
    is_off = members.inner(dict(body), "thinking").get("type") == "disabled"
    asked = {
        "provider": provider,
        "model": body.get("model"),
        "reasoningEffort": "off" if is_off else body.get("reasoning_effort"),
        "temperature": body.get("temperature"),
        "maxTokens": body.get("max_completion_tokens") if limit is None else limit,
        "stop": (stop,) if isinstance(stop, str) else tuple(stop) if isinstance(stop, list) else stop,
    }
    try:
        return CallConfig.decode({member: value for member, value in asked.items() if value is not None})
    except ValidationError as error:
        wrong = ", ".join(sorted({str(problem["loc"][0]) for problem in error.errors()}))
        raise _invalid(f"these settings have values of the wrong kind: {wrong}") from error


def _joined(blocks: Iterable[dict[str, Any]], kind: str = "text") -> str:
    """The text of the blocks of one type, halves of a character that meet joined."""
    texts = (members.text(block, "text") or "" for block in blocks if block.get("type") == kind)
    return json_text.whole("".join(texts))


def _invalid(problem: str) -> AdapterError:
    return AdapterError(
        Failure(message=f"the request is no request of chat completions: {problem}", code="INVALID_REQUEST")
    )


def _unsupported(problem: str) -> AdapterError:
    return AdapterError(Failure(message=problem, code="UNSUPPORTED_REASONING_EFFORT"))
