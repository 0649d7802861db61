"""The live feed: committed facts in order, first those that are there, then those that come.

A ``Subscription`` pulls from where it stands whenever something may have been committed. What wakes it, a ``Bell``, is
a hint and no more, so nothing is missed and nothing comes twice, at the seam between old and new as anywhere. Once
everything that was there is given, it says ``CAUGHT_UP``, a single time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from types import TracebackType
from typing import Final, Literal, Self

from playhead.eventstore.recorded import Recorded


class CaughtUp(Enum):
    """What a subscription says once, between the facts that were there and those that come."""

    CAUGHT_UP = "caught-up"


CAUGHT_UP: Final[Literal[CaughtUp.CAUGHT_UP]] = CaughtUp.CAUGHT_UP

FeedItem = Recorded | CaughtUp

PULL_LIMIT, PULL_BYTES = 1024, 1 << 20
"""A pull ends with so many facts, or with the one whose data makes it so many bytes."""

SAFETY_S = 5.0
"""A subscription that heard nothing for so long looks all the same: wakes are hints, and hints get lost."""


class Bell:
    """Rung when something may have been committed."""

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


class Ear:
    """One who listens to a bell."""

    def __init__(self, bell: Bell) -> None:
        self._condition = bell._condition
        self._bell = bell
        self._heard = bell._rung
        self._deaf = False

    def wait(self, timeout_s: float) -> None:
        """Returns when the bell rang since the last wait, after ``timeout_s``, or once the ear is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._deaf or self._bell._rung != self._heard, timeout_s)
            self._heard = self._bell._rung

    def close(self) -> None:
        """Let whoever waits go, from any thread."""
        with self._condition:
            self._deaf = True
            self._condition.notify_all()


Follow = Callable[[], Callable[[], None]]
"""Lets the bell ring for commits of other processes too, from its return on; gives what lets go of that again."""


def only_here() -> Callable[[], None]:
    """A ``Follow`` where nobody else commits."""
    return lambda: None


def position_of(fact: Recorded) -> int:
    """Where a fact stands in its store."""
    assert fact.position is not None, "a stored fact has a position"
    return fact.position


def seq_of(fact: Recorded) -> int:
    """Where a fact stands in its session."""
    return fact.seq


class Subscription:
    """Facts as they are committed. Iterate it in a thread, or ``async for`` it on a loop, but not both.

    ``close`` ends it, from any thread, and so does the end of the iteration; ``timeout_s`` ends it after so long
    without anything new. As long as nobody iterates it, it holds nothing. The iteration raises what reading the store
    raises.
    """

    def __init__(
        self,
        pull: Callable[[int, int], Iterator[Recorded]],
        place: Callable[[Recorded], int],
        after: int,
        bell: Bell,
        *,
        follow: Follow = only_here,
        timeout_s: float | None = None,
    ) -> None:
        self._pull = pull
        self._place = place
        self._after = after
        self._ear = bell.ear()
        self._follow = follow
        self._let_go: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._timeout_s = timeout_s
        self._ready: deque[FeedItem] = deque()
        self._caught_up = False
        self._closed = threading.Event()

    def close(self) -> None:
        """End the subscription; whoever waits on it stops waiting."""
        self._closed.set()
        self._ear.close()
        with self._lock:
            let_go, self._let_go = self._let_go, None
        if let_go is not None:
            let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[FeedItem]:
        try:
            while self._fill():
                while self._ready and not self._closed.is_set():
                    yield self._ready.popleft()
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[FeedItem]:
        from playhead.eventstore.in_thread import (
            in_thread,  # asyncio takes longer to load than most commands take
        )

        try:
            while await in_thread(self._fill):
                while self._ready and not self._closed.is_set():
                    yield self._ready.popleft()
        finally:
            self.close()

    def _fill(self) -> bool:
        """Wait until something is ready; False when nothing more comes."""
        self._begin_to_follow()
        quiet_since = time.monotonic()
        while not self._closed.is_set():
            found, are_more = _some(self._pull(self._after, PULL_LIMIT))
            if found:
                self._after = self._place(found[-1])
                self._ready.extend(found)
            if not are_more and not self._caught_up:
                self._caught_up = True
                self._ready.append(CAUGHT_UP)
            if self._ready:
                return True
            left_s = SAFETY_S
            if self._timeout_s is not None:
                left_s = min(left_s, quiet_since + self._timeout_s - time.monotonic())
                if left_s <= 0:
                    return False
            self._ear.wait(left_s)
        return False

    def _begin_to_follow(self) -> None:
        with self._lock:
            if self._let_go is None and not self._closed.is_set():
                self._let_go = self._follow()


def _some(facts: Iterator[Recorded]) -> tuple[list[Recorded], bool]:
    """The facts of one pull, as far as they are few and small, and whether there may be more."""
    found: list[Recorded] = []
    size_bytes = 0
    for fact in facts:
        found.append(fact)
        size_bytes += len(fact.raw)
        if size_bytes >= PULL_BYTES:
            return found, True
    return found, len(found) == PULL_LIMIT
