"""Notifications: what an agent tells whoever listens. Nothing waits for a listener, and none can do harm.

A notice is a fact about the agent that is in no log, or a summary of one that is: ``agent/created``,
``agent/disposed``, ``agent/session-start {source}``, ``agent/status {status}``, ``agent/inbox/inserted {message}``,
``agent/inbox/claimed {message, turn}``, ``agent/inbox/discarded {message}``, ``agent/error {turn, step, error}`` and
``goal/changed``. There is no notice for tokens, turns or steps: those are events of the session, and the session is
what to observe. Notices about the inbox carry no place; the splice in the log has it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("playhead.live")


@dataclass(frozen=True, slots=True)
class Notice:
    """``name`` as listed above; ``info`` holds what belongs to it, by the names above."""

    name: str
    info: dict[str, Any]


Listener = Callable[[Notice], Any]


class Notices:
    """Listeners of one agent. They run at once, in the order in which they came."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every notice from now on; gives what takes it off again."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def tell(self, name: str, **info: Any) -> None:
        """Call every listener. One that raises is logged, and the others are called all the same."""
        notice = Notice(name, info)
        for listener in tuple(self._listeners):
            contained(listener, notice)


def contained(listener: Callable[[Any], Any], told: Any) -> None:
    """Call ``listener`` with ``told``; what it raises is logged, also by what it left to be awaited."""
    try:
        left = listener(told)
    except Exception:
        log.exception("a listener failed")
        return
    if inspect.isawaitable(left):
        task = asyncio.ensure_future(left)
        task.add_done_callback(_log_failure)


def _log_failure(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a listener failed later", exc_info=task.exception())
