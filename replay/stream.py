"""The chunks that one event adds to the stream of a model call, and what in it is no chunk.

Two layouts exist. In formats 0 and 1, and in Playhead's own sessions, each chunk is an event ``assistant/chunk`` of its
own, with the event's seq and time. From format 2 on the stream lies inside the event that it became, as entries with
times and without seqs::

    {type: "chunk", time, chunk}
    {type: "text-chunks" | "reasoning-chunks", time0, index, dt, texts}
    {type: "tool-call-chunks", time0, index, dt, id, name?, args}

An entry of the last two kinds stands for one delta per text; delta ``k`` came at ``time0`` plus the first ``k`` gaps of
``dt``. Source: docs/formats.md, "Chunk rows".

Reading is total: what cannot be read comes as a ``StreamProblem`` in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from playhead.eventstore import chunk_rows, members
from playhead.eventstore.chunks import ChunkError, ReasoningDelta, TextDelta, ToolCallDelta, decode_chunk
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import whole
from playhead.replay.timed_chunk import TimedChunk

EMBEDDED = frozenset({"assistant/message", "assistant/attempt"})
"""The types of events that can hold a whole stream."""


class StreamProblem(NamedTuple):
    """Something in the stream of a call that is no chunk of it. ``seq`` is the event, ``message`` says what it is."""

    seq: int
    message: str


Piece = TimedChunk | StreamProblem


def place_of(data: dict[str, Any]) -> tuple[int | None, int | None]:
    """Turn and step of the data of an event."""
    return whole(data, "turn"), whole(data, "step")


def chunk_of(event: Recorded, place: tuple[int | None, int | None]) -> Piece:
    """The chunk that ``event``, an ``assistant/chunk``, adds to a call of turn and step ``place``."""
    data = members.of(event)
    found = place_of(data)
    if found != place:
        return StreamProblem(event.seq, f"a chunk of {_named(*found)} lies among those of {_named(*place)}")
    try:
        return TimedChunk(event.time_ms, decode_chunk(data.get("chunk")))
    except ChunkError as error:
        return StreamProblem(event.seq, str(error))


def embedded_chunks(event: Recorded) -> Iterator[Piece]:
    """The chunks inside ``event``, whose type is in ``EMBEDDED``; none where it holds no stream."""
    stream = members.of(event).get("stream")
    if not isinstance(stream, list):
        return
    for at, entry in enumerate(stream):
        try:
            yield from _entry(entry)
        except (ChunkError, chunk_rows.MalformedRow) as error:
            yield StreamProblem(event.seq, f"entry {at} of the stream: {error}")


def _entry(entry: Any) -> list[TimedChunk]:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if kind == "chunk":
        time_ms = whole(entry, "time")
        if time_ms is None:
            raise chunk_rows.MalformedRow("entry-time", "its time is not a whole number")
        return [TimedChunk(time_ms, decode_chunk(entry.get("chunk")))]
    if not isinstance(kind, str) or kind not in chunk_rows.TAGS:
        raise chunk_rows.MalformedRow("entry-type", f"its type is {kind!r}")
    return _run(kind, entry)


def _run(kind: str, entry: dict[str, Any]) -> list[TimedChunk]:
    """The deltas that an entry of one kind packs."""
    data = {name: value for name, value in entry.items() if name not in ("type", "time0")}
    row = {"type": kind, "seq0": 0, "time0": entry.get("time0"), "data": {"turn": 0, "step": 0, **data}}
    times = chunk_rows.times(row)
    index = whole(entry, "index")
    if index is None:
        raise chunk_rows.MalformedRow("row-index", "its index is not a whole number")
    if kind == "tool-call-chunks":
        call, name = entry["id"], entry.get("name")
        return [
            TimedChunk(time_ms, ToolCallDelta(index, call, name, text))
            for time_ms, text in zip(times, entry["args"], strict=True)
        ]
    delta = TextDelta if kind == "text-chunks" else ReasoningDelta
    return [
        TimedChunk(time_ms, delta(index, text)) for time_ms, text in zip(times, entry["texts"], strict=True)
    ]


def _named(turn: int | None, step: int | None) -> str:
    return f"turn {'?' if turn is None else turn}, step {'?' if step is None else step}"
