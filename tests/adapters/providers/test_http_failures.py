"""HTTP errors of providers, classified."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.adapters.providers.http_failures import (
    REQUEST_ID_HEADERS,
    context_worded,
    error_words,
    http_failure,
    quota_worded,
    rate_limit_worded,
    request_id,
    retry_after_ms,
    server_worded,
)
from playhead.eventstore.failures import Failure

NOW_MS = 1_796_040_000_000


def failed(status: int, error: Any = None, **headers: str) -> Failure:
    return http_failure(status, {"error": error}, headers, NOW_MS)


@pytest.mark.parametrize("case", cases("sse_deepseek", "http_errors"))
def test_an_http_error_gets_the_code_of_the_vectors(case: dict[str, Any]) -> None:
    assert failed(case["status"], case["error"]).code == case["code"]


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (401, {"message": "insufficient quota"}, "AUTH"),
        (403, {}, "AUTH"),
        (413, {"message": "out of credits"}, "INVALID_REQUEST"),
        (400, {"type": "usage_limit_reached"}, "QUOTA"),
        (503, {"message": "Your balance is depleted."}, "QUOTA"),
        (429, {}, "RATE_LIMIT"),
        (400, {}, "INVALID_REQUEST"),
        (400, {"code": "context_length_exceeded"}, "CONTEXT_WINDOW_EXCEEDED"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "CONTEXT_WINDOW_EXCEEDED"),
        (422, {"message": "context length exceeded"}, "HTTP_422"),
        (302, None, "HTTP_302"),
        (500, {"message": "maximum context length"}, "SERVER"),
        (529, {}, "SERVER"),
    ],
)
def test_the_first_rule_that_fits_decides(status: int, error: Any, code: str) -> None:
    assert failed(status, error).code == code


@pytest.mark.parametrize(
    "text",
    [
        "Insufficient Balance",
        "insufficient_quota",
        "insufficient credit",
        "You exceeded your current quota, please check your plan",
        "requests exceed the quota",
        "quota-exceeded",
        "Your usage limit has been reached",
        "usage limit exhausted",
        "the balance was exhausted",
        "Credits depleted",
        "You are out of credits",
        "out of budget",
    ],
)
def test_a_used_up_quota_is_told_by_its_wording(text: str) -> None:
    assert quota_worded(text)
    assert not context_worded(text)


@pytest.mark.parametrize(
    "text",
    [
        "context_length_exceeded",
        "context window overflow",
        "Context length limit exceeded",
        "This model's maximum context length is 65536 tokens",
        "maximum context window: 8192",
        "request too large for the model's context",
        "messages are too long for context",
        "input is too large for model context",
        "Prompt too long for this model",
        "The request is too large for the model",
        "input exceeds the model's context",
        "Your messages exceed the available context",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_a_request_beyond_the_context_is_told_by_its_wording(text: str) -> None:
    assert context_worded(text)
    assert not quota_worded(text)


@pytest.mark.parametrize(
    "text", ["slow down", "bad tool schema", "the quota page moved", "context is required", ""]
)
def test_other_wording_says_nothing(text: str) -> None:
    assert not any(asked(text) for asked in (quota_worded, context_worded, rate_limit_worded, server_worded))


def test_wording_of_errors_inside_a_stream() -> None:
    assert rate_limit_worded("Rate limit reached for requests")
    assert rate_limit_worded("rate_limit_error")
    assert rate_limit_worded("Too Many Requests")
    assert server_worded("server_error")
    assert server_worded("The server had an error while processing your request")
    assert server_worded("Overloaded")


def test_the_words_of_an_error_are_its_code_type_and_message() -> None:
    assert error_words({"code": "a", "type": "b", "message": "c", "param": "d"}) == "a\nb\nc"
    assert error_words({"code": 429, "message": "slow"}) == "slow"
    assert error_words("as text") == "as text"
    assert error_words(None) == ""


def test_the_message_is_that_of_the_body_else_names_the_status() -> None:
    assert failed(500, {"message": "it broke\n"}).message == "it broke\n"
    assert failed(500, "it broke").message == "it broke"
    assert http_failure(418, None, {}, NOW_MS).message == "the provider answered with HTTP status 418"


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        ("2", 2000),
        (" 30 ", 30_000),
        ("0", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("9" * 400, None),
        ("٣", None),
        ("Mon, 30 Nov 2026 10:40:10 GMT", 10_000),
        ("Mon, 30 Nov 2026 10:40:10 -0000", 10_000),
        ("Mon, 30 Nov 2026 10:39:00 GMT", None),
        ("Mon, 99 Nov 2026 10:40:10 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_else_nothing(value: str, wait_ms: float | None) -> None:
    assert retry_after_ms(value, 1_796_035_200_000) == wait_ms


def test_headers_are_found_in_any_case() -> None:
    failure = http_failure(429, None, {"Retry-After": "3", "X-Request-ID": " r-1 "}, NOW_MS)
    assert failure.provider_retry_after_ms == 3000
    assert failure.request_id == "r-1"
    assert failure.is_valid


@pytest.mark.parametrize("name", REQUEST_ID_HEADERS)
def test_every_spelling_of_a_request_id_is_known(name: str) -> None:
    assert request_id({name: "r-7"}) == "r-7"


def test_the_best_request_id_wins_and_an_empty_one_is_none() -> None:
    assert request_id({"cf-ray": "b", "x-request-id": "a"}) == "a"
    assert request_id({"x-request-id": " ", "request-id": "c"}) == "c"
    assert request_id({}) is None


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["error", "code", "type", "message"]), inner)
    ),
    max_leaves=8,
)


@given(
    status=st.integers(0, 999),
    body=_json,
    header=st.text(),
    name=st.sampled_from(["retry-after", "request-id"]),
)
def test_any_answer_gives_a_failure_that_may_enter_a_log(
    status: int, body: Any, header: str, name: str
) -> None:
    assert http_failure(status, body, {name: header}, NOW_MS).is_valid
