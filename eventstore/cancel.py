"""A cancellation that remembers its first cause.

Whoever does the work asks (``cancelled``, ``check``) or waits beside it (``wait``); nothing is torn down from
outside. The first cause wins, later ones change nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.registered import Registered

DISPOSED = "disposed"
"""The kind of the cause that lets nothing begin any more."""

log = logging.getLogger("playhead.eventstore")


class Cancelled(PlayheadError):
    """The work was cancelled; ``cause`` is the JSON that the log gets, for example ``{"kind": "user"}``."""

    code = "ABORTED"

    def __init__(self, cause: dict[str, Any]) -> None:
        self.cause = cause
        super().__init__(f"cancelled: {cause.get('kind')}")


def is_torn_down() -> bool:
    """Whether the task that runs was cancelled from outside, as at the end of a loop.

    A ``CancelledError`` where this is false came out of something that was awaited, and is a failure like any other.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class CancelToken:
    """Carries a cancellation to the work of one activity.

    It belongs to one thread; others may look at it (``cancelled``, ``check``), and no more.
    """

    def __init__(self) -> None:
        self.cause: dict[str, Any] | None = None
        self._listeners: Registered[Callable[[], None]] = Registered()

    @property
    def cancelled(self) -> bool:
        return self.cause is not None

    def cancel(self, cause: dict[str, Any]) -> None:
        """Cancel with ``cause``, unless it is cancelled already; then every listener is called, once.

        One that raises is logged, and the others are called all the same.
        """
        if self.cause is not None:
            return
        self.cause = cause
        listeners, self._listeners = self._listeners, Registered()
        for listener in listeners:
            try:
                listener()
            except Exception:
                log.exception("a listener of a cancellation failed")

    def check(self) -> None:
        """Raises ``Cancelled`` once there is a cause."""
        if self.cause is not None:
            raise Cancelled(self.cause)

    def on_cancel(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` at the cancellation, at once where it has happened; gives what takes it off again."""
        if self.cause is not None:
            listener()
            return lambda: None
        return self._listeners.add(listener)

    async def wait(self) -> dict[str, Any]:
        """Returns the cause, when there is one."""
        happened = asyncio.Event()
        remove = self.on_cancel(happened.set)
        try:
            await happened.wait()
        finally:
            remove()
        assert self.cause is not None
        return self.cause
