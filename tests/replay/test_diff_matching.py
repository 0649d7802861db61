from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.replay.diff_matching import gaps, matches

letters = st.lists(st.sampled_from("abcd"), max_size=30)


def lcs_length(a: Sequence[object], b: Sequence[object]) -> int:
    """The length of a longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for element in a:
        fresh = [0]
        for at, other in enumerate(b):
            fresh.append(row[at] + 1 if element == other else max(row[at + 1], fresh[at]))
        row = fresh
    return row[-1]


@given(letters, letters)
def test_matches_are_equal_elements_in_the_order_of_both(a: list[str], b: list[str]) -> None:
    found = matches(a, b)
    assert all(a[one] == b[other] for one, other in found)
    assert all(one < later and other < after for (one, other), (later, after) in pairwise(found))


@given(letters, letters)
def test_in_short_sequences_nothing_that_could_match_is_missed(a: list[str], b: list[str]) -> None:
    assert len(matches(a, b)) == lcs_length(a, b)


@given(st.lists(st.integers(), max_size=400), st.data())
def test_what_was_only_added_to_leaves_everything_matched(a: list[int], data: st.DataObject) -> None:
    b = list(a)
    for at in data.draw(st.lists(st.integers(0, len(b)), max_size=5)):
        b.insert(at, 2**80)  # none of ``a``
    assert len(matches(a, b)) == len(a)


@given(letters, letters)
def test_gaps_and_matches_together_are_both_sequences(a: list[str], b: list[str]) -> None:
    ours: list[int] = []
    theirs: list[int] = []
    for gone, new, match in gaps(matches(a, b), len(a), len(b)):
        ours += [*gone, *([] if match is None else [match[0]])]
        theirs += [*new, *([] if match is None else [match[1]])]
    assert (ours, theirs) == (list(range(len(a))), list(range(len(b))))


class Counted:
    """An element that counts how often it is hashed or compared."""

    uses = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        Counted.uses += 1
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        Counted.uses += 1
        return isinstance(other, Counted) and self.value == other.value


def shuffled(length: int) -> tuple[list[int], list[int]]:
    values = list(range(length))
    return values, Random(length).sample(values, length)


def nothing_in_common(length: int) -> tuple[list[int], list[int]]:
    return list(range(length)), list(range(length, 2 * length))


def few_values(length: int) -> tuple[list[int], list[int]]:
    random = Random(length)
    return [random.randrange(3) for _ in range(length)], [random.randrange(3) for _ in range(length)]


def reversed_pairs(length: int) -> tuple[list[int], list[int]]:
    values = [value for pair in range(length // 2) for value in (pair, pair)]
    return values, values[::-1]


def nested_anchors(length: int) -> tuple[list[int], list[int]]:
    """Elements that are unique only between others."""
    values = [at % 97 if at % 50 else -at for at in range(length)]
    return values, [value + 1 if value % 11 == 3 else value for value in values]


@pytest.mark.parametrize("case", [shuffled, nothing_in_common, few_values, reversed_pairs, nested_anchors])
def test_four_times_as_long_takes_about_four_times_the_work(
    case: Callable[[int], tuple[list[int], list[int]]],
) -> None:
    def work(length: int) -> int:
        a, b = case(length)
        Counted.uses = 0
        matches([Counted(value) for value in a], [Counted(value) for value in b])
        return Counted.uses

    small, large = work(4_000), work(16_000)
    assert large < 6 * small, (small, large)  # 16 times if all were compared with all
    assert large < 100 * 16_000
