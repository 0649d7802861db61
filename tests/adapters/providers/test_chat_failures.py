"""Failures as chat completions tell them, over HTTP and inside a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.adapters.providers.chat import OPENAI_CHAT
from playhead.adapters.providers.http_failures import http_failure
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.failures import Failure

FAILURES = [
    Failure(message="no key", code="AUTH", status=401),
    Failure(message="not yours", code="AUTH", status=403),
    Failure(message="Insufficient Balance", code="QUOTA", status=402),
    Failure(message="later", code="QUOTA", status=429),
    Failure(message="slow down", code="RATE_LIMIT", status=429, provider_retry_after_ms=1000),
    Failure(message="bad tool", code="INVALID_REQUEST", status=400, request_id="r1"),
    Failure(message="too large", code="INVALID_REQUEST", status=413),
    Failure(message="too much", code="CONTEXT_WINDOW_EXCEEDED", status=400),
    Failure(message="no such model", code="HTTP_404", status=404),
    Failure(message="down", code="SERVER", status=500),
    Failure(message="down", code="SERVER", status=503),
    Failure(message="busy", code="SERVER", status=529),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: f"{failure.code}-{failure.status}")
def test_a_refusal_reads_back_as_the_failure_that_it_tells(failure: Failure) -> None:
    answer = OPENAI_CHAT.error(failure)
    assert http_failure(answer.status, answer.body, answer.headers, now_ms=0) == failure


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *(("AUTH", 401), ("QUOTA", 429), ("RATE_LIMIT", 429), ("INVALID_REQUEST", 400), ("SERVER", 500)),
        *(("CONTEXT_WINDOW_EXCEEDED", 400), ("TIMEOUT", 504), ("HTTP_418", 418), ("HTTP_999", 500)),
        *(("HTTP_200", 500), ("HTTP_", 500), ("PROVIDER_ERROR", 500), ("ANYTHING", 500), ("", 500)),
    ],
)
def test_a_failure_without_status_gets_the_usual_one_of_its_code(code: str, status: int) -> None:
    assert OPENAI_CHAT.error(Failure(message="x", code=code)).status == status


@pytest.mark.parametrize("status", [0, 200, 302, 600, -1])
def test_an_answer_that_tells_a_failure_is_never_a_success(status: int) -> None:
    assert OPENAI_CHAT.error(Failure(message="x", code="RATE_LIMIT", status=status)).status == 429


@pytest.mark.parametrize(
    ("wait_ms", "told"), [(1, "1"), (1000, "1"), (1001.5, "2"), (0, None), (-5, None), (float("inf"), None)]
)
def test_a_wait_is_told_in_whole_seconds_and_never_shortened(wait_ms: float, told: str | None) -> None:
    failure = Failure(message="x", code="RATE_LIMIT", provider_retry_after_ms=wait_ms)
    assert OPENAI_CHAT.error(failure).headers.get("retry-after") == told


@given(
    message=st.text(st.characters(exclude_categories=()), max_size=5),
    code=st.sampled_from(["SERVER", "RATE_LIMIT", "QUOTA", "CONTEXT_WINDOW_EXCEEDED", "PROVIDER_ERROR"]),
)
def test_an_error_event_keeps_message_and_code(message: str, code: str) -> None:
    with pytest.raises(AdapterError) as raised:
        list(OPENAI_CHAT.decoder().push(OPENAI_CHAT.error_event(Failure(message=message, code=code))))
    assert raised.value.code == code
    assert raised.value.failure.message in (message, "the provider reported an error in its answer")
