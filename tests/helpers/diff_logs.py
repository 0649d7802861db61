"""Short sessions to be compared, and what a comparison says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from session_logs import recorded
from twins import Log

from playhead.eventstore.header import SessionHeader
from playhead.replay.diff import Pair

Json = dict[str, Any]


def log(*events: tuple[str, Any], header: SessionHeader | None = None, **envelope: Any) -> Log:
    lines = [
        {"type": type, "seq": seq, "time": 7 * seq, "data": data, **envelope}
        for seq, (type, data) in enumerate(events)
    ]
    return Log.of(recorded(lines), header)


def message(text: str, id: str = "m1", kind: str = "user") -> Json:
    return {"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": kind}}


def step(turn: int, number: int, *inside: tuple[str, Any]) -> list[tuple[str, Any]]:
    place = {"turn": turn, "step": number}
    return [("step/start", place), *inside, ("step/end", place)]


def turn(number: int, *inside: tuple[str, Any]) -> list[tuple[str, Any]]:
    end = {"turn": number, "reason": {"kind": "completed"}}
    return [("turn/start", {"turn": number}), *inside, ("turn/end", end)]


def told(found: Iterator[Pair]) -> list[tuple[Any, ...]]:
    """What differs, in short: kind, type, and path and kind of each change."""
    return [
        (pair.kind, pair.entry.type, *((change.path, change.kind) for change in pair.changes))
        for pair in found
        if pair.kind != "same"
    ]
