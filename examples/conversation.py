"""A scripted conversation about pancakes, recorded through Playhead as an agent would record a real one.

In it: a prompt, a model call that breaks off and is retried, reasoning, streamed text, a tool call with its
result, a message that is queued and one that steers, a turn that the user stops, usage, titles. Nothing here
reads a clock or makes up an id: the same call gives the same session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from playhead import NewEvent, Recorded, Session

Json = dict[str, Any]
CWD = "/home/ada/kitchen"

_MODEL = {"provider": "example", "model": "example-1"}
_SYSTEM = "You help in the kitchen. Look before you answer, and be brief."
_TOOLS = [
    {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    }
]
_KINDS = {"reasoning": "reasoning-delta", "text": "text-delta"}


def play(session: Session, start_ms: int) -> list[list[Recorded]]:
    """Play the conversation into ``session``, which is empty; its events, in the batches that were kept together."""
    script = _Script(session, start_ms)
    question = script.queue("next-turn", "What do I still need for pancakes?")
    asked = script.begin_turn("next-turn", [question])
    script.add(
        "session/title",
        {"title": "What do I still need", "messageSeqs": asked, "source": {"kind": "fallback"}},
    )
    header = {"config": _MODEL, "system": _SYSTEM, "tools": _TOOLS}
    script.add("request/header", {"header": header, "reason": "initial"})
    script.add("request/context", {**_MODEL, "contextWindow": 65536})
    script.keep()

    first = script.call()
    first.block("reasoning", ["The user", " wants"], whole=False)
    first.fail("the connection broke", "TRANSPORT")
    script.keep()

    second = script.call()
    second.block("reasoning", ["The list", " will", " tell", " me", "."])
    later = script.queue("next-turn", "And then the recipe, please.")
    second.block("text", ["I", " look", " at", " your", " list", "."])
    arguments = '{"command": "cat list.txt"}'
    second.tool_call("call-1", "bash", [arguments[:9], arguments[9:20], arguments[20:]])
    second.finish("tool-calls", {"inputTokens": 212, "outputTokens": 31, "reasoningTokens": 5})
    called = script.add(
        "tool/call", {**script.place, "callId": "call-1", "name": "bash", "arguments": arguments}
    )
    script.keep()
    hint = script.queue("next-step", "We still have eggs 🥚")
    script.tool_result("call-1", "eggs\nflour\nmilk\n", called)
    script.end_step()

    script.begin_step("next-step", [hint])
    third = script.call()
    third.block("text", ["Flour", " and", " milk", ";", " the", " eggs", " are", " there", "."])
    third.finish("stop", {"inputTokens": 98, "outputTokens": 11, "cacheReadTokens": 192})
    script.end_step()
    script.end_turn({"kind": "completed"})

    script.begin_turn("next-turn", [later])
    fourth = script.call()
    fourth.block("text", ["Whisk", " 200", " g", " of", " flour"], whole=False)
    fourth.stop()
    script.end_step()
    script.end_turn({"kind": "aborted", "reason": {"kind": "user"}})
    script.add("session/title", {"title": "Pancakes", "messageSeqs": [], "source": {"kind": "user"}})
    script.keep()
    return script.kept


class _Script:
    """What has happened so far. Every event comes 20 ms after the one before it."""

    def __init__(self, session: Session, start_ms: int) -> None:
        self.kept: list[list[Recorded]] = []
        self.turn = 0
        self.step = 0
        self._session = session
        self._time_ms = start_ms
        self._waiting: list[NewEvent] = []
        self._ids = 0

    @property
    def place(self) -> Json:
        return {"turn": self.turn, "step": self.step}

    def id(self, kind: str) -> str:
        """An id that nothing else in the session has."""
        self._ids += 1
        return f"{kind}-{self._ids}"

    def add(self, type: str, data: Json, *, sources: list[int] | None = None, surface: bool = False) -> int:
        """Write an event down; its seq. It is kept with the others of its batch."""
        self._time_ms += 20
        self._waiting.append(NewEvent(type, data, self._time_ms, "append" if surface else None, sources))
        return self._session.next_seq + len(self._waiting) - 1

    def keep(self) -> None:
        """Append what is waiting, in one piece."""
        done = self._session.append(self._waiting, expected_seq=self._session.next_seq)
        self.kept.append(list(self._session.read(done.from_seq, done.to_seq)))
        self._waiting = []

    def queue(self, target: Literal["next-turn", "next-step"], text: str) -> Json:
        """A message from the user, put into a pending list that is empty."""
        content = [{"type": "text", "text": text}]
        message = {"content": content, "source": {"kind": "user"}, "role": "user", "id": self.id("message")}
        self.add("agent/inbox/spliced", {"target": target, "start": 0, "inserted": [message]})
        return message

    def begin_turn(self, target: str, messages: list[Json]) -> list[int]:
        """Open a turn with its first step; the seqs of the messages in it."""
        self.turn, self.step = self.turn + 1, 0
        self.add("turn/start", {"turn": self.turn})
        return self.begin_step(target, messages)

    def begin_step(self, target: str, messages: list[Json]) -> list[int]:
        """Claim the pending messages and put them before the model; their seqs."""
        claimed = {"target": target, "start": 0, "removedCount": len(messages), "inserted": []}
        self.add("agent/inbox/spliced", claimed)
        self.step += 1
        self.add("step/start", self.place)
        return [self.add("user/message", message, surface=True) for message in messages]

    def call(self) -> _Call:
        return _Call(self)

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


class _Call:
    """One call of the model: what it streams, and how it ends."""

    def __init__(self, script: _Script) -> None:
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

    def tool_call(self, call_id: str, name: str, pieces: Iterable[str]) -> None:
        index = self._start("tool-call")
        arguments = ""
        for piece in pieces:
            delta = {"type": "tool-call-delta", "index": index, "id": call_id, "name": name}
            self._chunk({**delta, "argumentsDelta": piece})
            arguments += piece
        self._end(index, {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}, True)

    def fail(self, message: str, code: str) -> None:
        """The call breaks off, and is to be made again after a wait."""
        failure = {"message": message, "code": code}
        self._chunk({"type": "finish", "reason": {"kind": "error", "failure": failure}})
        chain = {"retryId": self._script.id("retry"), **self._script.place}
        wait = {
            "provider": _MODEL["provider"],
            "mode": "normal",
            "policyKey": '["normal",5,["TRANSPORT"],500,10000,0.1]',
            "retry": 1,
            "maxRetries": 5,
            "delayMs": 512.5,
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
        source = {"kind": "model", **_MODEL}
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
