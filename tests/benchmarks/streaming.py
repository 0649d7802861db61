"""What recording costs a live agent: per streamed token, per fact that is queued, and when many wait for the disk.

``token``: one model call through the driver's own code, chunk by chunk, with a store behind it and without one (the
same code on a writer that forgets). ``enqueue``: queueing one chunk, against one write and ``fdatasync`` of as many
bytes. ``group commit``: facts made durable per second by eight sessions that each wait for every fact, against one.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from measure import Result, Target

import playhead
from playhead.eventstore import envelope
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import BlockStart, Chunk, FinishChunk, TextDelta
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.reasons import FinishStop
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig, RequestHeader
from playhead.eventstore.session_writer import SessionWriter
from playhead.eventstore.sql.writer import QueuedSession, Writer
from playhead.live.call import ModelCall
from playhead.live.options import new_id, now_ms
from playhead.live.session import LiveSession

_TOKENS = 5_000
_FACTS = 400
_PRODUCERS = 8
_GROUP = Target(2, 3)
_HEADER = RequestHeader(config=CallConfig(provider="bench", model="m"))


class Forgetful:
    """A writer that keeps nothing: what the driver costs without a store."""

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self.next_seq = Seq(0)

    def put(self, fact: Recorded, line: bytes) -> None:
        """Take it, and forget it."""

    async def room(self) -> None:
        """There always is."""

    async def flush(self) -> None:
        """Nothing is ever pending."""

    async def close(self) -> None:
        """Nothing is held."""


class Stream:
    """Answers with so many words, as fast as they are taken."""

    def __init__(self, tokens: int) -> None:
        deltas = [TextDelta(0, f"word{at % 1000} ") for at in range(tokens)]
        self._chunks: Sequence[Chunk] = [BlockStart(0, "text"), *deltas, FinishChunk(FinishStop())]

    async def stream(self, request: ModelRequest, token: CancelToken) -> AsyncIterator[Chunk]:  # noqa: ARG002
        for chunk in self._chunks:
            yield chunk


def results(folder: Path, rounds: int) -> Iterator[Result]:
    """Medians over the rounds; the two sides take turns."""
    folder.mkdir(parents=True, exist_ok=True)
    with playhead.open_store(str(folder / "streamed.db")) as store:
        yield _token(store, rounds)
        yield _enqueue(store, folder, rounds)
        yield _group(store, rounds)


def _token(store: Any, rounds: int) -> Result:
    ours, reference = [], []
    for number in range(rounds):
        with Writer(store) as writer:
            session = store.create(_header(f"token-{number}"))
            ours.append(asyncio.run(_streamed(session, writer.open(session))))
        forgotten = MemoryLog(now_ms).create(_header("forgotten"))
        reference.append(asyncio.run(_streamed(forgotten, Forgetful(forgotten.header))))
    with_store, without = (statistics.median(times) / _TOKENS * 1e6 for times in (ours, reference))
    return Result(
        "stream", "a streamed token, recorded", with_store, without, "µs", with_store / without, None
    )


async def _streamed(session: Any, writer: SessionWriter) -> float:
    live = LiveSession(session, now_ms, writer)
    live.append("turn/start", {"turn": 1})
    live.append("step/start", {"turn": 1, "step": 1})
    call = ModelCall(live, Stream(_TOKENS), new_id, 1, 1, CancelToken())
    begin = time.perf_counter()
    await call.make(_HEADER)
    await live.flush()
    return time.perf_counter() - begin


def _enqueue(store: Any, folder: Path, rounds: int) -> Result:
    ours, reference = [], []
    file = os.open(folder / "plain.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with Writer(store) as writer:
            queue = writer.open(store.create(_header("enqueued")))
            for _ in range(rounds * _FACTS):
                fact, line = _fact(queue)
                begin = time.perf_counter()
                queue.put(fact, line)
                ours.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                os.write(file, line + b"\n")
                os.fdatasync(file)
                reference.append(time.perf_counter() - begin)
    finally:
        os.close(file)
    queued, written = statistics.median(ours) * 1e6, statistics.median(reference) * 1e6
    return Result("stream", "queueing a chunk vs fdatasync", queued, written, "µs", queued / written, None)


def _group(store: Any, rounds: int) -> Result:
    ours, reference = [], []
    for number in range(rounds):
        ours.append(asyncio.run(_waiting(store, f"many-{number}", _PRODUCERS)))
        reference.append(asyncio.run(_waiting(store, f"one-{number}", 1)))
    many, one = statistics.median(ours), statistics.median(reference)
    return Result("stream", "group commit, 8 that wait vs 1", many, one, "facts/s", many / one, _GROUP)


async def _waiting(store: Any, name: str, producers: int) -> float:
    """Facts a second that ``producers`` make durable, each waiting for every one."""

    async def produce(queue: QueuedSession) -> None:
        for _ in range(_FACTS):
            queue.put(*_fact(queue))
            await queue.flush()

    with Writer(store) as writer:
        queues = [writer.open(store.create(_header(f"{name}-{at}"))) for at in range(producers)]
        begin = time.perf_counter()
        await asyncio.gather(*map(produce, queues))
        return producers * _FACTS / (time.perf_counter() - begin)


def _fact(queue: QueuedSession) -> tuple[Recorded, bytes]:
    chunk = {"type": "text-delta", "index": 0, "text": "a few words "}
    data = {"turn": 1, "step": 1, "chunk": chunk}
    line = playhead.NewEvent("assistant/chunk", data).line(queue.next_seq, 1_790_000_000_000)
    (fact,) = envelope.facts(line, queue.session.id)
    return fact, line


def _header(name: str) -> SessionHeader:
    return SessionHeader(SessionId(name), 1_790_000_000_000)
