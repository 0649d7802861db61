"""Notifications: what an agent tells whoever listens. Nothing waits for a listener, and none can do harm.

A notice is a fact about the agent that is in no log, or a summary of one that is: ``agent/created {agent}``,
``agent/disposed {agent}``, ``agent/session-start {source}``, ``agent/status {status}``, ``agent/inbox/inserted
{message}``, ``agent/inbox/claimed {message, turn}``, ``agent/inbox/discarded {message}``, ``agent/error {turn, step,
error}`` and ``goal/changed {operation, goal}``. There is no notice for tokens, turns or steps: those are events of the
session, and the session is what to observe. Notices about the inbox carry no place; the splice in the log has it.

One notice is a question: who raises at ``agent/created`` has it that there is no such agent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from playhead.eventstore.registered import Registered

log = logging.getLogger("playhead.live")


@dataclass(frozen=True, slots=True)
class Notice:
    """``name`` as listed above, ``info`` with what belongs to it, and the id of the agent that tells it."""

    name: str
    info: dict[str, Any]
    agent_id: str


Listener = Callable[[Notice], Any]


class Notices:
    """Listeners of one agent. They run at once, in the order in which they came."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._listeners: Registered[Listener] = Registered()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every notice from now on; gives what takes it off again."""
        return self._listeners.add(listener)

    def tell(self, name: str, **info: Any) -> None:
        """Call every listener. One that raises is logged, and the others are called all the same."""
        notice = Notice(name, info, self._agent_id)
        for listener in self._listeners:
            contained(listener, notice)

    def ask(self, name: str, taken_back: str, **info: Any) -> None:
        """Call every listener until one raises; then tell those before it ``taken_back``, and raise the same."""
        notice = Notice(name, info, self._agent_id)
        told: list[Listener] = []
        for listener in self._listeners:
            try:
                _called(listener, notice)
            except Exception:
                for one in told:
                    contained(one, Notice(taken_back, info, self._agent_id))
                raise
            told.append(listener)


def contained(listener: Callable[[Any], Any], told: Any) -> None:
    """Call ``listener`` with ``told``; what it raises is logged, also by what it left to be awaited."""
    try:
        _called(listener, told)
    except (
        Exception,
        asyncio.CancelledError,
    ):  # the latter out of a task that the listener asked for its result
        log.exception("a listener failed")


def _called(listener: Callable[[Any], Any], told: Any) -> None:
    """Call ``listener``; what it left to be awaited runs by itself, and is logged where it fails."""
    left = listener(told)
    if inspect.isawaitable(left):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            if inspect.iscoroutine(left):
                left.close()
            raise
        task = loop.create_task(_awaited(left))
        _under_way.add(task)  # the loop itself does not keep it alive
        task.add_done_callback(_under_way.discard)


_under_way: set[asyncio.Task[None]] = set()


async def _awaited(left: Awaitable[Any]) -> None:
    try:
        await left
    except Exception:
        log.exception("a listener failed later")
