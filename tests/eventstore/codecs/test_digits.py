"""Digits of many integers are those that ``str`` gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore.codecs import digits


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_digits_are_those_of_each_number(numbers: list[int]) -> None:
    assert digits.of(numbers) == [str(number).encode() for number in numbers]


@given(
    st.one_of(st.integers(-9, 9), st.integers(2**16 - 9, 2**16 + 9), st.integers(0, 2**60)),
    st.integers(1, 20),
)
def test_consecutive_digits_are_the_same_at_and_beyond_the_end_of_what_is_kept(
    first: int, count: int
) -> None:
    assert digits.consecutive(first, count) == digits.of(list(range(first, first + count)))


def test_a_caller_may_change_the_list_it_got() -> None:
    digits.consecutive(0, 3).clear()
    assert digits.consecutive(0, 3) == [b"0", b"1", b"2"]
