"""The bytes of one model call, as they went over the wire: kept beside a log, never in it.

An ``Exchange`` holds the request's body, the head of the answer, and the body of the answer with the time at which
each piece of it came, so that a replay serves exactly what came. No credential is in it (``redaction.py``). An
``ExchangeRecorder`` makes one while the call runs. How it ended:

=========================  ====================================================================
``complete``               the answer came to its end, even where that was too early
``reset``                  the connection broke in the answer
``reset-before-response``  the connection broke, or never stood, before an answer began
``client-gone``            the caller gave up
``timeout``                nothing came for too long
=========================  ====================================================================

Table: docs/store.md, "exchange".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from playhead.eventstore.errors import UsageError
from playhead.eventstore.redaction import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Headers,
    Secrets,
    kept_headers,
    kept_path,
    unescaped,
    without_credentials,
)

ExchangeEnd: TypeAlias = Literal["complete", "reset", "reset-before-response", "client-gone", "timeout"]

ENDS: frozenset[str] = frozenset(get_args(ExchangeEnd))

BODY_LIMIT_BYTES = 64 * 2**20
"""The most that is kept of an answer: a thousand times what models send."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call on the wire. Times are epoch milliseconds.

    ``path`` is that of the request, with its query. ``status`` and ``head_ms`` are None where no answer began.
    ``pieces`` are (offset, time) in the order of the body: from that offset on, the body came at that time; the first
    offset is 0. ``whole`` is False where the body was longer than what is kept.

    The place is that of the attempt: ``turn``, ``step`` and ``number`` as ``replay.attempts`` counts, ``seq`` its
    first event. All are None for a call that the log has no attempt for.
    """

    dialect: str
    path: str
    request: bytes
    end: ExchangeEnd
    began_ms: int
    ended_ms: int
    request_headers: Headers = ()
    status: int | None = None
    head_ms: int | None = None
    headers: Headers = ()
    body: bytes = b""
    pieces: tuple[tuple[int, int], ...] = ()
    whole: bool = True
    turn: int | None = None
    step: int | None = None
    number: int | None = None
    seq: int | None = None

    def __post_init__(self) -> None:
        if self.end not in ENDS:
            raise UsageError(f"an exchange ends {', '.join(sorted(ENDS))}, not {self.end!r}")
        offsets = [offset for offset, _ in self.pieces]
        grows = all(one < other for one, other in pairwise([*offsets, len(self.body)]))
        if not grows or (offsets[:1] or [0]) != [0] or bool(offsets) != bool(self.body):
            raise UsageError(
                f"the pieces of an exchange begin at 0 and ascend below {len(self.body)}, the size of its body"
            )

    def timed_body(self) -> Iterator[tuple[int, bytes]]:
        """The pieces of the body in order, each with the time at which it came."""
        for (offset, time_ms), (behind, _) in pairwise([*self.pieces, (len(self.body), 0)]):
            yield time_ms, self.body[offset:behind]

    def placed(
        self,
        *,
        turn: int | None = None,
        step: int | None = None,
        number: int | None = None,
        seq: int | None = None,
    ) -> Exchange:
        """The same exchange as that of the attempt at this place."""
        return dataclasses.replace(self, turn=turn, step=step, number=number, seq=seq)

    def cleaned(self) -> Exchange:
        """The exchange as a store keeps it: headers that are not on the lists are gone, and so is what is worded as a
        credential in the request. Cleaning twice changes nothing more."""
        return dataclasses.replace(
            self,
            path=kept_path(self.path),
            request=without_credentials(self.request),
            request_headers=kept_headers(self.request_headers, REQUEST_HEADERS),
            headers=kept_headers(self.headers, RESPONSE_HEADERS),
        )


class ExchangeRecorder:
    """Writes one call down while it happens, for whoever is between the two sides: a client, or a proxy.

    ``url``, ``headers`` and ``body`` are those of the request, credentials and all: they tell what must not be kept.
    ``secrets`` are others that the caller knows of. The bodies are taken without transfer encoding, and without
    content encoding where it should be possible to read them.
    """

    def __init__(
        self,
        dialect: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        began_ms: int,
        *,
        secrets: Iterable[str] = (),
        limit_bytes: int = BODY_LIMIT_BYTES,
    ) -> None:
        headers = list(headers)
        self._secrets = Secrets.of_request(url, headers, *secrets)
        self._request = Exchange(
            dialect, url, body, "complete", began_ms, began_ms, request_headers=tuple(headers)
        )
        self._limit_bytes = limit_bytes
        self._status: int | None = None
        self._head_ms: int | None = None
        self._headers: Headers = ()
        self._body = bytearray()
        self._pieces: list[tuple[int, int]] = []
        self._whole = True

    def head(self, status: int, headers: Iterable[tuple[str, str]], time_ms: int) -> None:
        """The head of the answer came."""
        self._status, self._headers, self._head_ms = status, tuple(headers), time_ms

    def piece(self, piece: bytes, time_ms: int) -> None:
        """A piece of the answer's body came."""
        kept = piece[: self._limit_bytes - len(self._body)]
        self._whole = self._whole and len(kept) == len(piece)
        if kept:
            self._pieces.append((len(self._body), time_ms))
            self._body += kept

    def ended(self, end: ExchangeEnd, time_ms: int) -> Exchange:
        """What is kept of the call, now that it is over."""
        return dataclasses.replace(
            self._request,
            path=self._secrets.hidden_text(self._request.path),
            request=self._secrets.hidden(unescaped(self._request.request)),
            request_headers=self._hidden_values(self._request.request_headers),
            end=end,
            ended_ms=time_ms,
            status=self._status,
            head_ms=self._head_ms,
            headers=self._hidden_values(self._headers),
            body=self._secrets.hidden(bytes(self._body), at_end=True),
            pieces=tuple(self._pieces),
            whole=self._whole,
        ).cleaned()

    def _hidden_values(self, headers: Headers) -> Headers:
        return tuple((name, self._secrets.hidden_text(value)) for name, value in headers)
