"""Content blocks as text: what can be read, and in a few words what cannot.

Any value will do for content; what is no block is passed over. Texts of several blocks are joined with LF. A tool
result in a tool result is read 16 deep, which no program goes beyond.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playhead.eventstore import members
from playhead.projections.transcript_items import Part

_DEPTH = 16


def text_of(message: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The text of ``message.content``, and what else is in it."""
    parts = list(_read(message, _DEPTH))
    text = "\n".join(part.text for part in parts if part.kind == "text")
    return text, tuple(part.text for part in parts if part.kind != "text")


def parts_of(message: dict[str, Any]) -> tuple[Part, ...]:
    """The blocks of an answer, in order."""
    return tuple(_part(block) for block in members.objects(message, "content"))


def calls_of(message: dict[str, Any]) -> list[tuple[str | None, str | None, str]]:
    """Id, name and arguments of the tool calls in an answer, in order."""
    return [
        (members.text(block, "id"), members.text(block, "name"), members.text(block, "arguments") or "")
        for block in members.objects(message, "content")
        if block.get("type") == "tool-call"
    ]


def _read(holder: dict[str, Any], depth: int) -> Iterator[Part]:
    for block in members.objects(holder, "content"):
        if block.get("type") == "tool-result" and depth:
            yield from _read(block, depth - 1)
        else:
            yield _part(block)


def _part(block: dict[str, Any]) -> Part:
    kind = members.text(block, "type")
    match kind:
        case "text" | "reasoning":
            return Part(kind, members.text(block, "text") or "")
        case "tool-call":
            return Part(kind, members.text(block, "id") or "")
        case "image":
            return Part("other", _picture(members.inner(block, "attachment")))
        case "tool-addition" | "tool-removal":
            sign = "+" if kind == "tool-addition" else "-"
            return Part("other", f"{sign}{members.text(block, 'toolName') or '?'}")
    return Part("other", f"[{kind or 'block without a type'}]")


def _picture(attachment: dict[str, Any]) -> str:
    facts = [members.text(attachment, "name"), members.text(attachment, "mediaType")]
    width, height = members.number(attachment, "width"), members.number(attachment, "height")
    if width is not None and height is not None:
        facts.append(f"{width} x {height}")
    return f"[picture: {', '.join(filter(None, facts)) or 'unknown'}]"
