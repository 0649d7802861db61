"""A seeded corpus of session logs for measurements, in three layouts.

``live``: format 0, one line a chunk. ``packed``: format 0, runs of three or more deltas of one 200 ms window
in one chunk row. ``embedded``: format 4, the stream inside its ``assistant/message``. One seed and one number
of events give the same sessions in each: about 85 % token deltas of 3 to 8 characters, lognormal lengths,
messages that repeat the streamed text, tools that show parts of the same few files.

The files lie in a folder of the system's temporary folder, named by the parameters, and are made once.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prose import Prose, pieces

LAYOUTS = ("live", "packed", "embedded")
_REVISION = 1
"""Raised when the generator changes, so that no older files are taken for its own."""

_MEAN_SESSION = 5_800
_SIGMA = 1.0
_WINDOW_MS = 200
_PACKED = {
    "text-delta": ("text-chunks", "text", "texts"),
    "reasoning-delta": ("reasoning-chunks", "text", "texts"),
    "tool-call-delta": ("tool-call-chunks", "argumentsDelta", "args"),
}
"""Kind of delta: tag of its chunk rows, its payload, and that of the row."""

Chunk = tuple[int, dict[str, Any]]
"""When a chunk came (epoch ms), and the chunk."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of one layout. ``events`` counts logical events, chunks inside messages among them."""

    layout: str
    folder: Path
    files: tuple[Path, ...]
    events: int
    deltas: int
    size_bytes: int


def corpus(events: int, layout: str, seed: int = 1, base: Path | None = None) -> Corpus:
    """The corpus of these parameters, made now if it is not there yet."""
    base = base or Path(tempfile.gettempdir()) / "playhead-benchmarks"
    folder = base / f"{layout}-{events}-{seed}-r{_REVISION}"
    if not folder.is_dir():
        draft = base / f"{folder.name}.{os.getpid()}.tmp"
        draft.mkdir(parents=True)
        _generate(draft, events, layout, seed)
        try:
            draft.rename(folder)
        except OSError:
            shutil.rmtree(draft)
    counts = json.loads((folder / "counts.json").read_text())
    files = tuple(sorted(folder.glob("*.jsonl")))
    return Corpus(
        layout, folder, files, counts["events"], counts["deltas"], sum(f.stat().st_size for f in files)
    )


def one_session(events: int, layout: str, seed: int = 1, base: Path | None = None) -> Path:
    """One log of at least so many events, chunks inside messages among them, made now if it is not there yet."""
    base = base or Path(tempfile.gettempdir()) / "playhead-benchmarks"
    path = base / f"one-{layout}-{events}-{seed}-r{_REVISION}.jsonl"
    if not path.is_file():
        base.mkdir(parents=True, exist_ok=True)
        rng = random.Random(seed)
        session = _Session(rng, Prose(rng), layout, events)
        draft = base / f"{path.name}.{os.getpid()}.tmp"
        draft.write_bytes(b"".join(session.lines))
        draft.rename(path)
    return path


