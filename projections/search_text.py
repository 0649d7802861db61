"""The text of an event that a search looks at.

========================== ==============================================================================
message of user, assistant its text blocks; name and arguments of tool calls; the content of tool results
``tool/call``              name, arguments
``tool/result``            content, name of the error, code of the error
``todo/write``             status and content of each entry
``turn/end``               ``error`` and its message, ``aborted``, ``max-tokens`` or ``interrupted``
anything else              nothing
========================== ==============================================================================

Reasoning, pictures and titles are not searched. Parts are trimmed, empty ones dropped, and joined with LF. An event
without text is no document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded
from playhead.projections.blanks import trim

TYPES = frozenset({"user/message", "assistant/message", "tool/call", "tool/result", "todo/write", "turn/end"})
"""The types of events that can have text."""

_DEPTH = 16
"""Tool results may lie in tool results, but not deeper than any program writes them."""


def of(event: Recorded) -> str:
    """The text of ``event``; "" where it has none. Data of any shape is read as far as it fits."""
    if event.type not in TYPES:
        return ""
    parts = map(trim, _parts(event.type, members.of(event)))
    return "\n".join(part for part in parts if part)


def _parts(type: str, data: dict[str, Any]) -> Iterator[str]:
    match type:
        case "user/message":
            yield from _content(data, _DEPTH)
        case "assistant/message":
            yield from _content(members.inner(data, "message"), _DEPTH)
        case "tool/call":
            yield from _texts(data, "name", "arguments")
        case "tool/result":
            yield from _content(members.inner(data, "message"), _DEPTH)
            yield from _texts(members.inner(data, "error"), "name", "code")
        case "todo/write":
            for todo in members.objects(data, "todos"):
                yield from _texts(todo, "status", "content")
        case "turn/end":
            yield from _ending(members.inner(data, "reason"))


def _ending(reason: dict[str, Any]) -> Iterator[str]:
    kind = members.text(reason, "kind")
    if kind in ("aborted", "max-tokens", "interrupted"):
        yield kind
    elif kind == "error":
        yield kind
        yield from _texts(members.inner(reason, "error"), "message")


def _content(holder: dict[str, Any], depth: int) -> Iterator[str]:
    for block in members.objects(holder, "content"):
        match block.get("type"):
            case "text":
                yield from _texts(block, "text")
            case "tool-call":
                yield from _texts(block, "name", "arguments")
            case "tool-result" if depth:
                yield from _content(block, depth - 1)


def _texts(holder: dict[str, Any], *keys: str) -> Iterator[str]:
    for key in keys:
        value = members.text(holder, key)
        if value is not None:
            yield value
