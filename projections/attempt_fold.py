"""Every model call of a session: its boundaries, how it ended, what it took, and the retries.

A call is one of two things in a log. Up to format 1, and in Playhead's own sessions, it is the ``assistant/chunk``
events of one step up to a ``finish`` chunk, the ``assistant/message``, an ``llm/retry``, or the next boundary. From
format 2 on it is the stream inside an ``assistant/message`` or an ``assistant/attempt``. Besides, a
``compaction/summary`` with ``llmStreamCall`` is a call of kind ``summary``: the log has its result and its usage, and
neither chunks nor a start.

A step that was entered, and a retry whose wait was over, are calls as well, ``unanswered`` where nothing came.

Deltas are not read. So ``first_token_ms`` is known from format 2 on only; before that ``started_ms``, the time of the
first chunk that is no delta, comes close. A stream that began with a delta begins before ``from_seq``, unless the
message says which chunks are its own. One that holds nothing but deltas and became no message leaves no trace here:
an adapter opens a block before it streams into it, so no sound log holds such a stream.

What ended a call without a ``finish`` is known when its turn ends: the turn was aborted, failed, or was interrupted.
Calls of a turn that is over never change again. They are kept in one tuple per turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import block_chunks
from playhead.projections.attempt import (
    STEP,
    SUMMARY,
    Attempt,
    Outcome,
    failure_of,
    finished_by,
    retry_of,
    tokens_of,
    whole,
)
from playhead.projections.embedded_stream import summarise
from playhead.projections.inherited import Inherited


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """A step or a retry that began at ``seq``, of which nothing has come yet."""

    seq: int
    ms: int


class Attempts(msgspec.Struct, frozen=True, rename="camel"):
    """``turns`` are the calls of turns that are over, ``recent`` those since then, ``open`` one whose chunks come.

    ``turn`` and ``step`` are what is open, ``provider`` and ``model`` where the next request goes.
    """

    inherited: Inherited
    turns: tuple[tuple[Attempt, ...], ...] = ()
    recent: tuple[Attempt, ...] = ()
    open: Attempt | None = None
    asked: Asked | None = None
    turn: int | None = None
    step: int | None = None
    provider: str | None = None
    model: str | None = None


def calls(state: Attempts) -> Iterator[Attempt]:
    """Every call so far, in order; one that is waited for comes last, as ``unanswered``."""
    for turn in state.turns:
        yield from turn
    yield from state.recent
    if state.open is not None:
        yield state.open
    elif state.asked is not None:
        yield _unanswered(state, state.asked)


def begin(header: SessionHeader) -> Attempts:
    """The state before the first event."""
    return Attempts(Inherited.of(header))


def after(state: Attempts, event: Recorded) -> Attempts:
    """The state after ``event``, of a type in ``HANDLES``; the same object where it changes nothing."""
    if goes_on(state, event):
        return state
    found = _HANDLERS[event.type](state, event, members.of(event))
    return state if found is not state and _same(found, state) else found


def goes_on(state: Attempts, event: Recorded) -> bool:
    """Whether ``event`` just begins or ends a block of the open call."""
    call = state.open
    if call is None or event.type != "assistant/chunk":
        return False
    return block_chunks.place_of(event) == (call.turn, call.step)


def _same(one: Attempts, other: Attempts) -> bool:
    """Whether two states say the same, told without a look at turns that are over."""
    return (
        one.turns is other.turns
        and (one.turn, one.step, one.asked, one.open) == (other.turn, other.step, other.asked, other.open)
        and (one.provider, one.model, one.inherited) == (other.provider, other.model, other.inherited)
        and one.recent == other.recent
    )


# Boundaries


def _turn_start(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    state = _end_turn(state, event, {"kind": "interrupted"} if state.turn is not None else {})
    return replace(state, turn=whole(data, "turn"))


def _turn_end(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    return _end_turn(state, event, members.inner(data, "reason"))


def _step_start(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    state = _end_step(state, event)
    turn = whole(data, "turn")
    return replace(
        state,
        turn=state.turn if turn is None else turn,
        step=whole(data, "step"),
        asked=Asked(event.seq, event.time_ms),
    )


def _step_end(state: Attempts, event: Recorded, _data: dict[str, Any]) -> Attempts:
    return _end_step(state, event)


def _end_seed(state: Attempts, event: Recorded, _data: dict[str, Any]) -> Attempts:
    state = _close(state, event)
    return replace(state, inherited=state.inherited.after(event))


def _end_turn(state: Attempts, event: Recorded, reason: dict[str, Any]) -> Attempts:
    state = _end_step(state, event)
    if state.recent:
        *front, last = (_settled(attempt, reason, event.time_ms) for attempt in state.recent)
        if last.outcome == "unanswered" and reason.get("kind") == "error":
            last = replace(last, failure=failure_of(members.inner(reason, "error")))
        state = replace(state, turns=(*state.turns, (*front, last)), recent=())
    return replace(state, turn=None)


def _end_step(state: Attempts, event: Recorded) -> Attempts:
    state = _close(state, event)
    if state.asked is not None:
        silent = replace(_unanswered(state, state.asked), to_seq=event.seq, ended_ms=event.time_ms)
        state = replace(state, recent=(*state.recent, silent), asked=None)
    return replace(state, step=None)


def _close(state: Attempts, event: Recorded) -> Attempts:
    """No more chunks come for the open call: ``event`` lies behind them."""
    if state.open is None:
        return state
    closed = replace(state.open, to_seq=event.seq)
    return replace(state, recent=(*state.recent, closed), open=None)


def _settled(attempt: Attempt, reason: dict[str, Any], ended_ms: int) -> Attempt:
    """How a call without an end ended, by the reason that the end of its turn gives."""
    if attempt.outcome != "open":
        return attempt
    match reason.get("kind"):
        case "aborted":
            return replace(attempt, outcome="cancelled", ended_ms=ended_ms)
        case "error":
            failure = failure_of(members.inner(reason, "error"))
            return replace(attempt, outcome="failed", failure=failure, ended_ms=ended_ms)
        case "interrupted":
            return replace(attempt, outcome="crashed")
    return attempt


# Streams


def _chunk(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    chunk = members.inner(data, "chunk")
    kind = chunk.get("type")
    if kind not in ("block-start", "block-end", "usage", "finish"):
        return state
    place = (whole(data, "turn"), whole(data, "step"))
    attempt = state.open
    if attempt is not None and (attempt.turn, attempt.step) != place:
        state, attempt = _close(state, event), None
    if attempt is None:
        attempt = _new(state, event, place, started_ms=event.time_ms)
        state = replace(state, open=attempt, asked=None)
    if kind == "usage":
        return replace(state, open=replace(attempt, tokens=tokens_of(chunk) or attempt.tokens))
    if kind == "finish":
        outcome, finish, failure = finished_by(members.inner(chunk, "reason"))
        done = replace(
            attempt,
            outcome=outcome,
            finish=finish,
            failure=failure,
            to_seq=event.seq + 1,
            ended_ms=event.time_ms,
        )
        return replace(state, recent=(*state.recent, done), open=None)
    return state


def _message(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    if isinstance(event.surface_op, Replace):
        return state  # a message that takes the place of another; no call made it
    message = members.inner(data, "message")
    source = members.inner(message, "source")
    provider, model = members.text(source, "provider"), members.text(source, "model")
    if isinstance(data.get("stream"), list):
        state, attempt = _embedded(state, event, data)
    else:
        state, attempt = _answered(state, event, data)
    if attempt.outcome == "open":
        cancelled = data.get("interrupted") is True
        outcome: Outcome = "cancelled" if cancelled else "finished"
        attempt = replace(attempt, outcome=outcome, ended_ms=event.time_ms)
    attempt = replace(
        attempt,
        message_seq=event.seq,
        message_id=members.text(message, "id"),
        tokens=tokens_of(data) or attempt.tokens,
        provider=provider or attempt.provider,
        model=model or attempt.model,
    )
    return replace(
        state,
        recent=(*state.recent, attempt),
        asked=None,
        provider=provider or state.provider,
        model=model or state.model,
    )


def _answered(state: Attempts, event: Recorded, data: dict[str, Any]) -> tuple[Attempts, Attempt]:
    """The call whose chunks, events before it, became this message; it is taken out of the state."""
    place = (whole(data, "turn"), whole(data, "step"))
    sources = event.source_seqs
    found = state.open
    if found is not None and ((found.turn, found.step) != place or sources == ()):
        state, found = _close(state, event), None
    if found is not None:
        state = replace(state, open=None)
        found = replace(found, to_seq=event.seq)
    elif sources != () and state.recent:
        last = state.recent[-1]
        at_place = last.kind == STEP and (last.turn, last.step) == place
        if at_place and last.outcome in ("finished", "open") and last.message_seq is None:
            state, found = replace(state, recent=state.recent[:-1]), last
    if found is None:
        found = _new(state, event, place)
    if sources:
        found = replace(found, from_seq=min(sources), to_seq=max(sources) + 1)
    elif found.seq == event.seq:
        found = replace(found, to_seq=event.seq + 1)
    return state, found


def _attempt(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    state, attempt = _embedded(state, event, data)
    return replace(state, recent=(*state.recent, attempt), asked=None)


def _embedded(state: Attempts, event: Recorded, data: dict[str, Any]) -> tuple[Attempts, Attempt]:
    """The call whose stream the event holds."""
    state = _close(state, event)
    stream = summarise(data)
    attempt = _new(
        state,
        event,
        (whole(data, "turn"), whole(data, "step")),
        to_seq=event.seq + 1,
        started_ms=stream.started_ms,
        first_token_ms=stream.first_token_ms,
        tokens=stream.tokens,
    )
    if stream.finish is not None:
        outcome, finish, failure = finished_by(stream.finish)
        ended_ms = event.time_ms if stream.finished_ms is None else stream.finished_ms
        attempt = replace(attempt, outcome=outcome, finish=finish, failure=failure, ended_ms=ended_ms)
    return state, attempt


# Retries, summaries, routes


def _retry(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    place = (whole(data, "turn"), whole(data, "step"))
    retry, failure = retry_of(data, event.seq), failure_of(members.inner(data, "failure"))
    state = _close(state, event)
    last = state.recent[-1] if state.recent else None
    known = last is not None and last.kind == STEP and (last.turn, last.step) == place
    if last is None or not known or last.outcome not in ("failed", "open") or last.retry is not None:
        attempt = _new(state, event, place, to_seq=event.seq)
        attempt = replace(attempt, outcome="failed", failure=failure, ended_ms=event.time_ms, retry=retry)
        return replace(state, recent=(*state.recent, attempt), asked=None)
    if last.outcome == "open":
        last = replace(last, outcome="failed", failure=failure, ended_ms=event.time_ms)
    return replace(state, recent=(*state.recent[:-1], replace(last, retry=retry)), asked=None)


def _retry_started(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    last = state.recent[-1] if state.recent else None
    if last is None or last.retry is None or last.retry.started_ms is not None:
        return state
    if (last.retry.id, last.retry.number) != (members.text(data, "retryId"), whole(data, "retry")):
        return state
    begun = replace(last, retry=replace(last.retry, started_ms=event.time_ms))
    asked = None if state.step is None else Asked(event.seq, event.time_ms)
    return replace(state, recent=(*state.recent[:-1], begun), asked=asked)


def _summary(state: Attempts, event: Recorded, data: dict[str, Any]) -> Attempts:
    if data.get("llmStreamCall") is not True:
        return state
    attempt = Attempt(
        kind=SUMMARY,
        turn=state.turn,
        step=state.step,
        number=0,
        seq=event.seq,
        from_seq=event.seq,
        to_seq=event.seq + 1,
        outcome="finished",
        ended_ms=event.time_ms,
        provider=members.text(data, "provider"),
        model=members.text(data, "model"),
        tokens=tokens_of(data),
    )
    return replace(state, recent=(*state.recent, attempt))


def _header(state: Attempts, _event: Recorded, data: dict[str, Any]) -> Attempts:
    return _context(state, _event, members.inner(members.inner(data, "header"), "config"))


def _context(state: Attempts, _event: Recorded, data: dict[str, Any]) -> Attempts:
    provider = members.text(data, "provider") or state.provider
    return replace(state, provider=provider, model=members.text(data, "model") or state.model)


def _new(state: Attempts, event: Recorded, place: tuple[int | None, int | None], **known: Any) -> Attempt:
    """A call that ``event`` shows first. One that was waited for is this one."""
    asked_ms = None if state.asked is None else state.asked.ms
    return _numbered(state, place, event.seq, asked_ms=asked_ms, **known)


def _unanswered(state: Attempts, asked: Asked) -> Attempt:
    place = (state.turn, state.step)
    return _numbered(state, place, asked.seq, asked_ms=asked.ms, outcome="unanswered")


def _numbered(state: Attempts, place: tuple[int | None, int | None], seq: int, **known: Any) -> Attempt:
    last = next((attempt for attempt in reversed(state.recent) if attempt.kind == STEP), None)
    same = last is not None and (last.turn, last.step) == place
    return Attempt(
        kind=STEP,
        turn=place[0],
        step=place[1],
        number=last.number + 1 if last is not None and same else 1,
        seq=seq,
        from_seq=seq,
        provider=state.provider,
        model=state.model,
        **known,
    )


_HANDLERS: Mapping[str, Callable[[Attempts, Recorded, dict[str, Any]], Attempts]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "session/end-seed": _end_seed,
    "assistant/chunk": _chunk,
    "assistant/message": _message,
    "assistant/attempt": _attempt,
    "llm/retry": _retry,
    "llm/retry-started": _retry_started,
    "compaction/summary": _summary,
    "request/header": _header,
    "request/context": _context,
}

HANDLES = frozenset(_HANDLERS)
"""The types of events that a fold of calls looks at."""
