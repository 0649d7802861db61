"""What a model call had streamed when it failed: the text and reasoning that a person saw come, and vanish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from playhead.eventstore import json_text, members

if TYPE_CHECKING:
    from playhead.projections.folding import Foldable
    from playhead.projections.transcript_items import Stream


def streamed_blocks(session: Foldable, stream: Stream | None) -> list[str]:
    """Text and reasoning of ``stream`` in the order in which they came, without what belongs to tool calls.

    Each block is one text. They are read from the events of its range alone. A character whose halves came apart is
    whole again.
    """
    if stream is None:
        return []
    blocks: list[list[str]] = []
    last: tuple[Any, Any] | None = None
    for piece in _pieces(session, stream):
        kind = members.text(piece, "type") or ""
        if not kind.startswith(("text-", "reasoning-")):
            continue
        block = (kind.partition("-")[0], piece.get("index"))
        if block != last:
            blocks.append([])
            last = block
        texts = piece.get("texts") if kind.endswith("-chunks") else [piece.get("text")]
        if isinstance(texts, list):
            blocks[-1] += [text for text in texts if isinstance(text, str)]
    return [json_text.whole("".join(block)) for block in blocks if any(block)]


def _pieces(session: Foldable, stream: Stream) -> Iterator[dict[str, Any]]:
    """Chunks, and rows of deltas, in either layout."""
    for event in session.events(stream.from_seq, stream.to_seq):
        data = members.of(event)
        if event.type == "assistant/chunk":
            yield members.inner(data, "chunk")
        elif event.type in ("assistant/attempt", "assistant/message"):
            for entry in members.objects(data, "stream"):
                yield members.inner(entry, "chunk") or entry
