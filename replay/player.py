"""Items of a recording given out again when they are due, to a thread that waits for them.

What is due when is told by ``schedule.py``, pausing and stepping by ``control.py``; here is who waits. A wait is for a
moment counted from the start, never a sum of waits, so that late wake-ups do not add up; who takes the items slowly
gets what is overdue at once. A wait ends early when the control says something else. For tasks: ``async_player.py``.

    for chunk in play(attempt.chunks(), Pace(speed=4)):
        ...
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from playhead.replay.control import Control
from playhead.replay.schedule import RECORDED, Pace, T, never_idle, scheduled

_LONGEST_WAIT_S = 3600.0
"""Longer waits are made of several: what an operating system can wait for at once is limited."""


class Clock(Protocol):
    """What ``play`` waits with."""

    def now_s(self) -> float:
        """Seconds since some moment; never fewer than before."""
        ...

    def wait(self, seconds: float | None) -> None:
        """Return after ``seconds``, or earlier for whatever reason; None is until ``wake``."""
        ...

    def wake(self) -> None:
        """End the wait that lasts, or else the next one; any thread may call it."""
        ...


class ThreadClock:
    """Real time for the thread that plays."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def now_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float | None) -> None:
        self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()


def play(
    items: Iterable[T],
    pace: Pace = RECORDED,
    *,
    idle: Callable[[T], bool] = never_idle,
    control: Control | None = None,
    clock: Clock | None = None,
) -> Iterator[T]:
    """The items in order, each when it is due, the first at once.

    ``idle`` tells whether the gap before an item is idle time, see ``schedule.py``. ``control`` may stop it.
    """
    control, clock = control or Control(), clock or ThreadClock()
    with control.waking(clock.wake):
        for due_ms, item in scheduled(items, pace, idle):
            while (left_s := control.remaining_s(due_ms / 1000, clock.now_s())) != 0:
                clock.wait(bounded(left_s))
            if control.stopped:
                return
            yield item


def bounded(left_s: float | None) -> float | None:
    """So long at most, for one wait; None stays without an end."""
    return None if left_s is None else min(left_s, _LONGEST_WAIT_S)
