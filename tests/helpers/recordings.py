"""Calls through a recorder, with and without a proxy in front of it: what clients ask and providers answer in tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripted_server import Answer

import playhead
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import dialect
from playhead.adapters.providers.sse import encode_event
from playhead.adapters.providers.upstream import Upstream
from playhead.eventstore import invariants, json_text
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import Chunk, decode_chunk
from playhead.eventstore.exchange import ExchangeEnd
from playhead.eventstore.request_header import CallConfig
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.store import SqlStore
from playhead.projections import surface as surfaces
from playhead.replay.verify import discrepancies
from playhead.web.proxy import Proxy
from playhead.web.recorder import Recorder, Tape
from playhead.web.recorder_call import Rules
from playhead.web.server import serving

DIALECTS = ["openai-chat", "deepseek-chat", "anthropic-messages", "deepseek-messages"]
KEY = "sk-test-0123456789abcdefghij"
STREAM = [("content-type", "text/event-stream")]
JSON = [("content-type", "application/json")]

Call = tuple[str, str, str]
"""Id, name and arguments of a tool call."""


def chunks_of(text: str = "", *calls: Call) -> list[Chunk]:
    """A whole answer that says ``text`` one word at a time, and calls tools."""
    row: list[dict[str, Any]] = []
    if text:
        row.append({"type": "block-start", "index": 0, "blockType": "text"})
        row += [
            {"type": "text-delta", "index": 0, "text": word} for word in text.replace(" ", " \0").split("\0")
        ]
        row.append({"type": "block-end", "index": 0, "block": {"type": "text", "text": text}})
    for index, (call, name, arguments) in enumerate(calls, 1 if text else 0):
        said = {"id": call, "name": name}
        row += [
            {"type": "block-start", "index": index, "blockType": "tool-call"},
            {"type": "tool-call-delta", "index": index, **said, "argumentsDelta": arguments},
            {
                "type": "block-end",
                "index": index,
                "block": {"type": "tool-call", **said, "arguments": arguments},
            },
        ]
    row.append({"type": "usage", "usage": {"inputTokens": 5, "outputTokens": 7}})
    row.append({"type": "finish", "reason": {"kind": "tool-calls" if calls else "stop"}})
    return [decode_chunk(chunk) for chunk in row]


def events_of(spoken: ProviderDialect, text: str = "", *calls: Call) -> list[bytes]:
    """The same answer as a stream, one event a piece."""
    return [encode_event(event) for _, event in spoken.encode(chunks_of(text, *calls), model="m", id="r1")]


def streamed(spoken: ProviderDialect, text: str = "", *calls: Call) -> Answer:
    """The same answer of a server."""
    return Answer(steps=events_of(spoken, text, *calls))


def request_of(messages: Sequence[dict[str, Any]], system: str | None = "You help.") -> ModelRequest:
    """A request for an answer to ``messages``, which are as a log has them."""
    return ModelRequest(CallConfig(provider="p", model="m"), tuple(messages), system=system)


def said(text: str) -> dict[str, Any]:
    """What a user says."""
    return {
        "id": "u",
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "source": {"kind": "user"},
    }


def answered(text: str = "", *calls: Call) -> dict[str, Any]:
    """What a model said."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool-call", "id": id, "name": name, "arguments": args} for id, name, args in calls]
    return {
        "id": "a",
        "role": "assistant",
        "content": blocks,
        "source": {"kind": "model", "provider": "p", "model": "m"},
    }


def result(call: str, text: str) -> dict[str, Any]:
    """What a tool gave."""
    block = {
        "type": "tool-result",
        "toolCallId": call,
        "content": [{"type": "text", "text": text}],
        "isError": False,
    }
    return {"id": "t", "role": "user", "content": [block], "source": {"kind": "tool", "callId": call}}


