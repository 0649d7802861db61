"""Failures in the Messages format: told to a client, and classified again as what they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from exchanges import MESSAGES_RUNTIMES, Scenario, scenarios
from wire import received

from playhead.adapters.providers.http_failures import http_failure
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES
from playhead.adapters.providers.messages_failures import told_failure
from playhead.adapters.providers.sse import encode_event
from playhead.eventstore.chunks import FinishChunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError

HTTP = [
    Failure(message="no key", code="AUTH", status=401),
    Failure(message="not you", code="AUTH", status=403),
    Failure(message="what?", code="INVALID_REQUEST", status=400),
    Failure(message="too large", code="INVALID_REQUEST", status=413),
    Failure(message="prompt is too long", code="CONTEXT_WINDOW_EXCEEDED", status=400),
    Failure(message="too much", code="CONTEXT_WINDOW_EXCEEDED", status=400),
    Failure(message="no such model", code="HTTP_404", status=404),
    Failure(message="slow down", code="RATE_LIMIT", status=429, provider_retry_after_ms=1000),
    Failure(message="nothing left", code="QUOTA", status=402),
    Failure(message="quota exceeded", code="QUOTA", status=429),
    Failure(message="broken", code="SERVER", status=500, request_id="req-1"),
    Failure(message="busy", code="SERVER", status=529),
]


@pytest.mark.parametrize("failure", HTTP, ids=lambda failure: f"{failure.code}-{failure.status}")
def test_an_error_answer_is_classified_as_the_failure_that_it_tells(failure: Failure) -> None:
    status, body, headers = ANTHROPIC_MESSAGES.error(failure)
    assert http_failure(status, json.loads(json.dumps(body)), headers, now_ms=0) == failure


@pytest.mark.parametrize(
    ("failure", "status", "type"),
    [
        (Failure(message="x", code="AUTH"), 401, "authentication_error"),
        (Failure(message="x", code="AUTH", status=403), 403, "permission_error"),
        (Failure(message="x", code="INVALID_REQUEST", status=413), 413, "request_too_large"),
        (Failure(message="x", code="QUOTA"), 402, "billing_error"),
        (Failure(message="x", code="TIMEOUT"), 504, "timeout_error"),
        (Failure(message="x", code="SERVER", status=529), 529, "overloaded_error"),
        (Failure(message="x", code="HTTP_418"), 418, "invalid_request_error"),
        (Failure(message="x", code="HTTP_200"), 500, "api_error"),
        (Failure(message="x", code="STREAM_CLOSED"), 500, "api_error"),
    ],
    ids=str,
)
def test_status_and_type_are_those_that_clients_know(failure: Failure, status: int, type: str) -> None:
    answer = ANTHROPIC_MESSAGES.error(failure)
    assert (answer.status, answer.body["error"]["type"]) == (status, type)
    assert answer.body["type"] == "error"


@pytest.mark.parametrize(
    ("wait_ms", "header"), [(1000, "1"), (1500, "1.5"), (None, None), (0, None), (float("inf"), None)]
)
def test_a_wait_is_told_in_seconds(wait_ms: Any, header: str | None) -> None:
    failure = Failure(message="x", code="RATE_LIMIT", provider_retry_after_ms=wait_ms)
    assert ANTHROPIC_MESSAGES.error(failure).headers.get("retry-after") == header


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", "SERVER"),
        ("api_error", "SERVER"),
        ("rate_limit_error", "RATE_LIMIT"),
        ("authentication_error", "AUTH"),
        ("permission_error", "AUTH"),
        ("invalid_request_error", "INVALID_REQUEST"),
        ("request_too_large", "INVALID_REQUEST"),
        ("not_found_error", "HTTP_404"),
        ("timeout_error", "TIMEOUT"),
        ("billing_error", "QUOTA"),
        ("of_tomorrow", "PROVIDER_ERROR"),
        (None, "PROVIDER_ERROR"),
        ([], "PROVIDER_ERROR"),
    ],
)
def test_an_error_in_the_stream_is_classified_by_its_type(kind: object, code: str) -> None:
    assert told_failure({"error": {"type": kind, "message": "m"}}, "X") == Failure(message="m", code=code)


@pytest.mark.parametrize("payload", [{}, {"error": None}, {"error": {}}, {"error": {"message": ""}}])
def test_an_error_without_words_gets_some(payload: dict[str, Any]) -> None:
    assert told_failure(payload, "X").message == "X reported an error in its answer"


@pytest.mark.parametrize("dialect", [ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("code", ["SERVER", "QUOTA", "CONTEXT_WINDOW_EXCEEDED", "PROVIDER_ERROR"])
def test_an_error_event_is_read_as_the_failure_that_it_tells(dialect: Any, code: str) -> None:
    failure = Failure(message="because", code=code)
    assert received(dialect, [encode_event(dialect.error_event(failure))]) == ([], failure)


@pytest.mark.parametrize("scenario", scenarios(*MESSAGES_RUNTIMES))
def test_every_recorded_refusal_is_classified_as_recorded_when_it_is_told_again(scenario: Scenario) -> None:
    for exchange in scenario.exchanges():
        if exchange.attempt is None or exchange.status in (200, None):
            continue
        (finish,) = (timed.chunk for timed in exchange.attempt.chunks())
        assert isinstance(finish, FinishChunk)
        assert isinstance(finish.reason, FinishError)
        status, body, headers = DEEPSEEK_MESSAGES.error(finish.reason.failure)
        assert status == exchange.status
        assert body["error"]["message"] == json.loads(exchange.body)["error"]["message"]
        assert http_failure(status, body, headers, now_ms=0) == finish.reason.failure
