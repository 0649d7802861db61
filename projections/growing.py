"""Values that grow by each event of a long session, at a cost that does not grow with what they hold.

A state is never changed in place, and copying all of it for each event would make the cost of a fold grow with
the square of the session. So these keep their content in runs of falling size. What is added is a new run, and
runs that are not larger than what follows are joined with it. An element is copied once for every doubling, and
there are never more runs than the logarithm of the size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Journal(msgspec.Struct, Generic[T], frozen=True):
    """A list that grows at its end."""

    runs: tuple[tuple[T, ...], ...] = ()

    def plus(self, new: Sequence[T]) -> Journal[T]:
        """The journal with ``new`` behind it; the same object when there is nothing new."""
        if not new:
            return self
        runs, size, keep = self.runs, len(new), len(self.runs)
        while keep and len(runs[keep - 1]) <= size:
            keep -= 1
            size += len(runs[keep])
        return Journal((*runs[:keep], tuple(chain(*runs[keep:], new))))

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.runs)

    def __len__(self) -> int:
        return sum(map(len, self.runs))


class Index(msgspec.Struct, Generic[T], frozen=True):
    """A mapping with text keys. A key that is set again has the newer value."""

    runs: tuple[dict[str, T], ...] = ()

    def plus(self, new: Mapping[str, T]) -> Index[T]:
        """The index with ``new`` over it; the same object when there is nothing new."""
        if not new:
            return self
        runs, size, keep = self.runs, len(new), len(self.runs)
        while keep and len(runs[keep - 1]) <= size:
            keep -= 1
            size += len(runs[keep])
        return Index((*runs[:keep], _merged(*runs[keep:], new)))

    def get(self, key: str) -> T | None:
        """The value of ``key``, None where there is none."""
        for run in reversed(self.runs):
            if key in run:
                return run[key]
        return None

    def items(self) -> dict[str, T]:
        """All keys with their values, as a new dict."""
        return _merged(*self.runs)


def _merged(*runs: Mapping[str, T]) -> dict[str, T]:
    merged: dict[str, T] = {}
    for run in runs:
        merged.update(run)
    return merged
