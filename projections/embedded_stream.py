"""What can be said of an embedded stream without putting its text together.

From log format 2 on the stream of a call lies inside its event, as entries::

    {type: "chunk", time, chunk}                                block-start, block-end, usage, finish
    {type: "text-chunks" | "reasoning-chunks", time0, index, dt, texts}
    {type: "tool-call-chunks", time0, index, dt, id, name?, args}

An entry of the last two kinds stands for as many deltas as it has texts; delta ``k`` came at ``time0`` plus the first
``k`` gaps of ``dt``. A *token* is a delta with text, or with any ``name``, an empty one too.
Source: docs/formats.md, "Chunk rows".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from playhead.eventstore import members
from playhead.projections.attempt import Tokens, tokens_of, whole


class StreamSummary(NamedTuple):
    """First chunk, first token, usage, finish reason and its time; None for what is not there."""

    started_ms: int | None
    first_token_ms: int | None
    tokens: Tokens | None
    finish: dict[str, Any] | None
    finished_ms: int | None


def summarise(data: dict[str, Any]) -> StreamSummary:
    """The summary of ``data.stream``; any data will do."""
    started = token = finished = None
    tokens: Tokens | None = None
    reason: dict[str, Any] | None = None
    for entry in members.objects(data, "stream"):
        time = whole(entry, "time" if entry.get("type") == "chunk" else "time0")
        started = time if started is None else started
        if entry.get("type") != "chunk":
            token = _first_token(entry) if token is None else token
            continue
        chunk = members.inner(entry, "chunk")
        match chunk.get("type"):
            case "usage":
                tokens = tokens_of(chunk) or tokens
            case "finish":
                reason, finished = members.inner(chunk, "reason"), time
            case _:
                token = time if token is None and is_token(chunk) else token
    return StreamSummary(started, token, tokens, reason, finished)


def is_token(chunk: dict[str, Any]) -> bool:
    """Whether a chunk shows that the model produces tokens."""
    match chunk.get("type"):
        case "text-delta" | "reasoning-delta":
            return bool(members.text(chunk, "text"))
        case "tool-call-delta":
            return bool(members.text(chunk, "argumentsDelta")) or members.text(chunk, "name") is not None
    return False


def _first_token(row: dict[str, Any]) -> int | None:
    """The time of the first token in a row of deltas."""
    time = whole(row, "time0")
    is_call = row.get("type") == "tool-call-chunks"
    if is_call and members.text(row, "name") is not None:
        return time
    texts, gaps = row.get("args" if is_call else "texts"), row.get("dt")
    if time is None or not isinstance(texts, list) or not isinstance(gaps, list):
        return None
    for at, text in enumerate(texts):
        if isinstance(text, str) and text:
            return time + sum(whole({"gap": gap}, "gap") or 0 for gap in gaps[:at])
    return None
