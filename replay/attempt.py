"""A model call with its chunks: one thing, whichever way a log lays it down.

Two layouts exist: chunk events of their own (formats 0 and 1, and native sessions), and a stream embedded in
``assistant/message`` or ``assistant/attempt`` (format 2 and later). Boundaries, outcome and usage come from the
projection ``attempts``, which reads no chunks; chunks and request are read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from playhead.eventstore import chunk_rows, members
from playhead.eventstore.chunks import ChunkError, decode_chunk
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import SUMMARY
from playhead.projections.attempt import Attempt as Call
from playhead.projections.attempt_fold import calls
from playhead.projections.attempts import attempts as boundaries
from playhead.projections.folding import Foldable, fold
from playhead.projections.requests import Request, request_before
from playhead.replay.timed_chunk import TimedChunk


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model call of ``session``. ``call`` says when it was, of whom, how it ended and what it took."""

    session: Foldable
    call: Call

    @property
    def has_chunks(self) -> bool:
        """False for the summary of a compaction, whose stream is in no log, and where nothing came."""
        return self.call.kind != SUMMARY and self.call.outcome != "unanswered"

    def chunks(self) -> Iterator[TimedChunk]:
        """The chunks in stream order, each with its time. Only the events of the call are read."""
        if not self.has_chunks:
            return
        call = self.call
        for event in self.session.events(call.from_seq, call.to_seq):
            yield from chunks_of(event, call)

    def request(self) -> Request:
        """What the model was sent: header, system prompt, tools and messages, as the log tells it."""
        return request_before(self.session, self.call.seq)


def attempts(session: Foldable) -> Iterator[Attempt]:
    """Every model call of ``session`` in order, those that failed or were cut off among them."""
    for call in calls(fold(session, boundaries).state):
        yield Attempt(session, call)


def chunks_of(event: Recorded, call: Call) -> Iterator[TimedChunk]:
    """The chunks that ``event`` adds to ``call``; none for an event of another kind or of another step."""
    data = members.of(event)
    if (members.number(data, "turn"), members.number(data, "step")) != (call.turn, call.step):
        return
    try:
        if event.type == chunk_rows.EVENT_TYPE:
            yield TimedChunk(event.time_ms, decode_chunk(data.get("chunk")))
        elif event.type in ("assistant/message", "assistant/attempt"):
            for entry in members.objects(data, "stream"):
                yield from _entry(entry)
    except (ChunkError, chunk_rows.MalformedRow):
        return


def _entry(entry: dict[str, object]) -> Iterator[TimedChunk]:
    if entry.get("type") == "chunk":
        yield TimedChunk(int(members.number(entry, "time") or 0), decode_chunk(entry.get("chunk")))
        return
    row = {
        "type": entry.get("type"),
        "seq0": 0,
        "time0": entry.get("time0"),
        "data": {"turn": 1, "step": 1, **{k: v for k, v in entry.items() if k not in ("type", "time0")}},
    }
    for packed in chunk_rows.unpack(row):
        yield TimedChunk(packed["time"], decode_chunk(packed["data"]["chunk"]))
