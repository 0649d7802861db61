"""Hypothesis strategies for model calls and the sessions that hold them, written down in each layout.

Streams are arbitrary: deltas before a block begins, blocks of unknown types, texts with half characters, times that run
back. What a fold that reads no deltas can see of each is the one thing they are held to: a chunk that is no delta, a
finish, or a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from twins import Log
from vocabulary import chunks

from playhead.adapters.dsh.conversion import to_format_2
from playhead.eventstore import chunk_rows, envelope, json_text
from playhead.eventstore.assembler import BlockAssembler, OpenUnknownBlock
from playhead.eventstore.chunks import FinishChunk, decode_chunk
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.replay.attempt import attempts
from playhead.replay.timed_chunk import TimedChunk

Json = dict[str, Any]
START_MS = 1_780_000_000_000
FAILURE = {"message": "busy", "code": "SERVER", "status": 503}
DELTAS = ("text-delta", "reasoning-delta", "tool-call-delta")


def _can_be_written(chunk: Json) -> bool:
    """False for a chunk with an infinite number in a place where any JSON may stand."""
    try:
        return bool(json_text.dumps(chunk))
    except ValueError:
        return False


_pieces = chunks().filter(lambda chunk: chunk["type"] != "finish" and _can_be_written(chunk))
_starts: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 2}},
    ]
)


@dataclass(frozen=True)
class Written:
    """One call as it was written: where, its chunks with their times, and whether a message was made of it."""

    turn: int
    step: int
    number: int
    chunks: tuple[TimedChunk, ...]
    finish: str | None
    has_message: bool


@dataclass
class Session:
    """Events of format 1, and the calls in them."""

    events: list[Json] = field(default_factory=list)
    calls: list[Written] = field(default_factory=list)

    def lines(self, *, packed: bool) -> list[bytes]:
        """The log lines, without line ends: every chunk one of its own, or runs of deltas as chunk rows."""
        return [json_text.dumps(value) for value in (chunk_rows.pack(self.events) if packed else self.events)]

    def as_chunk_events(self, *, packed: bool = False) -> Log:
        """The log as formats 0 and 1 have it."""
        return log_of(self.lines(packed=packed))

    def as_embedded_streams(self) -> Log:
        """The log as format 2 has it."""
        events = [event for batch in to_format_2([self.events], None) for event in batch]
        return log_of(map(json_text.dumps, events), version=2)


def log_of(lines: Iterable[bytes], version: int = 0) -> Log:
    """The log of these lines."""
    header = SessionHeader(
        SessionId("s1"), START_MS, version=version, is_seeded=False if version > 1 else None
    )
    return Log(header, tuple(fact for line in lines for fact in envelope.facts(line, header.id)))


@st.composite
def sessions_of_calls(draw: st.DrawFn, *, agreeing: bool = False) -> Session:
    """A session of some turns, each with steps, each with failed calls and then one that ends somehow.

    Messages say what they like, unless they are to be ``agreeing`` with their chunks.
    """
    session = Session()

    def add(type: str, data: Any, **more: Any) -> int:
        seq = len(session.events)
        time_ms = START_MS + draw(st.integers(-50, 5000))
        session.events.append({"type": type, "seq": seq, "time": time_ms, "data": data, **more})
        return seq

    add("request/header", {"header": {"config": {"provider": "p", "model": "m"}}, "reason": "initial"})
    for turn in range(1, draw(st.integers(1, 3)) + 1):
        add("turn/start", {"turn": turn})
        for step in range(1, draw(st.integers(1, 2)) + 1):
            add("step/start", {"turn": turn, "step": step})
            for number in range(1, draw(st.integers(1, 3)) + 1):
                ending = draw(st.sampled_from(("failed", "finished", "kept", "cut off", "silent")))
                _call(draw, add, session, (turn, step, number), ending, agreeing)
                if ending != "failed":
                    break
            add("step/end", {"turn": turn, "step": step})
        reason = draw(
            st.sampled_from(({"kind": "completed"}, {"kind": "aborted", "reason": {"kind": "user"}}))
        )
        add("turn/end", {"turn": turn, "reason": reason})
    return session


def _call(
    draw: st.DrawFn, add: Any, session: Session, place: tuple[int, int, int], ending: str, agreeing: bool
) -> None:
    """Write one call of the kind ``ending``; nothing where it is ``silent``."""
    if ending == "silent":
        return
    turn, step, number = place
    streamed = draw(st.lists(_pieces, max_size=8))
    finish: str | None = None
    if ending == "failed":
        finish = "error"
        streamed.append({"type": "finish", "reason": {"kind": "error", "failure": FAILURE}})
    elif ending == "finished":
        finish = draw(st.sampled_from(("stop", "tool-calls", "max-tokens")))
        streamed.append({"type": "finish", "reason": {"kind": finish}})
    elif ending == "cut off":
        streamed.insert(0, draw(_starts))
    seqs = []
    for chunk in streamed:
        seqs.append(add("assistant/chunk", {"turn": turn, "step": step, "chunk": chunk}))
        if draw(st.integers(0, 9)) == 0:
            add("agent/inbox/spliced", {"target": "next-step", "start": 0, "inserted": []})
    has_message = ending == "kept" or (ending == "finished" and draw(st.booleans()))
    if has_message:
        has_message = _message(add, place, streamed, seqs, agreeing)
    if ending == "failed":
        retry = {"retryId": "r", "turn": turn, "step": step, "retry": number}
        add("llm/retry", {**retry, "failure": FAILURE, "delayMs": 5})
        add("llm/retry-started", retry)
    timed = tuple(_timed(session.events[seq]) for seq in seqs)
    if timed or has_message:
        session.calls.append(Written(turn, step, number, timed, finish, has_message))


def _timed(event: Json) -> TimedChunk:
    """The chunk of an event as a reader of its JSON text sees it."""
    return TimedChunk(event["time"], decode_chunk(json_text.parse(json_text.dumps(event["data"]["chunk"]))))


def _message(
    add: Any, place: tuple[int, int, int], streamed: list[Json], seqs: list[int], agreeing: bool
) -> bool:
    """Write the message of a call, interrupted where its stream has no finish; False where none can be made of it."""
    turn, step, number = place
    finished = bool(streamed) and streamed[-1]["type"] == "finish"
    source = {"kind": "model", "provider": "p", "model": "m"}
    data: Json = {"turn": turn, "step": step}
    content: list[Any] = [{"type": "text", "text": "x"}]
    if agreeing:
        assembler = BlockAssembler(map(decode_chunk, streamed))
        try:
            blocks = assembler.blocks() if finished else assembler.interrupted_blocks()
        except OpenUnknownBlock:
            return False
        content = [block.to_json() for block in blocks]
        if finished and assembler.replay_state is not None:
            source = source | {"replayState": assembler.replay_state}
        if assembler.usage is not None:
            data["usage"] = assembler.usage.to_json()
    message = {"role": "assistant", "content": content, "source": source, "id": f"a{turn}-{step}-{number}"}
    data |= {"message": message} | ({} if finished else {"interrupted": True})
    add("assistant/message", data, sourceEventSeqs=seqs, surfaceOp="append")
    return True


def assert_same_up_to_the_cut(whole: Log, cut: Log) -> None:
    """The calls of a log that was cut are those of the whole, the last one perhaps not to its end."""
    before = [attempt for attempt in attempts(cut) if attempt.outcome != "unanswered"]
    every = {attempt.seq: attempt for attempt in attempts(whole)}
    for attempt in before:
        same = every[attempt.seq]
        chunks, full = list(attempt.chunks()), list(same.chunks())
        assert chunks == full[: len(chunks)]
        if attempt is not before[-1]:
            assert chunks == full
        if len(chunks) < len(full):
            assert not isinstance(full[len(chunks) - 1].chunk, FinishChunk)
            assert attempt.ending in ("open", "crashed", "cancelled", "cut", "error")
