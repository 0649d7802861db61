"""Why a provider refused a call: an answer of HTTP that is no success, as a ``Failure``.

The first row that fits decides; policy decides by the code alone.

=====================================  ===========================
401, 403                               ``AUTH``
413                                    ``INVALID_REQUEST``
wording of a used-up quota             ``QUOTA``, whatever status
429                                    ``RATE_LIMIT``
400 with wording of the context bound  ``CONTEXT_WINDOW_EXCEEDED``
400                                    ``INVALID_REQUEST``
500 and above (529 is "overloaded")    ``SERVER``
any other                              ``HTTP_<status>``
=====================================  ===========================

Wording is looked for in ``code``, ``type`` and ``message`` of the body's ``error``, in any case, with words apart
by blanks, ``_`` or ``-``. The message of a failure is ``error.message`` as it came, else a general one with the
status: a body that is no JSON, or JSON of another shape, is fine. The same wording classifies an error that comes
inside a stream, where the status was 200. Format: docs/providers.md, "Client and failures".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from playhead.eventstore.failures import Failure
from playhead.eventstore.ids import SAFE_INTEGER

REQUEST_ID_HEADERS = (
    "x-request-id",
    "request-id",
    "x-ds-trace-id",
    "x-ms-request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "cf-ray",
)
"""Headers in which providers and gateways name a request, the best first."""


def http_failure(status: int, body: object, headers: Mapping[str, str], now_ms: float) -> Failure:
    """The failure that an answer with ``status`` stands for.

    ``body`` is the parsed JSON body, or None where there was none; ``headers`` may be spelled in any case;
    ``now_ms`` is what a ``retry-after`` with a date is measured from.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    given = {name.lower(): value for name, value in headers.items()}
    return Failure(
        message=error_message(error) or f"the provider answered with HTTP status {status}",
        code=_code(status, error_words(error)),
        status=status if 100 <= status <= 599 else None,
        provider_retry_after_ms=retry_after_ms(given.get("retry-after", ""), now_ms),
        request_id=request_id(given),
    )


def error_message(error: object) -> str:
    """What an ``error`` of a body says to people, or "". Some gateways give text in place of an object."""
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) else ""


def error_words(error: object) -> str:
    """The text of an ``error`` of a body in which wording is looked for: its code, type and message."""
    if not isinstance(error, Mapping):
        return error_message(error)
    parts = (error.get(member) for member in ("code", "type", "message"))
    return "\n".join(part for part in parts if isinstance(part, str))


def quota_worded(text: str) -> bool:
    """Whether ``text`` says that a quota, balance or budget is used up: waiting will not help."""
    return _QUOTA.search(text) is not None


def context_worded(text: str) -> bool:
    """Whether ``text`` says that the request does not fit into the model's context."""
    return _CONTEXT.search(text) is not None


def rate_limit_worded(text: str) -> bool:
    """Whether ``text`` says that there were too many requests in too short a time."""
    return _RATE_LIMIT.search(text) is not None


def server_worded(text: str) -> bool:
    """Whether ``text`` says that the provider itself failed or is overloaded."""
    return _SERVER.search(text) is not None


def retry_after_ms(value: str, now_ms: float) -> float | None:
    """How long a ``retry-after`` header asks to wait: seconds in digits, or a date of HTTP minus ``now_ms``.

    None for anything else, and for a wait that is not positive and finite.
    """
    value = value.strip()
    if re.fullmatch(r"[0-9]+", value):
        wait_ms = float(value) * 1000
    else:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        utc = date if date.tzinfo else date.replace(tzinfo=UTC)
        wait_ms = utc.timestamp() * 1000 - now_ms
    if not math.isfinite(wait_ms) or wait_ms <= 0:
        return None
    return int(wait_ms) if wait_ms.is_integer() and wait_ms <= SAFE_INTEGER else wait_ms


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's name for the request; ``headers`` have lower-case names. For people who ask for support."""
    given = (headers.get(name, "").strip() for name in REQUEST_ID_HEADERS)
    return next((value for value in given if value), None)


def _code(status: int, words: str) -> str:
    if status in (401, 403):
        return "AUTH"
    if status == 413:
        return "INVALID_REQUEST"
    if quota_worded(words):
        return "QUOTA"
    if status == 429:
        return "RATE_LIMIT"
    if status == 400:
        return "CONTEXT_WINDOW_EXCEEDED" if context_worded(words) else "INVALID_REQUEST"
    return "SERVER" if status >= 500 else f"HTTP_{status}"


def _wording(*phrases: str) -> re.Pattern[str]:
    """Matches any of ``phrases``; a blank in one stands for what may stand between two words."""
    return re.compile("|".join(phrase.replace(" ", r"[\s_-]+") for phrase in phrases), re.IGNORECASE)


_IS = "(?: (?:is|are|was|were|has been|have been))?"

_QUOTA = _wording(
    r"insufficient (?:quota|balance|credits?)",
    rf"(?:quota|usage limit){_IS} (?:exceeded|exhausted|reached)",
    r"exceed(?:ed|s)?(?: (?:your|the|current))* quota",
    rf"(?:balance|credits?){_IS} (?:exhausted|depleted)",
    r"out of (?:credits?|budget)",
)
_CONTEXT = _wording(
    rf"context (?:length|window){_IS} (?:exceeded|overflow(?:ed)?|limit{_IS} exceeded)",
    r"maximum context (?:length|window)",
    rf"(?:request|prompt|input|messages?){_IS} too (?:large|long) for (?:the )?(?:model\S?\S? )?context",
    rf"(?:request|prompt|input){_IS} too (?:large|long) for (?:this|the) model",
    r"(?:request|prompt|input|messages?) exceeds?\b[^\n]{1,80}?\bcontext",
    r"prompt is too long",
)
_RATE_LIMIT = _wording(r"rate[\s_-]*limit", r"too many requests")
_SERVER = _wording(r"server[\s_-]*error", r"server had an error", r"overloaded")
