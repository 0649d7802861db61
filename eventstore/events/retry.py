"""Retries of a model call inside its step. Written by the retry policy.

``llm/retry`` stands before the wait, ``llm/retry-started`` after it; the second is missing when the wait was
cancelled. Retries of one (turn, step, provider, policy) are a chain with one id, counted from 1.
"""

from __future__ import annotations

from playhead.eventstore.failures import Failure
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Number, Text, Whole


@event_type("llm/retry")
class RetryScheduled(Event):
    """``mode`` is ``normal`` (with ``max_retries``) or ``always``; ``policy_key`` is a JSON text."""

    retry_id: Text
    turn: Whole
    step: Whole
    provider: Text
    mode: Text
    policy_key: Text
    retry: Whole
    delay_ms: Number
    failure: Failure
    max_retries: Whole | None = None


@event_type("llm/retry-started")
class RetryStarted(Event):
    """The wait is over."""

    retry_id: Text
    turn: Whole
    step: Whole
    retry: Whole
