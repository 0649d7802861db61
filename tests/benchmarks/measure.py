"""Measurements of two or more sides in turn, so that a busy machine is busy for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """What design asks of a ratio: the worst that will do, and the aim."""

    floor: float
    goal: float
    less_is_better: bool = False

    def verdict(self, ratio: float) -> str:
        sign = -1 if self.less_is_better else 1
        if sign * ratio >= sign * self.goal:
            return "goal"
        return "floor" if sign * ratio >= sign * self.floor else "MISSED"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: what was measured, both sides in ``unit``, and their ratio."""

    item: str
    what: str
    ours: float
    reference: float
    unit: str
    ratio: float
    target: Target | None

    @property
    def verdict(self) -> str:
        return "" if self.target is None else self.target.verdict(self.ratio)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def seconds(work: Callable[[], object]) -> float:
    """How long ``work`` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def medians(rounds: int, sides: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of what each side returns, every side called once in each round.

    Every second round goes the other way, so that none always comes first.
    """
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 == 0 else reversed(list(sides)):
            seen[name].append(sides[name]())
    return {name: statistics.median(values) for name, values in seen.items()}
