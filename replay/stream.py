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
from typing import Any, NamedTuple, TypeAlias

from playhead.eventstore import chunk_rows, members
from playhead.eventstore.chunks import ChunkError, ReasoningDelta, TextDelta, ToolCallDelta, decode_chunk
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.projections.attempt import whole
from playhead.replay import plain_chunk, plain_stream
from playhead.replay.timed_chunk import TimedChunk

EMBEDDED = frozenset({"assistant/message", "assistant/attempt"})
"""The types of events that can hold a whole stream."""


def not_in_streams() -> frozenset[str]:
    """The types of events, of those that are known, that hold no chunks."""
    return frozenset(event_types) - EMBEDDED - {chunk_rows.EVENT_TYPE}


class StreamProblem(NamedTuple):
    """Something in the stream of a call that is no chunk of it. ``seq`` is the event, ``message`` says what it is."""

    seq: int
    message: str


Piece: TypeAlias = TimedChunk | StreamProblem

Place: TypeAlias = tuple[int | None, int | None]
"""Turn and step."""


def place_of(data: dict[str, Any]) -> Place:
    """The turn and the step that the data of an event name."""
    return whole(data, "turn"), whole(data, "step")


def chunk_of(event: Recorded, place: Place) -> Piece:
    """The chunk that ``event``, an ``assistant/chunk``, adds to a call of turn and step ``place``."""
    found, piece = placed_chunk(event)
    if found != place:
        return StreamProblem(event.seq, f"a chunk of {_named(*found)} lies among those of {_named(*place)}")
    return piece


def placed_chunk(event: Recorded) -> tuple[Place, Piece]:
    """The turn and the step that ``event``, an ``assistant/chunk``, names, and its chunk."""
    plain = plain_chunk.read(event.raw)
    if plain is not None:
        place, chunk = plain
        return place, TimedChunk(event.time_ms, chunk)
    data = members.of(event)
    try:
        return place_of(data), TimedChunk(event.time_ms, decode_chunk(data.get("chunk")))
    except ChunkError as error:
        return place_of(data), StreamProblem(event.seq, str(error))


def is_embedded(event: Recorded) -> bool:
    """Whether ``event`` holds the stream of its call."""
    return event.type in EMBEDDED and isinstance(members.of(event).get("stream"), list)


def embedded_chunks(event: Recorded, *, joined: bool = False) -> Iterator[Piece]:
    """The chunks inside ``event``; none where it holds no stream.

    The deltas of one entry come as one, with the time of the first, when they are to be ``joined``.
    """
    if not is_embedded(event):
        return
    entries = members.of(event)["stream"]
    plain = plain_stream.read(entries, joined=joined)
    if plain is not None:
        yield from plain
        return
    for at, entry in enumerate(entries):
        try:
            yield from _entry(entry, joined)
        except (ChunkError, chunk_rows.MalformedRow) as error:
            yield StreamProblem(event.seq, f"entry {at} of the stream: {error}")


def _entry(entry: Any, joined: bool) -> list[TimedChunk]:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if kind == "chunk":
        time_ms = whole(entry, "time")
        if time_ms is None:
            raise chunk_rows.MalformedRow("entry-time", "its time is not a whole number")
        return [TimedChunk(time_ms, decode_chunk(entry.get("chunk")))]
    if not isinstance(kind, str) or kind not in chunk_rows.TAGS:
        raise chunk_rows.MalformedRow("entry-type", f"{kind!r} is no type of an entry")
    return _run(kind, entry, joined)


def _run(kind: str, entry: dict[str, Any], joined: bool) -> list[TimedChunk]:
    """The deltas that an entry of one kind packs."""
    data = {name: value for name, value in entry.items() if name not in ("type", "time0")}
    row = {"type": kind, "seq0": 0, "time0": entry.get("time0"), "data": {"turn": 0, "step": 0, **data}}
    times = chunk_rows.times(row)
    index = whole(entry, "index")
    if index is None:
        raise chunk_rows.MalformedRow("row-index", "its index is not a whole number")
    is_call = kind == "tool-call-chunks"
    texts = entry["args" if is_call else "texts"]
    if joined:
        texts, times = ["".join(texts)], times[:1]
    if is_call:
        call, name = entry["id"], entry.get("name")
        deltas = [ToolCallDelta(index, call, name, text) for text in texts]
        return [TimedChunk(*timed) for timed in zip(times, deltas, strict=True)]
    delta = TextDelta if kind == "text-chunks" else ReasoningDelta
    return [TimedChunk(time_ms, delta(index, text)) for time_ms, text in zip(times, texts, strict=True)]


def summary_chunks(event: Recorded) -> Iterator[Piece]:
    """What a call that wrote a summary would have streamed, made up from the ``compaction/summary`` that it became.

    Begin and end of each block of its output, the usage where it is recorded, and the finish ``stop``, all at the time
    of the event. Nothing but the content and the usage is recorded; the model sent it in more pieces.
    """
    data = members.of(event)
    output = data.get("rawOutput")
    if not isinstance(output, list):
        yield StreamProblem(event.seq, "the summary does not say what the model's output was")
        return
    usage = [] if data.get("usage") is None else [{"type": "usage", "usage": data["usage"]}]
    for chunk in (*_closed_blocks(output), *usage, {"type": "finish", "reason": {"kind": "stop"}}):
        try:
            yield TimedChunk(event.time_ms, decode_chunk(chunk))
        except ChunkError as error:
            yield StreamProblem(event.seq, str(error))


def _closed_blocks(blocks: list[Any]) -> Iterator[dict[str, Any]]:
    for index, block in enumerate(blocks):
        kind = block.get("type") if isinstance(block, dict) else None
        yield {"type": "block-start", "index": index, "blockType": kind}
        yield {"type": "block-end", "index": index, "block": block}


def _named(turn: int | None, step: int | None) -> str:
    return f"turn {'?' if turn is None else turn}, step {'?' if step is None else step}"
