"""Hypothesis strategies for valid session logs, as plain event objects and as bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from playhead.eventstore import chunk_rows, envelope, json_text
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

HEADER = b'{"type":"session","version":0,"id":"s1","createdAt":1,"delegationDepth":0}\n'


def recorded(events: list[dict[str, Any]]) -> list[Recorded]:
    """The facts of event objects."""
    return [
        fact
        for event in events
        for fact in envelope.facts(json.dumps(event).encode("utf-8", "surrogatepass"), SessionId("s1"))
    ]


class _Writer:
    """Gives each event its seq and a time that may step back."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.events: list[dict[str, Any]] = []
        self.time = 1_780_000_000_000

    def add(self, type: str, data: dict[str, Any], **envelope: Any) -> int:
        seq = len(self.events)
        self.time += self.draw(st.integers(-3, 20))
        self.events.append({"type": type, "seq": seq, "time": self.time, "data": data, **envelope})
        return seq


_words = st.text(st.characters(exclude_categories=()), max_size=3)


@st.composite
def sessions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A whole session: turns with steps, streams, parallel tool calls and events between them."""
    log = _Writer(draw)
    for turn in range(1, draw(st.integers(0, 3)) + 1):
        if draw(st.booleans()):
            log.add("feedback/record", {"text": "fine"})
        log.add("turn/start", {"turn": turn})
        for step in range(1, draw(st.integers(0, 2)) + 1):
            _step(log, {"turn": turn, "step": step}, draw(st.integers(0, 3)))
        log.add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
    return log.events


def _step(log: _Writer, place: dict[str, Any], calls: int) -> None:
    draw = log.draw
    log.add("step/start", place)
    content = [{"type": "text", "text": "hi"}]
    prompt = {"id": f"u{len(log.events)}", "role": "user", "content": content, "source": {"kind": "user"}}
    log.add("user/message", prompt, surfaceOp="append")
    sources = []
    for text in draw(st.lists(_words, max_size=5)):
        chunk = {"type": "text-delta", "index": 0, "text": text}
        sources.append(log.add("assistant/chunk", {**place, "chunk": chunk}))
    ids = [f"c{at}" for at in range(calls)]
    message = {
        "id": f"a{len(log.events)}",
        "role": "assistant",
        "content": [{"type": "tool-call", "id": id, "name": "t", "arguments": "{}"} for id in ids],
        "source": {"kind": "model", "provider": "p", "model": "m"},
    }
    log.add("assistant/message", {**place, "message": message}, sourceEventSeqs=sources, surfaceOp="append")
    started = {
        id: log.add("tool/call", {**place, "callId": id, "name": "t", "arguments": "{}"})
        for id in draw(st.permutations(ids))
    }
    for id in draw(st.permutations(ids)):
        block = {"type": "tool-result", "toolCallId": id, "content": [], "isError": False}
        result = {
            "id": f"r{len(log.events)}",
            "role": "user",
            "content": [block],
            "source": {"kind": "tool", "callId": id},
        }
        data = {**place, "message": result}
        log.add("tool/result", data, sourceEventSeqs=[started[id]], surfaceOp="append")
    log.add("step/end", place)


def decoded(events: list[dict[str, Any]], *, packed: bool = False) -> bytes:
    """The log of a session as bytes, its token deltas in rows or one by one."""
    values = chunk_rows.pack(events) if packed else events
    return HEADER + b"".join(json_text.dumps(value) + b"\n" for value in values)
