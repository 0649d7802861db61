from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore.errors import UsageError
from playhead.replay.schedule import RECORDED, UNPACED, Pace, scheduled


class Item(NamedTuple):
    time_ms: int | None
    is_idle: bool = False


items = st.lists(
    st.builds(Item, st.none() | st.integers(0, 100) | st.integers(-(2**53), 2**53), is_idle=st.booleans()),
    max_size=30,
)
paces = st.builds(
    Pace,
    st.sampled_from([0.25, 1.0, 4.0, 1000.0, math.inf]),
    st.sampled_from([0.0, 10.0, 2000.0, math.inf]),
)


def due(found: list[Item], pace: Pace) -> list[float]:
    return [ms for ms, _ in scheduled(found, pace, lambda item: item.is_idle)]


def forward_gaps(found: list[Item]) -> list[int]:
    times = [item.time_ms for item in found if item.time_ms is not None]
    return [max(after - before, 0) for before, after in pairwise(times)]


@given(items, paces)
def test_every_item_comes_once_in_order_and_none_before_the_one_before_it(
    found: list[Item], pace: Pace
) -> None:
    assert [item for _, item in scheduled(found, pace, lambda item: item.is_idle)] == found
    times = due(found, pace)
    assert times[:1] in ([], [0.0])
    assert all(before <= after for before, after in pairwise(times))


@given(items)
def test_all_delays_together_are_the_sum_of_the_gaps_that_go_forward(found: list[Item]) -> None:
    assert due(found, RECORDED)[-1:] == ([float(sum(forward_gaps(found)))] if found else [])


@given(items, st.sampled_from([0.5, 4.0, 100.0]), st.sampled_from([0.0, 500.0, math.inf]))
def test_speed_scales_every_delay(found: list[Item], speed: float, idle_ms: float) -> None:
    plain, fast = due(found, Pace(1, idle_ms)), due(found, Pace(speed, idle_ms))
    assert fast == [ms / speed for ms in plain]


@given(items)
def test_no_item_waits_where_nobody_wants_to_wait(found: list[Item]) -> None:
    assert set(due(found, UNPACED)) <= {0.0}


@given(items)
def test_only_idle_gaps_are_cut(found: list[Item]) -> None:
    streaming = [item._replace(is_idle=False) for item in found]
    assert due(streaming, Pace(idle_ms=0)) == due(streaming, RECORDED)
    idle = [item._replace(is_idle=True) for item in found]
    assert set(due(idle, Pace(idle_ms=0))) <= {0.0}


def test_a_clock_that_goes_back_costs_no_wait_and_swallows_no_later_gap() -> None:
    found = [Item(5_000), Item(1_900), Item(1_900), Item(2_100)]
    assert due(found, RECORDED) == [0, 0, 0, 200]


def test_an_item_without_a_time_is_due_with_the_one_before_it() -> None:
    assert due([Item(None), Item(7), Item(None), Item(27)], RECORDED) == [0, 0, 0, 20]


@pytest.mark.parametrize(("speed", "idle_ms"), [(0, 0), (-1, 0), (math.nan, 0), (1, -1), (1, math.nan)])
def test_a_pace_that_makes_no_sense_is_refused(speed: float, idle_ms: float) -> None:
    with pytest.raises(UsageError):
        Pace(speed, idle_ms)
