"""A talk between dsh and a model, as either dialect of dsh has it on the wire.

Three calls of tools at once, a failure with a wait, a broken connection, thinking, an answer whose body ends too early,
and one that hit its ceiling. What the tools say is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from scripted_server import RESET, Answer, Pause, Step
from wire import sent

from playhead.adapters.providers.dialects import dialect
from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, decode_chunk

PROMPTS: Final = ("Run three commands.", "Say something, and think first.", "Go on 😀.", "Write a lot.")
COMMANDS: Final = ("echo one", "printf 'zwei \\u2028 😀'", "exit 3")
ENDS: Final = ("completed", "completed", "error", "max-tokens")

Json = dict[str, Any]


def answers(name: str) -> list[Answer]:
    """What a provider that speaks the dialect ``name`` answers in this talk."""
    tools = [
        _block(index, "tool-call", id=f"call_{index}", name="bash", arguments=_arguments(command))
        for index, command in enumerate(COMMANDS)
    ]
    thought = _block(0, "reasoning", text="Let me see, \u2028 now.")
    said = _block(1, "text", text="Here it is: 漢字 😀.")
    long = _block(0, "text", text="This stops early beca")
    refused = {"error": {"type": "rate_limit_error", "message": "slow down"}}
    return [
        _streamed(name, *tools, end="tool-calls"),
        _streamed(name, _block(0, "text", text="All three are done.")),
        Answer.json(429, refused, retry_after="1"),
        _streamed(name, thought, said[:3], then=RESET),
        _streamed(name, thought, said),
        _streamed(name, thought, said[:3]),
        _streamed(name, long, end="max-tokens"),
    ]


def _arguments(command: str) -> str:
    return json_text.dumps({"description": "Run a command", "command": command}).decode()


def _block(index: int, kind: str, **members: str) -> list[Json]:
    """The chunks of a block: its text in pieces of five characters."""
    text = members["arguments" if kind == "tool-call" else "text"]
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    if kind == "tool-call":
        call = {"id": members["id"], "name": members["name"]}
        deltas = [
            {"type": "tool-call-delta", "index": index, **call, "argumentsDelta": piece} for piece in pieces
        ]
    else:
        deltas = [{"type": f"{kind}-delta", "index": index, "text": piece} for piece in pieces]
    return [
        {"type": "block-start", "index": index, "blockType": kind},
        *deltas,
        {"type": "block-end", "index": index, "block": {"type": kind, **members}},
    ]


def _streamed(
    name: str, *blocks: Sequence[Json], end: str | None = "stop", then: Step | None = None
) -> Answer:
    """An answer of these blocks, with a short wait behind each; a last one without its end is where the body ends."""
    whole = blocks[-1][-1]["type"] == "block-end"
    closing: list[Json] = [
        {"type": "usage", "usage": {"inputTokens": 20, "outputTokens": 8, "cacheReadTokens": 0}},
        {"type": "finish", "reason": {"kind": end}},
    ]
    chunks: list[Chunk] = [decode_chunk(chunk) for chunk in (*chain(*blocks), *(closing if whole else ()))]
    events = list(dialect(name).encode(chunks, model="deepseek-v4-flash", id="answer"))
    waits = {len(list(chain(*blocks[:count]))) for count in range(1, len(blocks))}
    steps: list[Step] = []
    for due, event in events:
        steps.append(sent([(due, event)]))
        if due in waits:
            waits.discard(due)
            steps.append(Pause(0.05))
    return Answer(steps=[*steps, *([Pause(0.05), then] if then is not None else [])])
