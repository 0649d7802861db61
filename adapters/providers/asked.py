"""What a recorded call was asked, as the request that a dialect builds a body from."""

from __future__ import annotations

from typing import Any

from playhead.eventstore import members
from playhead.eventstore.chunk_source import ModelRequest, Purpose
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.request_header import CallConfig, Tool
from playhead.projections.requests import Request


def asked(recorded: Request, *, session: str | None = None, purpose: Purpose = "turn") -> ModelRequest:
    """The request of a recorded call, whatever the format of its log.

    Settings of the wrong kind, as a damaged log may have, are left out; a call without a header has neither
    provider nor model ("").
    """
    return ModelRequest(
        config=_config(recorded.config),
        messages=tuple(message for _, message in recorded.messages),
        system=recorded.system,
        tools=tuple(_tool(tool) for tool in recorded.tools),
        session=session,
        purpose=purpose,
    )


def _config(config: dict[str, Any]) -> CallConfig:
    limit, stop = config.get("maxTokens"), config.get("stop")
    return CallConfig(
        provider=members.text(config, "provider") or "",
        model=members.text(config, "model") or "",
        reasoning_effort=members.text(config, "reasoningEffort"),
        temperature=members.number(config, "temperature"),
        max_tokens=int(limit) if is_safe_integer(limit) else None,
        stop=tuple(word for word in stop if isinstance(word, str)) if isinstance(stop, list) else None,
    )


def _tool(tool: dict[str, Any]) -> Tool:
    return Tool(
        name=members.text(tool, "name") or "",
        description=members.text(tool, "description") or "",
        parameters=tool.get("parameters", {}),
    )
