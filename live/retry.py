"""When a failed model call is made again, and after how long a wait.

``normal`` retries the failures with the listed codes, so many times; the rest falls through to other recovery.
``always`` lets other recovery have its say first and then retries whatever it was, without end.

The wait before retry ``n`` is ``initial * 2 ** (n - 1)``, at most ``max``, times ``1 - jitter + 2 * jitter * random``,
and again at most ``max``. A wait that the provider asked for is taken as it is, where it is at most ``max``; a longer
one makes ``normal`` give up and ``always`` use its own.

``llm/retry`` stands in the log before the wait and ``llm/retry-started`` behind it; a wait that is cancelled has only
the first. Retries of one turn, step, provider and policy are a chain with one id.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from playhead.eventstore import json_text
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.failures import Failure
from playhead.live.hooks import CallFailed, Retry
from playhead.live.options import new_id
from playhead.live.session import LiveSession

log = logging.getLogger("playhead.live")

RETRYABLE = frozenset({"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"})
"""The failures that another try may well not meet."""

_LARGEST_EXPONENT = 1024


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waits are milliseconds, ``jitter`` is 0 to 1. ``most`` and ``codes`` are for ``normal`` alone."""

    mode: Literal["normal", "always"] = "normal"
    most: int = 5
    codes: frozenset[str] = RETRYABLE
    initial_ms: float = 500
    max_ms: float = 10_000
    jitter: float = 0.1

    @property
    def key(self) -> str:
        """The policy as compact JSON, by which chains of retries are told apart."""
        waits = [self.initial_ms, self.max_ms, self.jitter]
        parts: list[Any] = [self.mode, *waits]
        if self.mode == "normal":
            parts = [self.mode, self.most, sorted(self.codes), *waits]
        return json_text.stringify(parts).decode()

    def delay_ms(self, failure: Failure, retry: int, sample: float) -> float | None:
        """The wait before retry number ``retry`` (from 1); None when there is none. ``sample`` is 0 to 1."""
        normal = self.mode == "normal"
        if normal and (failure.code not in self.codes or retry > self.most):
            return None
        asked = failure.provider_retry_after_ms
        if asked is not None and asked <= self.max_ms:
            return asked
        if asked is not None and normal:
            return None
        wait: float = self.max_ms
        if retry <= _LARGEST_EXPONENT:
            wait = min(self.initial_ms * 2.0 ** (retry - 1), self.max_ms)
        return min(wait * (1 - self.jitter + 2 * self.jitter * sample), self.max_ms)


Waiting = Callable[[float, CancelToken], Awaitable[None]]
"""Waits so many milliseconds, or until the token is cancelled."""


async def waited(delay_ms: float, token: CancelToken) -> None:
    """Returns after ``delay_ms``, or as soon as ``token`` is cancelled."""
    cancelled = asyncio.ensure_future(token.wait())
    try:
        await asyncio.wait([cancelled], timeout=delay_ms / 1000)
    finally:
        cancelled.cancel()


class Retries:
    """Retries by ``policy`` for the calls of one session: a link for the hook ``request_error``."""

    def __init__(
        self,
        session: LiveSession,
        policy: RetryPolicy,
        *,
        sample: Callable[[], float] = random.random,
        new_id: Callable[[], str] = new_id,
        wait: Waiting = waited,
    ) -> None:
        self._session = session
        self._policy = policy
        self._sample = sample
        self._new_id = new_id
        self._wait = wait
        self._step: tuple[int, int] | None = None
        self._chains: dict[str, tuple[str, int]] = {}

    async def __call__(
        self, failed: CallFailed, inner: Callable[[CallFailed], Awaitable[Retry | None]]
    ) -> Retry | None:
        """Retry after a wait, or what the rest of the chain says."""
        if self._policy.mode == "always":
            try:
                recovered = await inner(failed)
            except Exception:
                failed.token.check()
                log.exception("other recovery failed; the call is retried all the same")
                recovered = None
            if recovered is not None:
                return recovered
        id, number = self._next(failed)
        delay_ms = self._policy.delay_ms(failed.failure, number, self._sample())
        if delay_ms is None:
            return await inner(failed)
        failed.token.check()
        self._schedule(failed, id, number, delay_ms)
        self._chains[failed.provider] = id, number
        await self._session.flush()
        await self._wait(delay_ms, failed.token)
        failed.token.check()
        place = {"turn": failed.turn, "step": failed.step, "retry": number}
        self._session.append("llm/retry-started", {"retryId": id, **place})
        return Retry()

    def _next(self, failed: CallFailed) -> tuple[str, int]:
        """The id of the chain that a retry would belong to, and its number in there."""
        if self._step != (failed.turn, failed.step):
            self._step, self._chains = (failed.turn, failed.step), {}
        if failed.provider not in self._chains:
            return self._new_id(), 1
        id, number = self._chains[failed.provider]
        return id, number + 1

    def _schedule(self, failed: CallFailed, id: str, number: int, delay_ms: float) -> None:
        data: dict[str, Any] = {
            "retryId": id,
            "turn": failed.turn,
            "step": failed.step,
            "provider": failed.provider,
            "mode": self._policy.mode,
            "policyKey": self._policy.key,
            "retry": number,
        }
        if self._policy.mode == "normal":
            data["maxRetries"] = self._policy.most
        data |= {"delayMs": delay_ms, "failure": failed.failure.to_json()}
        self._session.append("llm/retry", data)
