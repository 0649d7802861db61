"""The decimal digits of many integers at once.

The seqs of every session begin at 0, so the digits of the first ones are made once and kept.
"""

from __future__ import annotations

from functools import cache

import msgspec

_KEPT = 1 << 16


def of(numbers: list[int]) -> list[bytes]:
    """The digits of each of ``numbers``, which are within 64 bits and at least one."""
    return msgspec.json.encode(numbers)[1:-1].split(b",")


def consecutive(first: int, count: int) -> list[bytes]:
    """The digits of the ``count`` integers from ``first`` on."""
    end = first + count
    if first >= 0 and end <= _KEPT:
        return _kept()[first:end]
    return of(list(range(first, end)))


@cache
def _kept() -> list[bytes]:
    return of(list(range(_KEPT)))
