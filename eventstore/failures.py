"""Why a model call, or a turn, failed.

A failure has a code that policy decides by, and a message for people; the message is never parsed. Codes are
upper-case words that no provider owns: ``AUTH``, ``QUOTA``, ``RATE_LIMIT``, ``SERVER``, ``TIMEOUT``,
``TRANSPORT``, ``STREAM_CLOSED``, ``MALFORMED_RESPONSE``, ``EMPTY_RESPONSE``, ``INVALID_REQUEST``,
``CONTEXT_WINDOW_EXCEEDED``, ``ABORTED``, ``UNKNOWN``, ``HTTP_<status>`` and more.
"""

from __future__ import annotations

import math

from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.value import Number, Text, Value, Whole

UNKNOWN = "UNKNOWN"
"""The code of a failure that nobody classified."""


class Failure(Value):
    """``status`` is of HTTP; ``provider_retry_after_ms`` is how long the provider asked to wait."""

    message: Text
    code: Text
    status: Whole | None = None
    provider_retry_after_ms: Number | None = None
    request_id: Text | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the failure may cross a boundary.

        Message, code and request id are not empty, the status is 100 to 599, and the wait is finite and
        positive. A log may hold a failure that is not.
        """
        wait_ms = self.provider_retry_after_ms
        return (
            self.message != ""
            and self.code != ""
            and self.request_id != ""
            and (self.status is None or 100 <= self.status <= 599)
            and (wait_ms is None or (math.isfinite(wait_ms) and wait_ms > 0))
        )

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that stands for ``error``.

        An error that carries a valid ``failure`` under its own ``code`` is believed. Otherwise the message is
        the error's text (its class name when there is none), and the code is that of a Playhead error, else
        ``UNKNOWN``: other libraries' codes mean something else.
        """
        carried = vars(error).get("failure")
        code = getattr(error, "code", None)
        if isinstance(carried, Failure) and carried.is_valid and carried.code == code:
            return carried
        known = error.code if isinstance(error, PlayheadError) else UNKNOWN
        return cls(message=str(error) or type(error).__name__, code=known)
