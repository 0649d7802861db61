"""Writes sessions down as an agent would record them: what a script says happens, event by event.

Nothing here reads a clock or makes up an id: the same script gives the same session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from playhead import NewEvent, Recorded, Session
from playhead.eventstore import repair

Json = dict[str, Any]
Target = Literal["next-turn", "next-step"]

MODEL = {"provider": "example", "model": "example-1"}
BASH = {
    "name": "bash",
    "description": "Run a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
"""A tool that every script may offer."""

_KINDS = {"reasoning": "reasoning-delta", "text": "text-delta"}
_USER = {"kind": "user"}


class Script:
    """What has happened so far. Every event comes ``tick_ms`` after the one before it; ``wait`` lets more time pass."""

    def __init__(self, session: Session, start_ms: int, tick_ms: int = 20, model: Json = MODEL) -> None:
        self.model = model
        self.kept: list[list[Recorded]] = []
        self.turn = 0
        self.step = 0
        self.lists: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._session = session
        self._time_ms = start_ms
        self._tick_ms = tick_ms
        self._waiting: list[NewEvent] = []
        self._ids = 0

    @property
    def place(self) -> Json:
        return {"turn": self.turn, "step": self.step}

    @property
    def time_ms(self) -> int:
        """When the last event came."""
        return self._time_ms

    def id(self, kind: str) -> str:
        """An id that nothing else in the session has."""
        self._ids += 1
        return f"{kind}-{self._ids}"

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self._time_ms += ms

    def add(self, type: str, data: Json, *, sources: list[int] | None = None, surface: bool = False) -> int:
        """Write an event down; its seq. It is kept with the others of its batch."""
        self._time_ms += self._tick_ms
        self._waiting.append(NewEvent(type, data, self._time_ms, "append" if surface else None, sources))
        return self._session.next_seq + len(self._waiting) - 1

    def keep(self) -> None:
        """Append what is waiting, in one piece."""
        done = self._session.append(self._waiting, expected_seq=self._session.next_seq)
        self.kept.append(list(self._session.read(done.from_seq, done.to_seq)))
        self._waiting = []

    def resume(self) -> None:
        """A process died; the next one closes what it left open, and marks where it takes over."""
        log = list(self._session.read())
        for event in repair.closers(log):
            self._waiting.append(
                NewEvent(event.type, event.json, event.time_ms, event.surface_op, event.source_seqs)
            )
        self.add("session/end-seed", {})
        self.keep()

    # The inbox

    def message(self, text: str, source: Json | None = None) -> Json:
        """A message that nobody has queued yet; from the user where no ``source`` is given."""
        content = [{"type": "text", "text": text}]
        return {
            "content": content,
            "source": source or _USER,
            "role": "user",
            "id": self.id("message"),
        }

    def queue(self, target: Target, text: str, source: Json | None = None) -> Json:
        """A message at the end of a pending list."""
        message = self.message(text, source)
        self._splice(target, len(self.lists[target]), 0, [message])
        return message

    def replace(self, message: Json, text: str) -> Json:
        """Another message in the place of one that waits."""
        target, at = self._find(message)
        new = self.message(text)
        self._splice(target, at, 1, [new], outcome="canceled")
        return new

    def cancel(self, message: Json) -> None:
        """Take back a message that waits."""
        target, at = self._find(message)
        self._splice(target, at, 1, [], outcome="canceled")

    def _find(self, message: Json) -> tuple[Target, int]:
        target: Target = "next-turn" if message["id"] in self.lists["next-turn"] else "next-step"
        return target, self.lists[target].index(message["id"])

    def _splice(self, target: Target, start: int, removed: int, inserted: list[Json], **more: Any) -> None:
        data: Json = {"target": target, "start": start}
        if removed:
            data["removedCount"] = removed
        self.add("agent/inbox/spliced", {**data, "inserted": inserted, **more})
        self.lists[target][start : start + removed] = [message["id"] for message in inserted]

    # Turns and steps

    def open_turn(self) -> None:
        """Open a turn without a step."""
        self.turn, self.step = self.turn + 1, 0
        self.add("turn/start", {"turn": self.turn})

    def begin_turn(self, target: Target, messages: list[Json]) -> list[int]:
        """Open a turn with its first step; the seqs of the messages in it."""
        self.open_turn()
        return self.begin_step(target, messages)

    def claim(self, target: Target, count: int) -> None:
        """Take the first messages of a list for what comes next."""
        self._splice(target, 0, count, [])

    def begin_step(self, target: Target, messages: list[Json], claimed: Iterable[Json] = ()) -> list[int]:
        """Claim the pending messages and put them before the model, behind those ``claimed`` before; their seqs."""
        if messages:
            self.claim(target, len(messages))
        self.step += 1
        self.add("step/start", self.place)
        return [self.add("user/message", message, surface=True) for message in (*claimed, *messages)]

    def header(self, system: str, tools: list[Json], reason: str = "initial") -> None:
        """The head of the next request; a ``system`` of "" is none."""
        header = {"config": self.model, **({"system": system} if system else {}), "tools": tools}
        self.add("request/header", {"header": header, "reason": reason})

    def title(self, title: str, cited: list[int] | None = None) -> None:
        """Name the session after the messages ``cited``; without them a person names it."""
        source = {"kind": "fallback" if cited else "user"}
        self.add("session/title", {"title": title, "messageSeqs": cited or [], "source": source})

    def call(self) -> Call:
        return Call(self)

    def tool_call(self, call_id: str, name: str, arguments: str) -> int:
        """The call begins to run; its seq."""
        return self.add("tool/call", {**self.place, "callId": call_id, "name": name, "arguments": arguments})

    def tool_result(self, call_id: str, text: str, called: int) -> None:
        content = [{"type": "text", "text": text}]
        block = {"type": "tool-result", "toolCallId": call_id, "content": content, "isError": False}
        source = {"kind": "tool", "callId": call_id}
        message = {"source": source, "content": [block], "role": "user", "id": self.id("message")}
        self.add("tool/result", {**self.place, "message": message}, sources=[called], surface=True)

    def end_step(self) -> None:
        self.add("step/end", self.place)
        self.keep()

    def end_turn(self, reason: Json) -> None:
        self.add("turn/end", {"turn": self.turn, "reason": reason})


class Call:
    """One call of the model: what it streams, and how it ends."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._chunks: list[int] = []
        self._blocks: list[Json] = []

    def block(self, kind: Literal["reasoning", "text"], pieces: Iterable[str], *, whole: bool = True) -> None:
        """Stream a block in ``pieces``; one that is not ``whole`` never gets its end."""
        index = self._start(kind)
        text = ""
        for piece in pieces:
            self._chunk({"type": _KINDS[kind], "index": index, "text": piece})
            text += piece
        self._end(index, {"type": kind, "text": text}, whole)

    def tool_call(self, call_id: str, name: str, pieces: Iterable[str], *, whole: bool = True) -> None:
        index = self._start("tool-call")
        arguments = ""
        for piece in pieces:
            delta = {"type": "tool-call-delta", "index": index, "id": call_id, "name": name}
            self._chunk({**delta, "argumentsDelta": piece})
            arguments += piece
        self._end(index, {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}, whole)

    def end_blocks(self) -> None:
        """End every block, as chat completions do when the answer is over; none of them has an end yet."""
        for index, block in enumerate(self._blocks):
            self._chunk({"type": "block-end", "index": index, "block": block})

    def fail(self, message: str, code: str, wait_ms: float = 512.5) -> None:
        """The call breaks off, and is to be made again after a wait."""
        failure = {"message": message, "code": code}
        self._chunk({"type": "finish", "reason": {"kind": "error", "failure": failure}})
        chain = {"retryId": self._script.id("retry"), **self._script.place}
        wait = {
            "provider": self._script.model["provider"],
            "mode": "normal",
            "policyKey": '["normal",5,["TRANSPORT"],500,10000,0.1]',
            "retry": 1,
            "maxRetries": 5,
            "delayMs": wait_ms,
            "failure": failure,
        }
        self._script.add("llm/retry", chain | wait)
        self._script.add("llm/retry-started", chain | {"retry": 1})

    def finish(self, reason: str, usage: Json) -> None:
        self._chunk({"type": "usage", "usage": usage})
        self._chunk({"type": "finish", "reason": {"kind": reason}})
        self._message({"usage": usage})

    def stop(self) -> None:
        """The user stops the call; what has come is kept."""
        self._message({"interrupted": True})

    def _message(self, more: Json) -> None:
        source = {"kind": "model", **self._script.model}
        message = {"role": "assistant", "content": self._blocks, "source": source}
        data = {**self._script.place, "message": message | {"id": self._script.id("message")}, **more}
        self._script.add("assistant/message", data, sources=self._chunks, surface=True)

    def _start(self, kind: str) -> int:
        index = len(self._blocks)
        self._chunk({"type": "block-start", "index": index, "blockType": kind})
        return index

    def _end(self, index: int, block: Json, whole: bool) -> None:
        if whole:
            self._chunk({"type": "block-end", "index": index, "block": block})
        self._blocks.append(block)

    def _chunk(self, chunk: Json) -> None:
        self._chunks.append(self._script.add("assistant/chunk", {**self._script.place, "chunk": chunk}))
