"""When what was recorded is due again: recorded times in, delays out. Nothing here waits.

What is played comes in the order of the log, each item with its recorded time. The gap between two items is kept, or
made shorter by the speed; where the clock went back, the gap is played as none, and the next gap counts from there. So
the delays are never negative, and all of them together are the sum of the gaps that go forward. A gap in which nothing
streamed, *idle* time such as the hours before the next prompt, can be cut to a longest one. The cut comes first, then
the speed. An item without a time is due with the one before it.

Delays are told from the first item on, so that whoever waits for them does not drift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from playhead.eventstore.errors import UsageError


class Timed(Protocol):
    """Something that was recorded at a time, in epoch milliseconds; None where nobody knows."""

    @property
    def time_ms(self) -> int | None: ...


T = TypeVar("T", bound=Timed)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast to play: ``speed`` is a factor, ``idle_ms`` the longest idle gap, as it was recorded.

    An infinite speed waits for nothing; an infinite ``idle_ms`` keeps every gap, 0 leaves idle time out.
    """

    speed: float = 1.0
    idle_ms: float = math.inf

    def __post_init__(self) -> None:
        if not (isinstance(self.speed, int | float) and self.speed > 0):
            raise UsageError(f"a speed of {self.speed!r}: it must be a number, and more than 0")
        if not self.idle_ms >= 0:
            raise UsageError(f"idle gaps of {self.idle_ms} ms at most: it must be 0 or more")


RECORDED = Pace()
"""Every gap as it was."""

UNPACED = Pace(speed=math.inf)
"""As fast as it goes."""


def never_idle(_item: object) -> bool:
    """Every gap counts in full."""
    return False


def scheduled(
    items: Iterable[T], pace: Pace = RECORDED, idle: Callable[[T], bool] = never_idle
) -> Iterator[tuple[float, T]]:
    """Each item with the milliseconds from the first one to when it is due; they never get fewer.

    ``idle`` tells whether the gap before an item is idle time.
    """
    played_ms: float = 0
    last_ms: int | None = None
    for item in items:
        time_ms = item.time_ms
        if time_ms is not None:
            if last_ms is not None and time_ms > last_ms:
                gap_ms = time_ms - last_ms
                played_ms += min(gap_ms, pace.idle_ms) if idle(item) else gap_ms
            last_ms = time_ms
        yield played_ms / pace.speed, item
