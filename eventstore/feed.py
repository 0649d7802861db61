"""The live feed: committed facts in order, first those that are there, then those that come.

A ``Subscription`` pulls from where it stands whenever something may have been committed. What wakes it is a hint and
no more, so nothing is missed and nothing comes twice, at the seam between old and new as anywhere. Once everything
that was there is given, it says ``CAUGHT_UP``, a single time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from typing import Final, Literal, Protocol

from playhead.eventstore.recorded import Recorded


class CaughtUp(Enum):
    """What a subscription says once, between the facts that were there and those that come."""

    CAUGHT_UP = "caught-up"


CAUGHT_UP: Final[Literal[CaughtUp.CAUGHT_UP]] = CaughtUp.CAUGHT_UP

FeedItem = Recorded | CaughtUp

PULL_LIMIT = 1024
"""So many facts are pulled at once."""

_LOOK_AROUND_S = 0.2
"""How long a wait lasts before it looks whether the subscription was closed."""


class Wake(Protocol):
    """Tells that something may have been committed. Each subscription has one of its own."""

    def wait(self, timeout_s: float) -> None:
        """Returns when something may have happened since the last wait, or after ``timeout_s``."""
        ...

    def close(self) -> None: ...


class Bell:
    """Rung on every commit of this process."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung = 0

    def ring(self) -> None:
        """Wake everybody who listens."""
        with self._condition:
            self._rung += 1
            self._condition.notify_all()

    def ear(self) -> Ear:
        """Somebody who listens, from now on."""
        return Ear(self)

    def _wait(self, heard: int, timeout_s: float) -> int:
        with self._condition:
            if self._rung == heard:
                self._condition.wait(timeout_s)
            return self._rung


class Ear:
    """A ``Wake`` that hears a bell."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._heard = bell._rung

    def wait(self, timeout_s: float) -> None:
        """See ``Wake.wait``."""
        self._heard = self._bell._wait(self._heard, timeout_s)

    def close(self) -> None:
        """Nothing is held open."""


def position_of(fact: Recorded) -> int:
    """Where a fact stands in its store."""
    assert fact.position is not None, "a stored fact has a position"
    return fact.position


def seq_of(fact: Recorded) -> int:
    """Where a fact stands in its session."""
    return fact.seq


class Subscription:
    """Facts as they are committed. Iterate it in a thread, or ``async for`` it on a loop, but not both.

    ``close`` ends it, from any thread; ``timeout_s`` ends it after so long without anything new.
    """

    def __init__(
        self,
        pull: Callable[[int, int], list[Recorded]],
        place: Callable[[Recorded], int],
        after: int,
        wake: Wake,
        timeout_s: float | None = None,
    ) -> None:
        self._pull = pull
        self._place = place
        self._after = after
        self._wake = wake
        self._timeout_s = timeout_s
        self._ready: deque[FeedItem] = deque()
        self._caught_up = False
        self._closed = threading.Event()

    def close(self) -> None:
        """End the subscription; whoever waits on it stops waiting."""
        self._closed.set()

    def __iter__(self) -> Iterator[FeedItem]:
        try:
            while self._fill():
                while self._ready and not self._closed.is_set():
                    yield self._ready.popleft()
        finally:
            self.close()
            self._wake.close()

    async def __aiter__(self) -> AsyncIterator[FeedItem]:
        import asyncio  # here, because it takes longer to load than most commands take

        try:
            while await asyncio.to_thread(self._fill):
                while self._ready and not self._closed.is_set():
                    yield self._ready.popleft()
        finally:
            self.close()
            await asyncio.to_thread(self._wake.close)

    def _fill(self) -> bool:
        """Wait until something is ready; False when nothing more comes."""
        quiet_since = time.monotonic()
        while not self._closed.is_set():
            found = self._pull(self._after, PULL_LIMIT)
            if found:
                self._after = self._place(found[-1])
                self._ready.extend(found)
            if len(found) < PULL_LIMIT and not self._caught_up:
                self._caught_up = True
                self._ready.append(CAUGHT_UP)
            if self._ready:
                return True
            left_s = _LOOK_AROUND_S
            if self._timeout_s is not None:
                left_s = min(left_s, quiet_since + self._timeout_s - time.monotonic())
                if left_s <= 0:
                    return False
            self._wake.wait(left_s)
        return False
