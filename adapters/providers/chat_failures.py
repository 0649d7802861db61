"""Failures as chat completions tell them: ``{"error": {message, type, param, code}}``, over HTTP or inside a stream.

Inside a stream the wording decides (see ``http_failures``), then a numeric ``code``; the first row that fits:

==========================================  ===========================
a used-up quota                             ``QUOTA``
the context bound                           ``CONTEXT_WINDOW_EXCEEDED``
too many requests, or 429                   ``RATE_LIMIT``
a failed or overloaded server, or 5xx       ``SERVER``
any other                                   ``PROVIDER_ERROR``
==========================================  ===========================

What is written reads back as the same failure: the type and the code say it where the message does not. An answer of
HTTP has the status of the failure, or the usual one of its code; a wait is told in whole seconds, rounded up.
Source: docs/providers.md, "Chat completions".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from playhead.adapters.providers.dialect import WireError
from playhead.adapters.providers.http_failures import (
    context_worded,
    error_message,
    error_words,
    quota_worded,
    rate_limit_worded,
    server_worded,
)
from playhead.eventstore.failures import Failure


class _Told(NamedTuple):
    """How a failure is told."""

    status: int
    type: str
    code: str


_TOLD: Mapping[str, _Told] = {
    "AUTH": _Told(401, "authentication_error", "invalid_api_key"),
    "QUOTA": _Told(429, "insufficient_quota", "insufficient_quota"),
    "RATE_LIMIT": _Told(429, "rate_limit_error", "rate_limit_exceeded"),
    "INVALID_REQUEST": _Told(400, "invalid_request_error", "invalid_request_error"),
    "CONTEXT_WINDOW_EXCEEDED": _Told(400, "invalid_request_error", "context_length_exceeded"),
    "SERVER": _Told(500, "server_error", "server_error"),
    "TIMEOUT": _Told(504, "server_error", "timeout"),
}

_OTHER = _Told(500, "provider_error", "provider_error")


def told_failure(error: dict[str, Any] | str) -> Failure:
    """The failure that an ``error`` inside a stream stands for."""
    words = error_words(error)
    told = error.get("code") if isinstance(error, dict) else None
    number = str(told) if isinstance(told, str | int) else ""
    if quota_worded(words):
        code = "QUOTA"
    elif context_worded(words):
        code = "CONTEXT_WINDOW_EXCEEDED"
    elif rate_limit_worded(words) or number == "429":
        code = "RATE_LIMIT"
    elif server_worded(words) or _status(number) >= 500:
        code = "SERVER"
    else:
        code = "PROVIDER_ERROR"
    return Failure(message=error_message(error) or "the provider reported an error in its answer", code=code)


def error_body(failure: Failure) -> dict[str, Any]:
    """The object that tells a client of ``failure``."""
    told = _told(failure)
    return {"error": {"message": failure.message, "type": told.type, "param": None, "code": told.code}}


def error_answer(failure: Failure) -> WireError:
    """The answer of HTTP that tells a client of ``failure``, in place of a stream."""
    status, wait_ms = failure.status, failure.provider_retry_after_ms
    headers = {}
    if wait_ms is not None and math.isfinite(wait_ms) and wait_ms > 0:
        headers["retry-after"] = str(math.ceil(wait_ms / 1000))
    if failure.request_id:
        headers["x-request-id"] = failure.request_id
    is_error = status is not None and 400 <= status <= 599
    return WireError(status if is_error and status else _told(failure).status, error_body(failure), headers)


def _told(failure: Failure) -> _Told:
    status = _status(failure.code.removeprefix("HTTP_"))
    if failure.code.startswith("HTTP_") and status >= 400:
        return _Told(
            status, "invalid_request_error" if status < 500 else "server_error", failure.code.lower()
        )
    return _TOLD.get(failure.code, _OTHER)


def _status(number: str) -> int:
    """The status of HTTP that ``number`` is, or 0."""
    is_status = len(number) == 3 and number.isascii() and number.isdecimal() and number <= "599"
    return int(number) if is_status else 0
