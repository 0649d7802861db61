"""One model call as a log tells it: when, of whom, how it ended, what it took, and whether it was tried again.

Outcomes:

============== ============================================================================================
``finished``   the answer is whole, or a message was made of it; ``finish`` says why it stopped
``failed``     the provider or the connection failed; ``failure`` says how
``cancelled``  somebody stopped it; a message may hold the part that had come
``crashed``    a repair closed its turn while the answer came, or nothing did: the process died, or it was forked there
``open``       it began, and nothing behind it says how it ended
``unanswered`` a step, or a retry, was begun and nothing at all came of it
============== ============================================================================================

Figures that the log does not give are None, which is not zero. Times are epoch milliseconds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from playhead.eventstore import members
from playhead.eventstore.ids import SAFE_INTEGER, is_safe_integer

Outcome = Literal["finished", "failed", "cancelled", "crashed", "open", "unanswered"]

STEP, SUMMARY = "step", "summary"
"""What a call is made for: the answer of a step, or the summary of a compaction."""

FAILED_FINISHES = frozenset({"error", "aborted"})
"""The finish reasons that carry a failure; every other one is a success."""

STREAM_ENDS = frozenset({"turn/start", "turn/end", "step/start", "step/end", "llm/retry", "session/end-seed"})
"""The types of events behind which a stream of chunk events does not go on."""


class Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """What a call took. The three figures of input do not overlap; ``reasoning`` is a part of ``output``.

    ``total`` is the provider's own sum. None is what was not reported.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    total: int | None = None


class CallFailure(msgspec.Struct, frozen=True, rename="camel"):
    """Why a call failed. ``status`` is of HTTP, ``retry_after_ms`` how long the provider asked to wait."""

    code: str | None = None
    message: str | None = None
    status: int | None = None
    retry_after_ms: float | None = None
    request_id: str | None = None


class Retry(msgspec.Struct, frozen=True, rename="camel"):
    """That a failed call is made again: retry ``number`` of the chain ``id``, of ``most`` where there is a limit.

    ``started_ms`` is the end of the wait; None where it was never over.
    """

    id: str | None
    number: int | None
    seq: int
    delay_ms: float | None = None
    most: int | None = None
    started_ms: int | None = None


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """One model call. ``seq`` is the event that first shows it, and its name within the session.

    ``from_seq`` to ``to_seq`` (half-open) hold its chunks, or are the one event that holds its stream. ``number``
    counts the calls of a step from 1; a summary has 0. ``asked_ms`` is when the step, or the wait before the retry,
    was done with: the request went out then or later. ``started_ms`` is the first chunk.
    """

    kind: str
    turn: int | None
    step: int | None
    number: int
    seq: int
    from_seq: int
    to_seq: int | None = None
    outcome: Outcome = "open"
    asked_ms: int | None = None
    started_ms: int | None = None
    first_token_ms: int | None = None
    ended_ms: int | None = None
    provider: str | None = None
    model: str | None = None
    finish: str | None = None
    failure: CallFailure | None = None
    tokens: Tokens | None = None
    retry: Retry | None = None
    message_seq: int | None = None
    message_id: str | None = None


def whole(data: dict[str, Any], key: str) -> int | None:
    """The whole number under ``key``; None for anything else."""
    value = data.get(key)
    if type(value) is int and -SAFE_INTEGER <= value <= SAFE_INTEGER:  # nearly always, and quickly told
        return value
    return int(value) if is_safe_integer(value) else None


def tokens_of(data: dict[str, Any], key: str = "usage") -> Tokens | None:
    """The token counts under ``key``; None where there are none, or none that is a count."""
    usage = members.inner(data, key)
    if not usage:
        return None
    tokens = Tokens(
        input=_count(usage, "inputTokens"),
        output=_count(usage, "outputTokens"),
        cache_read=_count(usage, "cacheReadTokens"),
        cache_write=_count(usage, "cacheWriteTokens"),
        reasoning=_count(usage, "reasoningTokens"),
        total=_count(usage, "totalTokens"),
    )
    return None if tokens == _NO_TOKENS else tokens


def failure_of(failure: dict[str, Any]) -> CallFailure:
    """The failure that a finish reason, a retry or the end of a turn carries."""
    return CallFailure(
        code=members.text(failure, "code"),
        message=members.text(failure, "message"),
        status=whole(failure, "status"),
        retry_after_ms=_wait(failure, "providerRetryAfterMs"),
        request_id=members.text(failure, "requestId"),
    )


def retry_of(data: dict[str, Any], seq: int) -> Retry:
    """What an ``llm/retry`` schedules."""
    return Retry(
        id=members.text(data, "retryId"),
        number=whole(data, "retry"),
        seq=seq,
        delay_ms=_wait(data, "delayMs"),
        most=whole(data, "maxRetries"),
    )


def finished_by(reason: dict[str, Any]) -> tuple[Outcome, str | None, CallFailure | None]:
    """Outcome, finish and failure of a call that a ``finish`` chunk with this reason ended."""
    kind = members.text(reason, "kind")
    if kind in FAILED_FINISHES:
        return "failed", kind, failure_of(members.inner(reason, "failure"))
    return "finished", kind, None


def _count(data: dict[str, Any], key: str) -> int | None:
    value = data.get(key)
    if value is None or (type(value) is int and 0 <= value <= SAFE_INTEGER):
        return value
    value = whole(data, key)
    return value if value is not None and value >= 0 else None


def _wait(data: dict[str, Any], key: str) -> float | None:
    value = members.number(data, key)
    return None if value is None or abs(value) > _LONGEST_MS else float(value)


_NO_TOKENS = Tokens()
_LONGEST_MS = 2**53
"""A wait of more milliseconds is no number that every reader can hold."""
