"""A log file that a test writes event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import example_logs

PLACE = {"turn": 1, "step": 1}


class LogScript:
    """The lines of a log of format 0 in which turns have one step; ``write`` makes the file.

    Events are 10 ms apart from the epoch's second 1 on, unless a time is given.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [example_logs.header("told").line()]

    def add(self, type: str, data: Any, *, time: int | None = None, **envelope: Any) -> int:
        seq = len(self.lines) - 1
        event = {"type": type, "seq": seq, "time": 1000 + 10 * seq if time is None else time, "data": data}
        self.lines.append(json.dumps(event | envelope).encode())
        return seq

    def start(self, turn: int = 1) -> None:
        self.add("turn/start", {"turn": turn})
        self.add("step/start", {"turn": turn, "step": 1})

    def say(self, text: str) -> None:
        source = {"kind": "user"}
        content = [{"type": "text", "text": text}]
        self.add(
            "user/message",
            {"role": "user", "id": "u", "source": source, "content": content},
            surfaceOp="append",
        )

    def chunk(self, turn: int = 1, time: int | None = None, **chunk: Any) -> None:
        self.add("assistant/chunk", {"turn": turn, "step": 1, "chunk": chunk}, time=time)

    def text(self, text: str, turn: int = 1, time: int | None = None) -> None:
        self.chunk(turn, time, type="text-delta", index=0, text=text)

    def open(self, turn: int = 1, kind: str = "text") -> None:
        self.chunk(turn, type="block-start", index=0, blockType=kind)

    def finish(self, turn: int = 1, **reason: Any) -> None:
        self.chunk(turn, type="finish", reason=reason or {"kind": "stop"})

    def end(self, turn: int = 1, **reason: Any) -> None:
        self.add("step/end", {"turn": turn, "step": 1})
        self.add("turn/end", {"turn": turn, "reason": reason or {"kind": "completed"}})

    def write(self) -> Path:
        self.path.write_bytes(b"".join(line + b"\n" for line in self.lines))
        return self.path
