"""Compactions of the transcript: summaries from start to end, and tool results that were cut."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded
from playhead.projections import message_text
from playhead.projections.attempt import whole
from playhead.projections.transcript_items import Compaction
from playhead.projections.transcript_state import Handler, Transcript, as_json


def _compaction_start(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    state = state.without_compaction()
    begun = Compaction(
        event.seq, event.time_ms, "summary", "unfinished", id=members.text(data, "compactionId")
    )
    return replace(state, compaction=begun)


def _compaction_summary(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    held = state.compaction or Compaction(
        event.seq, event.time_ms, "summary", "unfinished", id=members.text(data, "compactionId")
    )
    text, _ = message_text.text_of({"content": data.get("summary")})
    return replace(
        state,
        compaction=replace(
            held,
            summary=text,
            shadowed=_length(data.get("shadowedSeqs")),
            tokens=whole(data, "shadowedTokenCount"),
            provider=members.text(data, "provider"),
            model=members.text(data, "model"),
        ),
    )


def _compaction_end(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    held = state.compaction or Compaction(
        event.seq, event.time_ms, "summary", id=members.text(data, "compactionId")
    )
    error = data.get("error")
    ended = replace(
        held,
        outcome="done" if error is None else "failed",
        ended_ms=event.time_ms,
        error=None if error is None else _told(error),
    )
    return replace(state, compaction=None).add(ended)


def _prune(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    return state.add(
        Compaction(
            event.seq,
            event.time_ms,
            "prune",
            shadowed=_length(data.get("shadowedSeqs")),
            tokens=whole(data, "shadowedTokenCount"),
        )
    )


def checkpoint(state: Transcript, event: Recorded, message: dict[str, Any]) -> Transcript:
    """The message that takes the place of what a compaction summed up."""
    if state.compaction is not None:
        return replace(state, compaction=replace(state.compaction, message_seq=event.seq))
    text, _ = message_text.text_of(message)
    id = members.text(members.inner(message, "source"), "compactionId")
    alone = Compaction(event.seq, event.time_ms, "summary", id=id, summary=text, message_seq=event.seq)
    return state.add(alone)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _told(error: Any) -> str:
    """An error of any shape in words."""
    if isinstance(error, str):
        return error
    told = error if isinstance(error, dict) else members.NOTHING
    words = [members.text(told, "code"), members.text(told, "message")]
    return ": ".join(filter(None, words)) or as_json(error)


HANDLERS: dict[str, Handler] = {
    "compaction/start": _compaction_start,
    "compaction/summary": _compaction_summary,
    "compaction/end": _compaction_end,
    "compaction/prune": _prune,
}
