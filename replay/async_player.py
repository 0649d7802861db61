"""Items of a recording given out again when they are due, to a task that awaits them; see ``player.py``.

async for chunk in play_async(attempt.chunks(), Pace(speed=4)):
    ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from playhead.replay.control import Control
from playhead.replay.player import bounded
from playhead.replay.schedule import RECORDED, Pace, T, never_idle, scheduled


class AsyncClock(Protocol):
    """What ``play_async`` waits with; see ``Clock``."""

    def now_s(self) -> float: ...

    async def wait(self, seconds: float | None) -> None: ...

    def wake(self) -> None: ...


class LoopClock:
    """Real time for the event loop that runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def now_s(self) -> float:
        return self._loop.time()

    async def wait(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    def wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)


async def play_async(
    items: Iterable[T],
    pace: Pace = RECORDED,
    *,
    idle: Callable[[T], bool] = never_idle,
    control: Control | None = None,
    clock: AsyncClock | None = None,
) -> AsyncIterator[T]:
    """What ``play`` gives, for a task: other tasks run while it waits, and before each item that is due at once.

    The items are taken from their iterator in the event loop's thread.
    """
    control, clock = control or Control(), clock or LoopClock()
    with control.waking(clock.wake):
        for due_ms, item in scheduled(items, pace, idle):
            await asyncio.sleep(0)
            while (left_s := control.remaining_s(due_ms / 1000, clock.now_s())) != 0:
                await clock.wait(bounded(left_s))
            if control.stopped:
                return
            yield item
