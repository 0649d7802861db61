"""A model that answers from a script, tools with gates, and what an agent did, as one ordered trace.

The vocabulary is that of the recorded delivery cases: ``{text}``, ``{tool}``, ``{max}`` and ``{chunks}`` answers, a
``gate`` before them, and ``then`` behind them (``hang``, or a failure that is thrown).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk, decode_chunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.messages import Message
from playhead.eventstore.request_header import Tool
from playhead.live.tool_box import ToolOutcome, unknown_tool

Json = dict[str, Any]


class Gates:
    """Named gates, closed until somebody releases them."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def release(self, name: str) -> None:
        self._of(name).set()

    async def passed(self, name: str | None, token: CancelToken | None = None) -> None:
        """Returns when the gate is open, or when ``token`` is cancelled."""
        if name is None:
            return
        waits = [asyncio.ensure_future(self._of(name).wait())]
        if token is not None:
            waits.append(asyncio.ensure_future(token.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _of(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


def chunks_of(answer: Json) -> list[Json]:
    """The chunks of one scripted answer."""
    start: Json = {"type": "block-start", "index": 0}
    if "chunks" in answer:
        return list(answer["chunks"])
    if "tool" in answer:
        call, name = answer["tool"]["id"], answer["tool"]["name"]
        arguments = answer["tool"].get("arguments", "{}")
        block = {"type": "tool-call", "id": call, "name": name, "arguments": arguments}
        return [
            start | {"blockType": "tool-call"},
            {"type": "tool-call-delta", "index": 0, "id": call, "name": name, "argumentsDelta": arguments},
            {"type": "block-end", "index": 0, "block": block},
            {"type": "usage", "usage": {"inputTokens": 11, "outputTokens": 3}},
            {"type": "finish", "reason": {"kind": "tool-calls"}},
        ]
    text = answer["max"] if "max" in answer else answer["text"]
    spoken: list[Json] = [
        {"type": "text-delta", "index": 0, "text": text},
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": text}},
    ]
    if "max" in answer:
        usage: Json = {"type": "usage", "usage": {"inputTokens": 5, "outputTokens": 99}}
        return [*spoken, usage, {"type": "finish", "reason": {"kind": "max-tokens"}}]
    usage = {"type": "usage", "usage": {"inputTokens": 10, "outputTokens": 2}}
    return [start | {"blockType": "text"}, *spoken, usage, {"type": "finish", "reason": {"kind": "stop"}}]


class ScriptedModel:
    """A chunk source. ``requests`` are those that it was sent."""

    def __init__(self, answers: Sequence[Json], gates: Gates | None = None) -> None:
        self._answers = list(answers)
        self._gates = gates or Gates()
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, token: CancelToken) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        if not self._answers:
            raise AdapterError(Failure(message="the script has no further answer", code="SCRIPT_EXHAUSTED"))
        answer = self._answers.pop(0)
        await self._gates.passed(answer.get("gate"), token)
        token.check()
        if "code" in answer:
            raise AdapterError(Failure.decode({"message": "m"} | answer))
        for chunk in chunks_of(answer):
            yield decode_chunk(chunk)
        match answer.get("then"):
            case "hang":
                await token.wait()
                token.check()
            case {"throw": failure}:
                raise AdapterError(Failure.decode(failure))


class GatedTools:
    """Tools by name that answer with ``ok`` once their gate is open."""

    def __init__(self, tools: Sequence[Json], gates: Gates) -> None:
        self._gate = {tool["name"]: tool.get("gate") for tool in tools}
        self._gates = gates
        self.tools: Sequence[Tool] = [
            Tool(name=tool["name"], description="", parameters={"type": "object"}) for tool in tools
        ]

    def is_exclusive(self, name: str) -> bool:  # noqa: ARG002 - the protocol's
        return False

    async def call(
        self,
        name: str,
        arguments: str,  # noqa: ARG002 - the protocol's
        call_id: str,  # noqa: ARG002
        token: CancelToken,
    ) -> ToolOutcome:
        if name not in self._gate:
            return unknown_tool(name)
        await self._gates.passed(self._gate[name])
        token.check()
        return ToolOutcome((TextBlock(text="ok"),))


def counting(prefix: str = "id") -> Callable[[], str]:
    """Gives ids in order."""
    number = 0

    def next_id() -> str:
        nonlocal number
        number += 1
        return f"{prefix}-{number}"

    return next_id


def ticking(start_ms: int = 1_000) -> Callable[[], int]:
    """A clock that goes one millisecond on whenever somebody looks."""
    now = start_ms

    def clock() -> int:
        nonlocal now
        now += 1
        return now

    return clock


def user(id: str, source: Json | None = None) -> Message:
    """A message whose text is its id."""
    content = [{"type": "text", "text": id}]
    return Message.decode(
        {"id": id, "role": "user", "content": content, "source": source or {"kind": "user"}}
    )


async def settled() -> None:
    """Returns when nothing is left to run on the loop but what waits for the world."""
    for _ in range(50):
        await asyncio.sleep(0)
