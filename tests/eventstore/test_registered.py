"""Lists of what was registered: in order, fixed while one goes over them, each taken off by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore.registered import Registered


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_what_is_left_stands_in_the_order_in_which_it_was_added(moves: list[tuple[bool, int]]) -> None:
    registered: Registered[int] = Registered()
    expected: list[tuple[int, int]] = []
    removals = []
    for number, (adds, value) in enumerate(moves):
        if adds or not removals:
            removals.append((number, registered.add(value)))
            expected.append((number, value))
        else:
            added, remove = removals[value % len(removals)]
            remove()  # any number of times
            expected = [pair for pair in expected if pair[0] != added]
        assert list(registered) == [value for _, value in expected]
        assert bool(registered) == bool(expected)


def test_who_comes_while_one_goes_over_them_is_not_among_them() -> None:
    registered: Registered[str] = Registered()
    registered.add("a")
    seen = []
    for item in registered:
        registered.add("late")
        seen.append(item)
    assert (seen, list(registered)) == (["a"], ["a", "late"])
