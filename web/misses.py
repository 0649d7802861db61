"""Requests for which nothing was recorded: what is told of them, to the client and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from playhead.adapters.providers.dialect import ProviderDialect
from playhead.eventstore.failures import Failure
from playhead.eventstore.redaction import Secrets, text_without_credentials
from playhead.web.answers import Answer, of_json

CODE = "playhead_miss"
"""What the error of a miss has as its ``code``."""

MISSED = 422
"""The status of a miss: clients neither try again nor read more into it, whatever its message says."""

TOO_LARGE = 413


@dataclass(frozen=True, slots=True)
class Miss:
    """A request that was not answered. ``session`` is the id that it named, ``message`` says why."""

    path: str
    session: str | None
    message: str
    status: int = MISSED

    @classmethod
    def of(cls, request: Request, session: str | None, message: str, status: int = MISSED) -> Miss:
        """A miss without the credentials of the request, wherever they stand in it."""
        secrets = Secrets.of_request(str(request.url), request.headers.items())

        def clean(text: str) -> str:
            return text_without_credentials(secrets.hidden_text(text))

        return cls(
            clean(request.url.path), None if session is None else clean(session), clean(message), status
        )

    def __str__(self) -> str:
        who = "" if self.session is None else f" of session {self.session!r}"
        return f"{self.path}{who}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "session": self.session, "message": self.message}

    def answer(self, dialect: ProviderDialect | None) -> Answer:
        """What the client gets: an error as its dialect has it, or a plain one where it speaks none of ours."""
        message = f"playhead: {self.message}"
        body: dict[str, Any] = {"error": {"message": message, "type": "invalid_request_error"}}
        if dialect is not None:
            body = dialect.error(Failure(message=message, code="INVALID_REQUEST", status=400)).body
        body = {**body, "error": {**body["error"], "code": CODE}}
        return of_json(self.status, body, (("x-should-retry", "false"),))
