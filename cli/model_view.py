"""What the model sees of a session at one point: the messages of its next request, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from playhead.cli import units
from playhead.cli.colour import paint
from playhead.cli.paragraphs import clip, clipped, split, wrap
from playhead.cli.transcript_markdown import fence, inline
from playhead.eventstore import members
from playhead.projections import message_text, provenance

if TYPE_CHECKING:
    from playhead.projections.surface import Surface

Sent = list[tuple[int, dict[str, Any]]]

_LINES = 8


def as_json(surface: Surface, sent: Sent) -> dict[str, Any]:
    """The messages as they are, each with the seq of its event, and how often the surface was rewritten."""
    return {
        "replaceGeneration": surface.generation,
        "messages": [{"seq": seq, "message": message} for seq, message in sent],
    }


def lines(sent: Sent, *, markdown: bool, full: bool, width: int | None) -> Iterator[str]:
    """The messages as Markdown, or as text of ``width``; without ``full`` long text is cut to a few lines."""
    for seq, message in sent:
        yield ""
        if markdown:
            yield f"## {inline(_name(message))} · seq {seq}"
            for _, text in _texts(message):
                yield from ("", *fence(text))
            continue
        yield paint(clipped(_name(message)), "bold") + paint(f" · seq {seq}", "dim")
        for style, text in _texts(message):
            found = split(text)
            shown = found if full else found[:_LINES]
            for line in shown:
                cut = line if full else clip(line, 500 if width is None else width * 4)
                for piece in wrap(cut, None if width is None else max(width - 2, 30)):
                    yield "  " + paint(piece, style) if piece else ""
            if len(shown) < len(found):
                more = (
                    f"… {units.count(len(found) - len(shown), 'more line')}, {len(text):,} characters in all"
                )
                yield "  " + paint(more, "dim")


def _name(message: dict[str, Any]) -> str:
    role = members.text(message, "role") or "role unknown"
    label = provenance.classify(message.get("source"), role).label
    return role if label == role else f"{role} · {label}"


def _texts(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Style and text of each block."""
    calls = iter(message_text.calls_of(message))
    for part in message_text.parts_of(message):
        match part.kind:
            case "text":
                yield "", part.text
            case "reasoning":
                yield "dim", part.text
            case "tool-call":
                id, name, arguments = next(calls)
                yield "cyan", f"call {name or '?'} ({id or 'no id'})\n{arguments}"
            case _ if part.text != "[tool-result]":
                yield "dim", part.text
    if any(block.get("type") == "tool-result" for block in members.objects(message, "content")):
        text, other = message_text.text_of(message)
        yield "", "\n".join((text, *other))
