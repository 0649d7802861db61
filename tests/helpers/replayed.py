"""Recorded sessions served, and what a client of ours gets of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playhead.adapters.providers.client import Provider
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent, Session, Store
from playhead.web.endpoint import Endpoint, Settings
from playhead.web.recording import Recording
from playhead.web.server import serving

CREATED_MS = 1_780_000_000_000
TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}

LONG_S = 60.0
"""How long a client waits for an answer that goes on, or ends."""


@dataclass(frozen=True)
class Got:
    """What a client got: chunks, and the failure that was raised behind them."""

    chunks: list[Chunk]
    failure: Failure | None = None


Json = dict[str, Any]
STOP: Json = {"type": "finish", "reason": {"kind": "stop"}}


def text(*parts: str, index: int = 0) -> list[Json]:
    """The chunks of a block of text."""
    return [
        {"type": "block-start", "index": index, "blockType": "text"},
        *({"type": "text-delta", "index": index, "text": part} for part in parts),
        {"type": "block-end", "index": index, "block": {"type": "text", "text": "".join(parts)}},
    ]


def failed(code: str, message: str = "it failed", **more: Any) -> Json:
    """The finish of a failed call."""
    failure = {"message": message, "code": code, **more}
    return {"type": "finish", "reason": {"kind": "error", "failure": failure}}


def keep(
    store: Store,
    id: str,
    *calls: Sequence[Json],
    provider: str = "openai-chat",
    parent: str | None = None,
    created_ms: int = CREATED_MS,
    gap_ms: int = 10,
    ask: str = "Hi",
) -> Session:
    """A native session in ``store`` with these calls, each a turn of its own; a tool's result is not among them."""
    origin = None if parent is None else "subagent"
    header = SessionHeader(
        SessionId(id), created_ms, parent=None if parent is None else SessionId(parent), origin=origin
    )
    events: list[NewEvent] = []
    now = created_ms

    def add(type: str, data: Json, **more: Any) -> None:
        nonlocal now
        now += gap_ms
        events.append(NewEvent(type, data, time_ms=now, **more))

    for turn, chunks in enumerate(calls, 1):
        place = {"turn": turn, "step": 1}
        content = [{"type": "text", "text": f"{ask} {turn}"}]
        prompt = {"role": "user", "id": f"u{turn}", "source": {"kind": "user"}, "content": content}
        add("turn/start", {"turn": turn})
        if turn == 1:
            config = {"provider": provider, "model": "m-1"}
            header_of = {"config": config, "system": "Be brief.", "tools": [TOOL]}
            add("request/header", {"header": header_of, "reason": "initial"})
        add("step/start", place)
        add("user/message", prompt, surface_op="append")
        for chunk in chunks:
            add("assistant/chunk", {**place, "chunk": chunk})
        add("step/end", place)
        add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
    session = store.create(header)
    session.append(events)
    return session


@contextmanager
def endpoint(*sessions: Session, settings: Settings | None = None) -> Iterator[tuple[Endpoint, str]]:
    """An endpoint that serves ``sessions``, and its URL."""
    served = Endpoint([Recording.of(session) for session in sessions], settings)
    with serving(served) as server:
        yield served, server.url


def ask_one(url: str, dialect: ProviderDialect, request: ModelRequest, silence_s: float = LONG_S) -> Got:
    """What the provider client gets for one request, which gives up after ``silence_s`` without a byte."""
    return asyncio.run(ask(url, dialect, request, silence_s))


async def ask(url: str, dialect: ProviderDialect, request: ModelRequest, silence_s: float = LONG_S) -> Got:
    """``ask_one`` for a task."""
    got: list[Chunk] = []
    async with Provider(dialect, url, "sk-any-key", idle_timeout_s=silence_s) as provider:
        try:
            async for chunk in provider.stream(request, CancelToken()):
                got.append(chunk)
        except AdapterError as error:
            return Got(got, error.failure)
    return Got(got)
