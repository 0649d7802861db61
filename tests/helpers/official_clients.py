"""What the official clients of OpenAI and Anthropic make of an answer: text, thinking, calls, and why it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from playhead.eventstore import json_text
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.blocks import ReasoningBlock, TextBlock, ToolCallBlock
from playhead.eventstore.chunks import Chunk


def _told(text: str, thinking: str, calls: list[Any], reason: Any) -> dict[str, Any]:
    return {
        "text": json_text.whole(text),
        "thinking": json_text.whole(thinking),
        "calls": calls,
        "reason": reason,
    }


def wanted(chunks: Sequence[Chunk]) -> dict[str, Any]:
    assembler = BlockAssembler(chunks)
    blocks = assembler.blocks()
    return _told(
        "".join(block.text for block in blocks if isinstance(block, TextBlock)),
        "".join(block.text for block in blocks if isinstance(block, ReasoningBlock)),
        [(b.id, b.name, b.arguments or "{}") for b in blocks if isinstance(b, ToolCallBlock)],
        assembler.finish.tag,
    )


_ANTHROPIC_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
}
_OPENAI_STOPS = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens"}


def as_anthropic_read(message: Any) -> dict[str, Any]:
    blocks = message.content
    assert (message.type, message.role) == ("message", "assistant")
    assert message.usage.input_tokens >= 0
    assert message.usage.output_tokens >= 0
    calls = [(b.id, b.name, json_text.dumps(b.input).decode()) for b in blocks if b.type == "tool_use"]
    reason = _ANTHROPIC_STOPS[message.stop_reason]
    return _told(
        "".join(block.text for block in blocks if block.type == "text"),
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        [] if reason == "max-tokens" else calls,
        reason,
    )


def as_openai_read(message: Any, reason: Any) -> dict[str, Any]:
    calls = [(c.id, c.function.name, c.function.arguments or "{}") for c in message.tool_calls or ()]
    thinking = getattr(message, "reasoning_content", None) or ""
    reason = _OPENAI_STOPS[reason]
    return _told(message.content or "", thinking, [] if reason == "max-tokens" else calls, reason)


def as_openai_streamed(events: Iterable[Any]) -> dict[str, Any]:
    """The answer put together from the events of a stream."""
    text, thinking, reason = "", "", None
    calls: dict[int, list[str]] = {}
    for event in events:
        for choice in event.choices:
            text += choice.delta.content or ""
            thinking += getattr(choice.delta, "reasoning_content", None) or ""
            reason = choice.finish_reason or reason
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", "", ""])
                call[0] = part.id or call[0]
                call[1] = part.function.name or call[1]
                call[2] += part.function.arguments or ""
    made = [(id, name, json_text.whole(arguments) or "{}") for id, name, arguments in calls.values()]
    found = _OPENAI_STOPS[reason or ""]
    return _told(text, thinking, [] if found == "max-tokens" else made, found)


def same_calls(told: dict[str, Any]) -> dict[str, Any]:
    """What was told, with the arguments of calls as values: one object spells them anew."""
    return {**told, "calls": [(id, name, _value(arguments)) for id, name, arguments in told["calls"]]}


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def has_half_a_character(chunks: Sequence[Chunk]) -> bool:
    """Whether a tool call spells half a surrogate pair: JSON may, and the parser of one client takes it for an end."""
    told = [call[2] for call in same_calls(wanted(chunks))["calls"]]
    try:
        json.dumps(told, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