@dataclass
class Recorded:
    """A recorder on a store, and the lines that it told."""

    recorder: Recorder
    told: list[str] = field(default_factory=list)

    def ask(
        self,
        spoken: ProviderDialect,
        messages: Sequence[dict[str, Any]],
        *,
        system: str | None = "You help.",
        body: dict[str, Any] | bytes | None = None,
        target: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Tape:
        """A call that was asked and not answered yet."""
        tape = self.recorder.tape(
            "POST",
            target or f"/v1{spoken.path}".replace("/v1/v1", "/v1"),
            [("authorization", f"Bearer {KEY}"), *headers],
        )
        asked = spoken.build_request(request_of(messages, system)) if body is None else body
        tape.request_piece(asked if isinstance(asked, bytes) else json_text.dumps(asked))
        tape.asked()
        return tape

    def call(
        self,
        spoken: ProviderDialect,
        messages: Sequence[dict[str, Any]],
        text: str,
        *calls: Call,
        **more: Any,
    ) -> None:
        """A call that was asked and answered."""
        answer(self.ask(spoken, messages, **more), events_of(spoken, text, *calls))


def answer(
    tape: Tape,
    pieces: Sequence[bytes],
    *,
    status: int = 200,
    headers: Any = STREAM,
    end: ExchangeEnd = "complete",
) -> None:
    """Let the answer come."""
    tape.head(status, list(headers), tape.now())
    for piece in pieces:
        tape.piece(piece, tape.now())
    tape.ended(end)


@contextmanager
def recorded(store: SqlStore, **rules: Any) -> Iterator[Recorded]:
    """A recorder on ``store``; when the block is over, all is written."""
    told: list[str] = []
    recorder = Recorder(store, Rules("http://upstream", **rules), told.append)
    try:
        yield Recorded(recorder, told)
    finally:
        recorder.close()


@dataclass
class Proxied:
    """A proxy that listens at ``url``."""

    url: str
    recorder: Recorder
    told: list[str]


@contextmanager
def proxied(store: SqlStore, upstream: str, **rules: Any) -> Iterator[Proxied]:
    """A recording proxy in front of ``upstream``; when the block is over, all is written."""
    told: list[str] = []
    behind = Upstream(upstream)
    with (
        Recorder(store, Rules(behind.where, **rules), told.append) as recorder,
        serving(Proxy(behind, recorder)) as server,
    ):
        yield Proxied(server.url, recorder, told)


def open_new(folder: Path) -> SqlStore:
    """A new store."""
    return playhead.open_store(str(folder / "store.sqlite"), create=True)


def sessions(store: SqlStore) -> list[SqlSession]:
    """The sessions of ``store``, oldest first."""
    return sorted((store.session(info.id) for info in store.sessions()), key=lambda session: session.row_id)


def only(store: SqlStore) -> SqlSession:
    """The one session of ``store``."""
    (session,) = sessions(store)
    return session


def transcript(session: SqlSession) -> list[str]:
    """What the model has seen, as one line a message: ``user: ...``, ``model: ...``, ``tool: ...``."""
    seen = surfaces.Surface()
    for event in session.events(deltas=False):
        seen = surfaces.apply(seen, event)
    return [_line(message) for _, message in surfaces.messages(session, seen)]


def check(session: SqlSession) -> None:
    """Raises when the log breaks a rule."""
    broken = list(invariants.check(session.events(), seed_length=session.header.seed_length or 0))
    assert not broken, broken
    seen = surfaces.Surface()
    for event in session.events():
        seen = surfaces.apply(seen, event)
    assert not seen.breaches, seen.breaches


def problems(store: SqlStore) -> list[object]:
    """What `playhead verify` would find."""
    found: list[object] = list(store.verify())
    for session in sessions(store):
        found += discrepancies(session)
    return found


def shape(session: SqlSession) -> list[str]:
    """The types of the events, chunks left out, turns and steps with their numbers."""
    row = []
    for event in session.events():
        if event.type != "assistant/chunk":
            place = [
                str(event.json[key])
                for key in ("turn", "step")
                if event.type[:5] in ("turn/", "step/") and key in event.json
            ]
            row.append(" ".join([event.type, *place]))
    return row


def dialects() -> list[ProviderDialect]:
    """Those that recordings are made in."""
    return [dialect(name) for name in DIALECTS]


def _line(message: dict[str, Any]) -> str:
    (first, *_) = message["content"] or [{}]
    if first.get("type") == "tool-result":
        return f"tool: {_text(first['content'])}"
    who = "model" if message["role"] == "assistant" else "user"
    calls = [
        f"{block['name']}({json.dumps(json.loads(block['arguments']))})"
        for block in message["content"]
        if block["type"] == "tool-call"
    ]
    return " ".join([f"{who}:", *filter(None, [_text(message["content"])]), *calls])


def _text(blocks: Sequence[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")
