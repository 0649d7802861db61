"""Messages, answers and failed attempts of the transcript.

The stream of a call is the chunk events of its step, or lies in ``assistant/message`` or ``assistant/attempt``. It ends
in an answer, or becomes a ``FailedAttempt`` at a failure, or where its step ends without either. A prompt is steering
when it was claimed from the ``next-step`` list of the inbox.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import block_chunks, message_text, provenance
from playhead.projections.attempt import FAILED_FINISHES, failure_of, finished_by, retry_of, whole
from playhead.projections.embedded_stream import summarise
from playhead.projections.transcript_compactions import checkpoint
from playhead.projections.transcript_items import Answer, FailedAttempt, Message, Stream, ToolCall
from playhead.projections.transcript_state import Handler, OpenStream, Transcript


def _message(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    message = data if event.type == "user/message" else members.inner(data, "message")
    role = members.text(message, "role") or event.type.partition("/")[0]
    source = members.inner(message, "source")
    who = provenance.classify(source, role)
    if isinstance(event.surface_op, Replace):
        return checkpoint(state, event, message) if event.type == "user/message" else state
    text, other = message_text.text_of(message)
    id = members.text(message, "id")
    claimed = id is not None and id in state.claimed
    if claimed:
        state = replace(state, claimed=tuple(item for item in state.claimed if item != id))
    return state.add(
        Message(
            event.seq,
            event.time_ms,
            role,
            who.kind,
            who.label,
            id=id,
            source_kind=members.text(source, "kind"),
            by=who.by,
            text=text,
            other=other,
            summary=members.text(source, "summary"),
            steering=claimed and who.kind == provenance.PROMPT,
        )
    )


def _spliced(state: Transcript, _event: Recorded, data: dict[str, Any]) -> Transcript:
    if data.get("target") != "next-step":
        return state
    start, removed = whole(data, "start") or 0, whole(data, "removedCount") or 0
    at = min(max(start, 0), len(state.next_step))
    behind = min(at + max(removed, 0), len(state.next_step))
    gone = state.next_step[at:behind]
    inserted = tuple(members.text(message, "id") or "" for message in members.objects(data, "inserted"))
    claims = gone if not inserted and "outcome" not in data else ()
    if not gone and not inserted:
        return state
    return replace(
        state,
        next_step=(*state.next_step[:at], *inserted, *state.next_step[behind:]),
        claimed=(*state.claimed, *claims),
    )


def goes_on(state: Transcript, event: Recorded) -> bool:
    """Whether ``event``, a chunk, just begins or ends a block of the stream that is open."""
    held = state.stream
    return held is not None and held.finish is None and block_chunks.place_of(event) is not None


def _chunk(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    chunk = members.inner(data, "chunk")
    held = state.stream
    if held is not None and held.finish is not None:
        state, held = state.without_stream(event.seq), None
    if held is None:
        held = OpenStream(event.seq, Stream(state.last_seq + 1, started_ms=event.time_ms))
    state = replace(state, stream=held).streaming(event)
    if chunk.get("type") != "finish":
        return state
    _, finish, failure = finished_by(members.inner(chunk, "reason"))
    stream = replace(held.stream, to_seq=event.seq + 1, ended_ms=event.time_ms)
    state = replace(state, stream=OpenStream(event.seq, stream, finish, failure))
    return state.without_stream(None) if finish in FAILED_FINISHES else state


def _answer(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    if isinstance(event.surface_op, Replace):
        return state
    message = members.inner(data, "message")
    source = members.inner(message, "source")
    held = _embedded(event, data) if "stream" in data else state.stream
    answer = Answer(
        event.seq,
        event.time_ms,
        id=members.text(message, "id"),
        provider=members.text(source, "provider"),
        model=members.text(source, "model"),
        parts=message_text.parts_of(message),
        interrupted=data.get("interrupted") is True,
        finish=None if held is None else held.finish,
        stream=None if held is None else held.until(event.seq),
    )
    calls = [
        ToolCall(event.seq, event.time_ms, state.calls + number, id, name, arguments)
        for number, (id, name, arguments) in enumerate(message_text.calls_of(message), 1)
    ]
    return replace(state.add(answer, *calls), stream=None, calls=state.calls + len(calls))


def _attempt(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    return replace(state.without_stream(event.seq), stream=_embedded(event, data)).without_stream(None)


def _embedded(event: Recorded, data: dict[str, Any]) -> OpenStream:
    """The stream that lies in an event."""
    told = summarise(data)
    _, finish, failure = finished_by(told.finish) if told.finish is not None else (None, None, None)
    chars = 0
    for entry in members.objects(data, "stream"):
        texts = entry.get("args" if entry.get("type") == "tool-call-chunks" else "texts")
        chars += sum(len(text) for text in texts if isinstance(text, str)) if isinstance(texts, list) else 0
    stream = Stream(event.seq, event.seq + 1, told.started_ms, told.finished_ms, told.first_token_ms, chars)
    return OpenStream(event.seq, stream, finish, failure)


def _retry(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    failure, retry = failure_of(members.inner(data, "failure")), retry_of(data, event.seq)
    state = state.without_stream(event.seq)
    changed = state.change(
        FailedAttempt,
        lambda item: item.retry is None,
        lambda item: replace(item, failure=item.failure or failure, retry=retry),
    )
    if changed is not None:
        return changed
    return state.add(FailedAttempt(event.seq, event.time_ms, "error", failure, None, retry))


def _retry_started(state: Transcript, event: Recorded, data: dict[str, Any]) -> Transcript:
    id, number = members.text(data, "retryId"), whole(data, "retry")

    def waits(item: FailedAttempt) -> bool:
        retry = item.retry
        return retry is not None and retry.started_ms is None and (retry.id, retry.number) == (id, number)

    def started(item: FailedAttempt) -> FailedAttempt:
        return replace(item, retry=item.retry and replace(item.retry, started_ms=event.time_ms))

    return state.change(FailedAttempt, waits, started) or state


HANDLERS: dict[str, Handler] = {
    "user/message": _message,
    "system/message": _message,
    "developer/message": _message,
    "agent/inbox/spliced": _spliced,
    "assistant/chunk": _chunk,
    "assistant/message": _answer,
    "assistant/attempt": _attempt,
    "llm/retry": _retry,
    "llm/retry-started": _retry_started,
}