def _generate(folder: Path, events: int, layout: str, seed: int) -> None:
    rng = random.Random(seed)
    prose = Prose(rng)
    made = deltas = number = 0
    while made < events:
        wanted = rng.lognormvariate(math.log(_MEAN_SESSION) - _SIGMA**2 / 2, _SIGMA)
        session = _Session(rng, prose, layout, max(40, min(int(wanted), events - made)))
        (folder / f"{number:05}.jsonl").write_bytes(b"".join(session.lines))
        made += session.events
        deltas += session.deltas
        number += 1
    (folder / "counts.json").write_text(json.dumps({"events": made, "deltas": deltas}))


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class _Session:
    """One session, written turn by turn until it has the number of events wanted."""

    def __init__(self, rng: random.Random, prose: Prose, layout: str, wanted: int) -> None:
        self.rng = rng
        self.prose = prose
        self.layout = layout
        self.time_ms = 1_790_000_000_000 + rng.randrange(10**9)
        self.lines: list[bytes] = [_line(self._header())]
        self.sources = [prose.code(rng.randint(20, 120)) for _ in range(rng.randint(2, 12))]
        self.seq = self.events = self.deltas = self.calls = 0
        turn = 0
        while self.events < wanted:
            turn += 1
            self._turn(turn)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def _header(self) -> dict[str, Any]:
        header = {
            "type": "session",
            "version": 0,
            "id": self._uuid(),
            "createdAt": self.time_ms,
            "cwd": "/home/dev/project",
        }
        if self.layout == "embedded":
            header |= {"version": 4, "isSeeded": False}
        return header | {"delegationDepth": 0}

    def _event(self, type: str, data: Any, **tail: Any) -> int:
        seq = self.seq
        self.lines.append(_line({"type": type, "seq": seq, "time": self.time_ms, "data": data, **tail}))
        self.seq += 1
        self.events += 1
        return seq

    def _wait(self, most_ms: int) -> None:
        self.time_ms += self.rng.randint(0, most_ms)

    def _turn(self, turn: int) -> None:
        message = {
            "content": [{"type": "text", "text": self.prose.text(self.rng.randint(20, 600))}],
            "source": {"kind": "user"},
            "role": "user",
            "id": self._uuid(),
        }
        splice = {"target": "next-turn", "start": 0}
        self._event("agent/inbox/spliced", {**splice, "inserted": [message]})
        self._wait(3)
        self._event("turn/start", {"turn": turn})
        self._event("agent/inbox/spliced", {**splice, "removedCount": 1, "inserted": []})
        steps = self.rng.randint(1, 6)
        for step in range(1, steps + 1):
            self._event("step/start", {"turn": turn, "step": step})
            if step == 1:
                asked = self._event("user/message", message, surfaceOp="append")
                if turn == 1:
                    self._opening(asked)
            self._step(turn, step, last=step == steps)
            self._event("step/end", {"turn": turn, "step": step})
            self._wait(8)
        self._event("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        self.time_ms += int(self.rng.lognormvariate(10, 1))

    def _opening(self, asked: int) -> None:
        config = {"provider": "deepseek-official", "model": "deepseek-v4-flash", "maxTokens": 256000}
        tools = [
            {
                "name": name,
                "description": self.prose.text(400),
                "parameters": {"type": "object", "properties": {}},
            }
            for name in ("bash", "read", "write", "grep")
        ]
        header = {"config": config, "system": self.prose.text(3000), "tools": tools}
        if self.layout == "embedded":
            del header["system"]
        title = {"title": self.prose.title(), "messageSeqs": [asked], "source": {"kind": "fallback"}}
        self._event("session/title", title)
        self._event("request/header", {"header": header, "reason": "initial"})
        context = {"provider": config["provider"], "model": config["model"], "contextWindow": 1_000_000}
        self._event("request/context", context)

    def _step(self, turn: int, step: int, *, last: bool) -> None:
        rng = self.rng
        blocks: list[dict[str, Any]] = []
        if rng.random() < 0.6:
            blocks.append({"type": "reasoning", "text": self.prose.text(self._length(4.7))})
        blocks.append({"type": "text", "text": self.prose.text(self._length(4.8))})
        for _ in range(0 if last else rng.randint(1, 2)):
            self.calls += 1
            arguments = {"description": self.prose.title(), "path": self.prose.path()}
            if rng.random() < 0.15:
                arguments["content"] = self._excerpt(300)
            blocks.append(
                {
                    "type": "tool-call",
                    "id": f"call_{self.calls:02}_{rng.getrandbits(60):012x}",
                    "name": rng.choice(("bash", "read", "write", "grep")),
                    "arguments": json.dumps(arguments, ensure_ascii=False),
                }
            )
        written = sum(len(block.get("text") or block["arguments"]) for block in blocks)
        usage = {
            "inputTokens": rng.randint(40, 900),
            "outputTokens": written // 4,
            "cacheReadTokens": 64 * (self.seq // 64),
        }
        chunks = list(self._chunks(blocks))
        finish = {"kind": "stop" if last else "tool-calls"}
        chunks += [
            (self.time_ms, {"type": "usage", "usage": usage}),
            (self.time_ms, {"type": "finish", "reason": finish}),
        ]
        tail = self._stream(turn, step, chunks)
        self._wait(3)
        source = {"kind": "model", "provider": "deepseek-official", "model": "deepseek-v4-flash"}
        message = {"role": "assistant", "content": blocks, "source": source, "id": self._uuid()}
        data: dict[str, Any] = {"turn": turn, "step": step, "message": message, "usage": usage}
        if self.layout == "embedded":
            data["stream"] = tail
            self._event("assistant/message", data, surfaceOp="append")
        else:
            self._event("assistant/message", data, sourceEventSeqs=tail, surfaceOp="append")
        for block in blocks:
            if block["type"] == "tool-call":
                self._tool(turn, step, block)

    def _excerpt(self, characters: int) -> str:
        """A part of one of the few files that this session is about; the same parts come up again."""
        text = self.rng.choice(self.sources)
        start = 100 * self.rng.randrange(max(1, len(text) // 200))
        return text[start : start + self._length(math.log(characters))]

    def _length(self, mu: float) -> int:
        return max(8, min(int(self.rng.lognormvariate(mu, 0.8)), 12_000))

    def _chunks(self, blocks: list[dict[str, Any]]) -> Iterator[Chunk]:
        self._wait(900)
        for index, block in enumerate(blocks):
            kind = block["type"]
            yield self.time_ms, {"type": "block-start", "index": index, "blockType": kind}
            named = {"name": block["name"]} if kind == "tool-call" else {}
            for piece in pieces(block.get("text") or block["arguments"]):
                self._gap()
                if kind == "tool-call":
                    delta = {"index": index, "id": block["id"], **named, "argumentsDelta": piece}
                    yield self.time_ms, {"type": "tool-call-delta", **delta}
                else:
                    yield self.time_ms, {"type": f"{kind}-delta", "index": index, "text": piece}
            yield self.time_ms, {"type": "block-end", "index": index, "block": block}

    def _gap(self) -> None:
        """Deltas come in bursts of a network packet, about 25 ms apart, with a stall now and then."""
        kind = self.rng.random()
        if kind < 0.55:
            self.time_ms += kind > 0.45
        elif kind < 0.998:
            self.time_ms += self.rng.choice((23, 24, 25, 25, 25, 26, 26, 27))
        else:
            self.time_ms += self.rng.randint(100, 3000)

    def _tool(self, turn: int, step: int, block: dict[str, Any]) -> None:
        call = {"turn": turn, "step": step, "callId": block["id"], "name": block["name"]}
        called = self._event("tool/call", {**call, "arguments": block["arguments"]})
        self._wait(400)
        output = [{"type": "text", "text": self._excerpt(500)}]
        source = {"kind": "tool", "callId": block["id"]}
        if self.layout == "embedded":
            result = {"toolCallId": block["id"], "content": output, "isError": False}
            message = {"role": "tool", "source": source, **result, "id": self._uuid()}
        else:
            result = {"type": "tool-result", "toolCallId": block["id"], "content": output, "isError": False}
            message = {"source": source, "content": [result], "role": "user", "id": self._uuid()}
        data = {"turn": turn, "step": step, "message": message}
        self._event("tool/result", data, sourceEventSeqs=[called], surfaceOp="append")

    def _stream(self, turn: int, step: int, chunks: list[Chunk]) -> list[Any]:
        """Write the chunks in the layout; returns their seqs, or the entries that go into the message."""
        self.deltas += sum(chunk["type"] in _PACKED for _, chunk in chunks)
        self.events += len(chunks)
        if self.layout == "embedded":
            return [_entry(run) for run in _runs(chunks, None)]
        first = self.seq
        own = {"turn": turn, "step": step}
        for run in _runs(chunks, _WINDOW_MS):
            if self.layout == "packed" and len(run) >= 3:
                tag, time0, members = _packed(run)
                row = {"type": tag, "seq0": self.seq, "time0": time0, "data": {**own, **members}}
                self.lines.append(_line(row))
            else:
                for at, (time_ms, chunk) in enumerate(run):
                    data = {**own, "chunk": chunk}
                    event = {"type": "assistant/chunk", "seq": self.seq + at, "time": time_ms, "data": data}
                    self.lines.append(_line(event))
            self.seq += len(run)
        return list(range(first, self.seq))


def _runs(chunks: list[Chunk], window_ms: int | None) -> Iterator[list[Chunk]]:
    """The chunks cut into runs of deltas that share a row, everything else alone."""
    run: list[Chunk] = []
    for time_ms, chunk in chunks:
        if run:
            first_ms, first = run[0]
            same = chunk["type"] in _PACKED and all(
                first.get(key) == chunk.get(key) for key in ("type", "index", "id", "name")
            )
            if not same or (window_ms is not None and time_ms - first_ms > window_ms):
                yield run
                run = []
        run.append((time_ms, chunk))
    if run:
        yield run


def _entry(run: list[Chunk]) -> dict[str, Any]:
    """The run as an entry of an embedded stream."""
    time_ms, chunk = run[0]
    if chunk["type"] not in _PACKED:
        return {"type": "chunk", "time": time_ms, "chunk": chunk}
    tag, time0, members = _packed(run)
    return {"type": tag, "time0": time0, **members}


def _packed(run: list[Chunk]) -> tuple[str, int, dict[str, Any]]:
    """The tag, the first time and the members of a chunk row, without turn and step."""
    time0, first = run[0]
    tag, source, target = _PACKED[first["type"]]
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(run)]
    called: dict[str, Any] = {key: first[key] for key in ("id", "name") if key in first}
    payload = {target: [chunk[source] for _, chunk in run]}
    return tag, time0, {"index": first["index"], "dt": gaps, **called, **payload}
