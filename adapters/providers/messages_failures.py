"""Failures as the Messages format tells them: an object of type ``error``, over HTTP or inside a stream.

``{"type": "error", "error": {"type", "message"}}``. What the types stand for, and which of them says a failure:

=============================================  ==========================  ======================================
type                                           failure                     said for
=============================================  ==========================  ======================================
``authentication_error``, ``permission_error``  ``AUTH``                   ``AUTH`` (the second with status 403)
``invalid_request_error``                      ``INVALID_REQUEST``, or     both of these
                                               ``CONTEXT_WINDOW_EXCEEDED``
                                               where the wording says so
``request_too_large``                          ``INVALID_REQUEST``         status 413
``not_found_error``                            ``HTTP_404``                ``HTTP_404``
``rate_limit_error``                           ``RATE_LIMIT``              ``RATE_LIMIT``
``billing_error``                              ``QUOTA``                   ``QUOTA``
``timeout_error``                              ``TIMEOUT``                 ``TIMEOUT``
``api_error``, ``overloaded_error``            ``SERVER``                  ``SERVER`` (the second with status 529)
any other                                      ``PROVIDER_ERROR``          ``PROVIDER_ERROR`` (``provider_error``)
=============================================  ==========================  ======================================

A failure with none of these codes is an ``api_error``, or an ``invalid_request_error`` where its code is an
``HTTP_<status>`` below 500. Where a code follows from wording alone and the message has none, ``error.code`` has it.
Source: docs/providers.md, "Messages"; platform.claude.com, "Errors" (2026).
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
)
from playhead.eventstore import json_text
from playhead.eventstore.failures import Failure


class _Said(NamedTuple):
    """How a failure is told: the type of the error, and the status of an answer that is nothing else."""

    type: str
    status: int


_TYPES: Mapping[str, str] = {
    "authentication_error": "AUTH",
    "permission_error": "AUTH",
    "invalid_request_error": "INVALID_REQUEST",
    "request_too_large": "INVALID_REQUEST",
    "not_found_error": "HTTP_404",
    "rate_limit_error": "RATE_LIMIT",
    "billing_error": "QUOTA",
    "timeout_error": "TIMEOUT",
    "api_error": "SERVER",
    "overloaded_error": "SERVER",
}

_SAID: Mapping[str, _Said] = {
    "AUTH": _Said("authentication_error", 401),
    "INVALID_REQUEST": _Said("invalid_request_error", 400),
    "CONTEXT_WINDOW_EXCEEDED": _Said("invalid_request_error", 400),
    "HTTP_404": _Said("not_found_error", 404),
    "RATE_LIMIT": _Said("rate_limit_error", 429),
    "QUOTA": _Said("billing_error", 402),
    "TIMEOUT": _Said("timeout_error", 504),
    "SERVER": _Said("api_error", 500),
    "PROVIDER_ERROR": _Said("provider_error", 500),
}

_BY_STATUS: Mapping[int, str] = {
    403: "permission_error",
    413: "request_too_large",
    529: "overloaded_error",
}

TOLD = frozenset(_SAID)
"""The codes that an error inside a stream can say."""


def told_failure(payload: Mapping[str, Any], label: str) -> Failure:
    """The failure that an ``error`` event inside a stream stands for."""
    error = payload.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    code = _TYPES.get(kind, "PROVIDER_ERROR") if isinstance(kind, str) else "PROVIDER_ERROR"
    if code == "INVALID_REQUEST" and kind == "invalid_request_error" and context_worded(error_words(error)):
        code = "CONTEXT_WINDOW_EXCEEDED"
    return Failure(message=error_message(error) or f"{label} reported an error in its answer", code=code)


def error_body(failure: Failure) -> dict[str, Any]:
    """The object that tells a client of ``failure``."""
    kind = _BY_STATUS.get(failure.status or 0) or _said(failure).type
    error = {"type": kind, "message": failure.message}
    if failure.code == "QUOTA" and not quota_worded(failure.message):
        error["code"] = "insufficient_quota"
    if failure.code == "CONTEXT_WINDOW_EXCEEDED" and not context_worded(failure.message):
        error["code"] = "context_length_exceeded"
    return {"type": "error", "error": error}


def error_answer(failure: Failure) -> WireError:
    """The answer of HTTP that tells a client of ``failure``, in place of a stream."""
    headers = {}
    wait_ms = failure.provider_retry_after_ms
    if wait_ms is not None and math.isfinite(wait_ms) and wait_ms > 0:
        headers["retry-after"] = json_text.number(wait_ms / 1000)
    if failure.request_id is not None:
        headers["request-id"] = failure.request_id
    return WireError(failure.status or _said(failure).status, error_body(failure), headers)


def _said(failure: Failure) -> _Said:
    told = _SAID.get(failure.code)
    if told is not None:
        return told
    number = failure.code.removeprefix("HTTP_")
    is_status = number != failure.code and len(number) == 3 and number.isdecimal()
    status = int(number) if is_status and 400 <= int(number) <= 599 else 500
    return _Said("invalid_request_error" if status < 500 else "api_error", status)
