"""One wait at a time, for as long as the other side is alive and the caller still wants it.

The idle timer runs only while something is awaited: a slow consumer costs nothing, and whatever comes starts it anew.
Which came first decides: the timer gives ``IdleTimeout``, a cancellation of the token ``Cancelled``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from playhead.eventstore.cancel import Cancelled, CancelToken

T = TypeVar("T")


class IdleTimeout(Exception):
    """Nothing came for as long as was to be waited."""


class Wait:
    """Awaits under the idle timer and the caller's token."""

    def __init__(self, token: CancelToken, idle_timeout_s: float) -> None:
        self._token = token
        self._idle_timeout_s = idle_timeout_s

    async def __call__(self, begin: Callable[[], Awaitable[T]]) -> T:
        """What ``begin()`` gives. Raises ``IdleTimeout`` or ``Cancelled``, with the wait ended; it is not begun when
        the token is cancelled already."""
        self._token.check()
        cancelled = False

        def cancel() -> None:
            nonlocal cancelled
            if not timer.expired():
                timer.reschedule(asyncio.get_running_loop().time())
                cancelled = True

        timer = asyncio.timeout(self._idle_timeout_s)
        try:
            async with timer:
                remove = self._token.on_cancel(cancel)
                try:
                    return await begin()
                finally:
                    remove()
        except TimeoutError as error:
            if not timer.expired():
                raise
            if cancelled and self._token.cause is not None:
                raise Cancelled(self._token.cause) from None
            raise IdleTimeout from error
