"""Which elements of two sequences belong together: a long common subsequence, found without comparing all with all.

What is common at both ends is taken off first. Elements that occur once on either side are anchors: those that lie in
the same order on both sides belong together, and between two of them it starts again. A stretch without anchors is
compared all with all where it is short; in a long one the first of several equal elements goes with the first, the
second with the second. So the work grows with the length, up to a logarithm, and never with its square.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

SHORT = 10_000
"""Stretches of which the lengths multiply to no more are compared all with all."""

_DEEPEST = 12
"""So often anchors are looked for between anchors."""

Match = tuple[int, int]
"""The places of two elements that belong together."""


class _Stretch(NamedTuple):
    """Half-open ranges of both sides, and how often anchors were looked for around them."""

    a: int
    a_end: int
    b: int
    b_end: int
    depth: int


def matches(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Match]:
    """The places of equal elements that belong together; both rise from each match to the next."""
    found: list[Match] = []
    todo = [_Stretch(0, len(a), 0, len(b), 0)]
    while todo:
        stretch = _without_ends(a, b, todo.pop(), found)
        if stretch.a == stretch.a_end or stretch.b == stretch.b_end:
            continue
        if (stretch.a_end - stretch.a) * (stretch.b_end - stretch.b) <= SHORT:
            found += _all_with_all(a, b, stretch)
            continue
        anchors = _anchors(a, b, stretch, once=True) if stretch.depth < _DEEPEST else []
        if anchors:
            todo += _between(stretch, anchors)
        else:
            found += _anchors(a, b, stretch, once=False)
    found.sort()
    return found


def gaps(found: Iterable[Match], a_length: int, b_length: int) -> Iterator[tuple[range, range, Match | None]]:
    """What lies before each match on both sides, with the match; and what lies behind the last, with None."""
    a = b = 0
    for match in found:
        yield range(a, match[0]), range(b, match[1]), match
        a, b = match[0] + 1, match[1] + 1
    yield range(a, a_length), range(b, b_length), None


def _without_ends(
    a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch, found: list[Match]
) -> _Stretch:
    """The stretch without what is equal at its ends, which goes to ``found``."""
    start_a, end_a, start_b, end_b, depth = stretch
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        found.append((start_a, start_b))
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
        found.append((end_a, end_b))
    return _Stretch(start_a, end_a, start_b, end_b, depth)


def _between(stretch: _Stretch, anchors: Iterable[Match]) -> Iterator[_Stretch]:
    """The stretches from one anchor to the next, each beginning with its anchor."""
    a, b = stretch.a, stretch.b
    for next_a, next_b in anchors:
        yield _Stretch(a, next_a, b, next_b, stretch.depth + 1)
        a, b = next_a, next_b
    yield _Stretch(a, stretch.a_end, b, stretch.b_end, stretch.depth + 1)


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch, *, once: bool) -> list[Match]:
    """Matches of elements that occur once on either side; without ``once``, of the nth of equal ones with the nth."""
    where = _places(b, stretch.b, stretch.b_end, once)
    pairs = [
        (at, where[element])
        for element, at in _places(a, stretch.a, stretch.a_end, once).items()
        if element in where
    ]
    return _rising(pairs)


def _places(
    elements: Sequence[Hashable], start: int, end: int, once: bool
) -> dict[tuple[Hashable, int], int]:
    """Where each element stands, by the element and how many like it came before, in order."""
    seen: Counter[Hashable] = Counter()
    places: dict[tuple[Hashable, int], int] = {}
    for at in range(start, end):
        places[elements[at], seen[elements[at]]] = at
        seen[elements[at]] += 1
    return {name: at for name, at in places.items() if not once or seen[name[0]] == 1}


def _rising(pairs: Sequence[Match]) -> list[Match]:
    """The longest run of ``pairs``, which rise on side A, that rise on side B too."""
    ends: list[int] = []  # the lowest B with which a run of each length can end
    last: list[int] = []  # the pair that ends there
    before: list[int] = []  # for each pair the one before it in its run
    for at, (_, b) in enumerate(pairs):
        length = bisect_left(ends, b)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(b)
            last.append(at)
        else:
            ends[length], last[length] = b, at
    run: list[Match] = []
    at = last[-1] if last else -1
    while at >= 0:
        run.append(pairs[at])
        at = before[at]
    run.reverse()
    return run


def _all_with_all(a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch) -> list[Match]:
    """A longest common subsequence; of several, one that matches early."""
    rows, columns = range(stretch.a, stretch.a_end), range(stretch.b, stretch.b_end)
    width = len(columns) + 1
    lengths = [[0] * width for _ in range(len(rows) + 1)]
    for row in reversed(range(len(rows))):
        here, below, element = lengths[row], lengths[row + 1], a[rows[row]]
        for column in reversed(range(len(columns))):
            if element == b[columns[column]]:
                here[column] = below[column + 1] + 1
            else:
                here[column] = max(below[column], here[column + 1])
    found: list[Match] = []
    row = column = 0
    while row < len(rows) and column < len(columns):
        if a[rows[row]] == b[columns[column]]:
            found.append((rows[row], columns[column]))
            row, column = row + 1, column + 1
        elif lengths[row + 1][column] >= lengths[row][column + 1]:
            row += 1
        else:
            column += 1
    return found
