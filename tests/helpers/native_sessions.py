"""Hypothesis strategies for native sessions: all that a writer of later formats has to carry over.

Every event has a time of its own, so that a time names an event whatever its seq has become.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from playhead.eventstore import envelope, json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

Json = dict[str, Any]
CREATED_MS = 1_780_000_000_000
_texts = st.text(st.characters(exclude_categories=()), max_size=3)


def recorded(events: list[Json]) -> list[Recorded]:
    """The facts of event objects."""
    return [fact for event in events for fact in envelope.facts(json_text.dumps(event), SessionId("s1"))]


@dataclass
class Native:
    """A native session: its header, its events, and how they are cut into batches."""

    header: SessionHeader
    events: list[Recorded]
    batches: list[list[Recorded]]


@dataclass
class _Log:
    draw: st.DrawFn
    events: list[Json] = field(default_factory=list)
    on_surface: list[int] = field(default_factory=list)

    def add(self, type: str, data: Any, **envelope: Any) -> int:
        seq = len(self.events)
        time = CREATED_MS + 7 * seq
        self.events.append({"type": type, "seq": seq, "time": time, "data": data, **envelope})
        if envelope.get("surfaceOp") == "append":
            self.on_surface.append(seq)
        return seq

    def message(self, kind: str = "user") -> Json:
        source = {"kind": kind} if kind == "user" else {"kind": "plugin", "plugin": kind, "form": "notice"}
        content = [{"type": "text", "text": "x"}]
        return {"content": content, "source": source, "role": "user", "id": f"m{len(self.events)}"}


@st.composite
def natives(draw: st.DrawFn) -> Native:
    """A session with failed attempts, other events inside streams, replacements, and an inherited part."""
    log = _Log(draw)
    seed_length = None
    for turn in range(1, draw(st.integers(0, 3)) + 1):
        log.add("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [log.message()]})
        log.add("turn/start", {"turn": turn})
        for step in range(1, draw(st.integers(0, 2)) + 1):
            _step(log, {"turn": turn, "step": step})
        log.add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        if seed_length is None and draw(st.booleans()):
            seed_length = len(log.events)
            if draw(st.booleans()):
                log.add("session/end-seed", {})
    events = recorded(log.events)
    cuts = sorted(draw(st.sets(st.integers(0, len(events)), max_size=6)) | {0, len(events)})
    batches = [events[start:end] for start, end in pairwise(cuts)]
    parent = None if seed_length is None else SessionId("p1")
    header = SessionHeader(SessionId("s1"), CREATED_MS, cwd="/w", parent=parent, seed_length=seed_length)
    return Native(header, events, batches)


def _step(log: _Log, place: Json) -> None:
    draw = log.draw
    log.add("step/start", place)
    prompt = log.add("user/message", log.message(), surfaceOp="append")
    log.add("session/title", {"title": "x", "messageSeqs": [prompt], "source": {"kind": "fallback"}})
    config = {"provider": "p", "model": "m"}
    system = draw(st.sampled_from([{}, {"system": "Be brief."}, {"system": "Be kind."}]))
    log.add("request/header", {"header": {"config": config, **system}, "reason": "change"})
    for retry in range(1, draw(st.integers(0, 2)) + 1):
        _stream(log, place, {"kind": "error", "failure": {"message": "m", "code": "TRANSPORT"}})
        if draw(st.booleans()):
            log.add("llm/retry", {"retryId": "r", **place, "retry": retry})
    if not draw(st.booleans()):
        _stream(log, place, None)  # cancelled before anything was kept
        log.add("step/end", place)
        return
    sources = _stream(log, place, {"kind": "stop"})
    message = {
        "id": f"a{len(log.events)}",
        "role": "assistant",
        "content": [{"type": "tool-call", "id": "c", "name": "t", "arguments": "{}"}],
        "source": {"kind": "model", "provider": "p", "model": "m"},
    }
    usage = {"inputTokens": 3, "outputTokens": 2, "cacheReadTokens": 1}
    data = {**place, "message": message, "usage": usage}
    log.add("assistant/message", data, sourceEventSeqs=sources, surfaceOp="append")
    called = log.add("tool/call", {**place, "callId": "c", "name": "t", "arguments": "{}"})
    block = {"type": "tool-result", "toolCallId": "c", "content": [], "isError": False}
    source = {"kind": "tool", "callId": "c"}
    result = {"id": f"r{called}", "role": "user", "content": [block], "source": source}
    returned = log.add(
        "tool/result", {**place, "message": result}, sourceEventSeqs=[called], surfaceOp="append"
    )
    log.add("tool/code-dispatch", {"rootCallId": "c"})
    if draw(st.booleans()):
        _prune(log, {**place, "message": result}, returned)
    if draw(st.booleans()):
        _summarise(log)
    log.add("step/end", place)


def _stream(log: _Log, place: Json, reason: Json | None) -> list[int]:
    """Chunks of one attempt, now and then with another event between them; their seqs."""
    seqs = []
    deltas = log.draw(
        st.lists(
            st.one_of(
                st.builds(lambda text: {"type": "text-delta", "index": 0, "text": text}, _texts),
                st.builds(lambda text: {"type": "reasoning-delta", "index": 1, "text": text}, _texts),
                st.builds(
                    lambda name: {
                        "type": "tool-call-delta",
                        "index": 2,
                        "id": "c",
                        **name,
                        "argumentsDelta": "{",
                    },
                    st.sampled_from([{}, {"name": "t"}]),
                ),
                st.just({"type": "block-start", "index": 0, "blockType": "text"}),
                st.just({"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 2}}),
                st.none(),
            ),
            max_size=7,
        )
    )
    for delta in deltas:
        if delta is None:
            inserted = [log.message("tool-jobs")]
            log.add("agent/inbox/spliced", {"target": "next-step", "start": 0, "inserted": inserted})
        else:
            seqs.append(log.add("assistant/chunk", {**place, "chunk": delta}))
    if reason is not None:
        seqs.append(log.add("assistant/chunk", {**place, "chunk": {"type": "finish", "reason": reason}}))
    return seqs


def _prune(log: _Log, result: Json, seq: int) -> None:
    """Replace a tool result by a shorter one."""
    shadowed = {"shadowedRange": {"start": seq, "end": seq}, "shadowedSeqs": [seq], "shadowedTokenCount": 9}
    log.add("compaction/prune", shadowed)
    op = {"op": "replace", "start": seq, "end": seq}
    log.on_surface[log.on_surface.index(seq)] = log.add(
        "tool/result", result, sourceEventSeqs=[seq], surfaceOp=op
    )


def _summarise(log: _Log) -> None:
    """Replace all of the surface by a summary."""
    shadowed = log.on_surface[:]
    op = {"op": "replace", "start": shadowed[0], "end": shadowed[-1]}
    log.on_surface[:] = [
        log.add("user/message", log.message("compact"), sourceEventSeqs=sorted(shadowed), surfaceOp=op)
    ]
