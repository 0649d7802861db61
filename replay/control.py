"""Pause, resume, step and stop of something that plays, by whoever holds the ``Control``: a terminal, a test, a thread.

While it plays, the position moves with the clock. While it is paused, the position stands still, and only a step moves
it: to the next item, which then comes at once. Resuming goes on from the position, so that a pause makes nothing late
and nothing early. A stop ends the play before its next item.

========  ==========================  =============================
told      while it plays              while it is paused
========  ==========================  =============================
pause     stands still                nothing
resume    nothing                     plays on
toggle    stands still                plays on
step      the next item, stands then  the next item, stands then
stop      ends                        ends
========  ==========================  =============================
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_INSTANT_S = 1e-6
"""No clock tells a shorter time; it may be what rounding left over."""


class Control:
    """The control of one play; any thread may use it. With ``paused`` it begins in front of the first item."""

    def __init__(self, *, paused: bool = False) -> None:
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self._paused = paused
        self._stopped = False
        self._steps = 0
        self._origin_s: float | None = None  # the time at which the position was 0, as long as it plays
        self._held_s: float | None = 0.0 if paused else None  # the position at which it stands

    @property
    def paused(self) -> bool:
        """Whether it stands still, or will once who plays has noticed."""
        return self._paused

    @property
    def stopped(self) -> bool:
        """Whether it is over."""
        return self._stopped

    def pause(self) -> None:
        """Stand still."""
        self._set(paused=True)

    def resume(self) -> None:
        """Play on."""
        self._set(paused=False)

    def toggle(self) -> None:
        """Pause where it plays, resume where it does not."""
        self._set(paused=not self._paused)

    def step(self) -> None:
        """Give the next item at once, and stand still then. Several steps give as many items."""
        self._set(paused=True, step=True)

    def stop(self) -> None:
        """End before the next item."""
        with self._lock:
            self._stopped = True
        self._wake()

    # For who plays

    def remaining_s(self, due_s: float, now_s: float) -> float | None:
        """How long to wait now for an item that is due at position ``due_s``; 0 for not at all.

        None is until something changes: it is paused. ``now_s`` is the time on a clock that never goes back.
        """
        with self._lock:
            if self._stopped:
                return 0.0
            if self._paused:
                return self._standing(due_s, now_s)
            if self._origin_s is None or self._held_s is not None:
                self._origin_s, self._held_s = now_s - (self._held_s or 0.0), None
            left_s = due_s - (now_s - self._origin_s)
            return left_s if left_s > _INSTANT_S else 0.0

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call ``wake`` at every change while the context lasts, in the thread that made the change."""
        self._wakers.append(wake)
        try:
            yield
        finally:
            self._wakers.remove(wake)

    def _standing(self, due_s: float, now_s: float) -> float | None:
        if self._held_s is None:
            self._held_s = 0.0 if self._origin_s is None else now_s - self._origin_s
        if not self._steps:
            return None
        self._steps -= 1
        self._held_s = max(self._held_s, due_s)
        return 0.0

    def _set(self, *, paused: bool, step: bool = False) -> None:
        with self._lock:
            self._paused = paused
            self._steps = self._steps + 1 if step else 0
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._wakers):
            wake()
