"""Hypothesis strategies for whole answers of a model, as the Messages format gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from playhead.adapters.providers.messages import MessagesDialect
from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, decode_chunk

pieces = st.text(st.sampled_from('aZ \n"\\{é\u2028\U0001f600\ud83d\ude00'), min_size=1, max_size=4).map(
    json_text.whole
)
"""Text as it is streamed, halves of characters among it; never empty."""

_names = st.text("abc_-", min_size=1, max_size=5)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_arguments = st.dictionaries(st.text(max_size=3), _json, max_size=3).map(
    lambda value: json_text.dumps(value).decode()
)
_counts = st.integers(0, 2**40)


def _block(draw: st.DrawFn, kind: str, number: int, dialect: MessagesDialect) -> list[list[dict[str, Any]]]:
    """The chunks of one block, without indexes, in groups that come at once."""
    if kind == "tool-call":
        call, name, arguments = f"c{number}", draw(_names), draw(_arguments)
        ends = sorted(draw(st.sets(st.integers(1, max(len(arguments) - 1, 1)), max_size=3)))
        fragments = [arguments[a:b] for a, b in zip([0, *ends], [*ends, len(arguments)], strict=True)]
        if arguments == "{}" and draw(st.booleans()):
            fragments = []
        again = {"name": name} if dialect.profile.repeats_name else {}
        block = {"type": kind, "id": call, "name": name, "arguments": arguments}
        return [
            [
                {"type": "block-start", "blockType": kind},
                {"type": "tool-call-delta", "id": call, "name": name, "argumentsDelta": ""},
            ],
            *(
                [{"type": "tool-call-delta", "id": call, **again, "argumentsDelta": part}]
                for part in fragments
                if part
            ),
            [{"type": "block-end", "block": block}],
        ]
    texts = draw(st.lists(pieces, max_size=4))
    if dialect.profile.keeps_empty and draw(st.booleans()):
        texts.append("")
    return [
        [{"type": "block-start", "blockType": kind}],
        *([{"type": f"{kind}-delta", "text": text}] for text in texts),
        [{"type": "block-end", "block": {"type": kind, "text": json_text.whole("".join(texts))}}],
    ]


def _interleaved(draw: st.DrawFn, blocks: Sequence[list[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """The chunks of all blocks, each block in order, with indexes in the order of the starts."""
    waiting = [(index, list(groups)) for index, groups in enumerate(blocks)]
    opened: list[tuple[int, list[list[dict[str, Any]]]]] = []
    row = []
    while waiting or opened:
        begins = bool(waiting) and (not opened or draw(st.integers(0, 3)) == 0)
        if begins:
            opened.append(waiting.pop(0))
        index, groups = opened[-1 if begins else draw(st.integers(0, len(opened) - 1))]
        row += [{**chunk, "index": index} for chunk in groups.pop(0)]
        opened = [(index, rest) for index, rest in opened if rest]
    return row


@st.composite
def messages_answers(draw: st.DrawFn, dialect: MessagesDialect, *, interleaved: bool = True) -> list[Chunk]:
    """A whole answer that ended well, as ``dialect`` records one. Blocks may be open at the same time."""
    profile = dialect.profile
    kinds = draw(st.lists(st.sampled_from(("text", "reasoning", "tool-call")), min_size=1, max_size=4))
    blocks = [_block(draw, kind, number, dialect) for number, kind in enumerate(kinds)]
    alone = [
        {**chunk, "index": at} for at, groups in enumerate(blocks) for group in groups for chunk in group
    ]
    chunks = _interleaved(draw, blocks) if interleaved else alone
    usage = {"inputTokens": draw(_counts), "outputTokens": draw(_counts)}
    for member in ("cacheReadTokens", "cacheWriteTokens"):
        if draw(st.booleans()):
            usage[member] = draw(_counts)
    if profile.has_totals:
        usage["totalTokens"] = sum(usage.values())
    wire_reason = draw(st.sampled_from(sorted(profile.stop_reasons)))
    if profile.types_entries and wire_reason == "stop_sequence":
        wire_reason = "end_turn"
    entries: list[dict[str, Any]] = [{"type": kind} if profile.types_entries else {} for kind in kinds]
    for entry, kind in zip(entries, kinds, strict=True):
        if kind == "reasoning" and draw(st.booleans()):
            entry["signature"] = draw(st.text("AB=", min_size=1, max_size=4))
    response: dict[str, Any] = {"kind": profile.kind, "version": 1, "model": draw(_names)}
    if not profile.types_entries:
        response |= {"id": draw(_names), "stopReason": wire_reason}
    finish = {
        "type": "finish",
        "reason": profile.stop_reasons[wire_reason].to_json(),
        "replayState": {"response": response, "blocks": entries},
    }
    return [decode_chunk(chunk) for chunk in [*chunks, {"type": "usage", "usage": usage}, finish]]
