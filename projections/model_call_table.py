"""The read table of model calls: one row a call."""

from __future__ import annotations

from playhead.projections.attempt import Attempt, CallFailure, Retry, Tokens
from playhead.projections.projection import Column, ReadTable, Row

TOKEN_COLUMNS = (
    Column("input_tokens", "int", "input that was not cached", optional=True),
    Column("output_tokens", "int", "output, thinking included", optional=True),
    Column("cache_read_tokens", "int", "input that was read from a cache", optional=True),
    Column("cache_write_tokens", "int", "input that was written to a cache", optional=True),
    Column("reasoning_tokens", "int", "thinking, a part of the output", optional=True),
    Column("total_tokens", "int", "the sum that the provider gave", optional=True),
)
"""Disjoint figures but for the last two; null is what was not reported, which is not 0."""

MODEL_CALLS = ReadTable(
    "read_model_call",
    "Every model call: retries, failures, and calls that never came to an end among them.",
    (
        Column("kind", "text", "step, or summary for the call behind a compaction"),
        Column("turn", "int", "its turn", optional=True),
        Column("step", "int", "its step in the turn", optional=True),
        Column("number", "int", "which call of the step, from 1; 0 for a summary"),
        Column("inherited", "bool", "made by the session that this one was forked from"),
        Column("outcome", "text", "finished, failed, cancelled, crashed, open or unanswered"),
        Column("finish", "text", "the finish reason", optional=True),
        Column("provider", "text", "whom the request went to", optional=True),
        Column("model", "text", "which model", optional=True),
        Column("from_seq", "int", "seq of the first event of its stream"),
        Column("to_seq", "int", "seq behind its last event", optional=True),
        Column(
            "asked_ms", "int", "when the step, or the wait before the retry, was done with", optional=True
        ),
        Column("started_ms", "int", "the first chunk", optional=True),
        Column("first_token_ms", "int", "the first token; known from log format 2 on", optional=True),
        Column("ended_ms", "int", "the end of the stream", optional=True),
        *TOKEN_COLUMNS,
        Column("failure_code", "text", "why it failed, for programs", optional=True),
        Column("failure_message", "text", "why it failed, for people", optional=True),
        Column("failure_status", "int", "the HTTP status", optional=True),
        Column("retry_after_ms", "real", "how long the provider asked to wait", optional=True),
        Column("request_id", "text", "the provider's name for the request", optional=True),
        Column(
            "retry_id", "text", "the chain of retries that was made because this call failed", optional=True
        ),
        Column("retry_number", "int", "which retry of the chain followed", optional=True),
        Column("retry_delay_ms", "real", "the wait before it", optional=True),
        Column(
            "retry_started_ms", "int", "when the wait was over; null where it was broken off", optional=True
        ),
        Column("message_seq", "int", "seq of the answer", optional=True),
        Column("message_id", "text", "id of the answer", optional=True),
    ),
    key=("seq",),
)


def row_of(attempt: Attempt, inherited: bool) -> Row:
    """The row of a call."""
    failure = attempt.failure or CallFailure()
    retry = attempt.retry or Retry(None, None, attempt.seq)
    return Row(
        MODEL_CALLS.name,
        attempt.seq,
        (
            attempt.kind,
            attempt.turn,
            attempt.step,
            attempt.number,
            inherited,
            attempt.outcome,
            attempt.finish,
            attempt.provider,
            attempt.model,
            attempt.from_seq,
            attempt.to_seq,
            attempt.asked_ms,
            attempt.started_ms,
            attempt.first_token_ms,
            attempt.ended_ms,
            *token_values(attempt.tokens),
            failure.code,
            failure.message,
            failure.status,
            failure.retry_after_ms,
            failure.request_id,
            retry.id,
            retry.number,
            retry.delay_ms,
            retry.started_ms,
            attempt.message_seq,
            attempt.message_id,
        ),
    )


def token_values(tokens: Tokens | None) -> tuple[int | None, ...]:
    """The values of ``TOKEN_COLUMNS``."""
    if tokens is None:
        return (None,) * len(TOKEN_COLUMNS)
    return (
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_write,
        tokens.reasoning,
        tokens.total,
    )
