from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.replay.async_player import play_async
from playhead.replay.control import Control
from playhead.replay.player import play
from playhead.replay.schedule import RECORDED, UNPACED, Pace


class Item(NamedTuple):
    time_ms: int


def items(*times_ms: int) -> list[Item]:
    return [Item(time_ms) for time_ms in times_ms]


class FakeClock:
    """Time that passes only in waits. ``meanwhile`` are things that somebody does at a time, during a wait."""

    def __init__(self, *meanwhile: tuple[float, Callable[[], None]], lateness_s: float = 0.0) -> None:
        self.time_s = 1000.0
        self.waits: list[float | None] = []
        self._lateness_s = lateness_s
        self._meanwhile = [(self.time_s + at_s, act) for at_s, act in meanwhile]

    def now_s(self) -> float:
        return self.time_s

    def wait(self, seconds: float | None) -> None:
        self.waits.append(seconds)
        end_s = None if seconds is None else self.time_s + seconds + self._lateness_s
        if self._meanwhile and (end_s is None or self._meanwhile[0][0] <= end_s):
            at_s, act = self._meanwhile.pop(0)
            self.time_s = max(self.time_s, at_s)
            act()
            return
        assert end_s is not None, "paused for ever"
        self.time_s = end_s

    def wake(self) -> None:
        pass


class FakeAsyncClock(FakeClock):
    async def wait(self, seconds: float | None) -> None:  # type: ignore[override]
        super().wait(seconds)


def played(
    found: Iterable[Item], clock: FakeClock, pace: Pace = RECORDED, control: Control | None = None
) -> list[tuple[float, int]]:
    """When each item came, in seconds from the start, and its recorded time."""
    return [
        (round(clock.now_s() - 1000, 6), item.time_ms)
        for item in play(found, pace, control=control, clock=clock)
    ]


async def played_async(
    found: Iterable[Item], clock: FakeAsyncClock, pace: Pace = RECORDED
) -> list[tuple[float, int]]:
    return [
        (round(clock.now_s() - 1000, 6), item.time_ms) async for item in play_async(found, pace, clock=clock)
    ]


def test_items_come_with_their_recorded_gaps() -> None:
    assert played(items(100, 350, 350, 1350), FakeClock()) == [
        (0, 100),
        (0.25, 350),
        (0.25, 350),
        (1.25, 1350),
    ]


def test_speed_divides_the_gaps() -> None:
    assert played(items(0, 400, 2000), FakeClock(), Pace(speed=4)) == [(0, 0), (0.1, 400), (0.5, 2000)]


def test_without_pacing_nobody_waits() -> None:
    clock = FakeClock()
    assert [time_ms for _, time_ms in played(items(0, 10**12), clock, UNPACED)] == [0, 10**12]
    assert clock.waits == []


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=20))
def test_waits_that_end_late_do_not_add_up(times: list[int]) -> None:
    clock = FakeClock(lateness_s=0.01)
    times.sort()
    came = played(items(*times), clock)
    assert all(0 <= at - (time_ms - times[0]) / 1000 <= 0.010_001 for at, time_ms in came)


def test_who_takes_the_items_slowly_gets_what_is_overdue_at_once() -> None:
    clock = FakeClock()
    came = []
    for item in play(items(0, 100, 200, 5000), clock=clock):
        came.append((round(clock.time_s - 1000, 6), item.time_ms))
        if item.time_ms == 0:
            clock.time_s += 3
    assert came == [(0, 0), (3, 100), (3, 200), (5, 5000)]


def test_a_gap_of_years_is_waited_for_in_pieces() -> None:
    clock = FakeClock()
    assert played(items(0, 10_000_000), clock)[-1] == (10_000, 10_000_000)
    assert max(wait or 0 for wait in clock.waits) == 3600


def test_a_pause_moves_everything_behind_it_by_its_length() -> None:
    control = Control()
    clock = FakeClock((0.5, control.pause), (10.5, control.resume))
    came = played(items(0, 1000, 2000), clock, control=control)
    assert came == [(0, 0), (11, 1000), (12, 2000)]


def test_a_play_can_begin_paused() -> None:
    control = Control(paused=True)
    clock = FakeClock((3, control.toggle))
    assert played(items(0, 1000), clock, control=control) == [(3, 0), (4, 1000)]


def test_a_step_gives_one_item_at_once_and_resuming_keeps_the_gap_behind_it() -> None:
    control = Control(paused=True)
    clock = FakeClock((1, control.step), (2, control.step), (7, control.resume))
    came = played(items(0, 1000, 60_000), clock, control=control)
    assert came == [(1, 0), (2, 1000), (7 + 59, 60_000)]


def test_a_step_while_it_plays_pauses_behind_the_next_item() -> None:
    control = Control()
    clock = FakeClock((0.1, control.step), (5, control.toggle))
    assert played(items(0, 1000, 1500), clock, control=control) == [(0, 0), (0.1, 1000), (5.5, 1500)]
    assert not control.paused


def test_a_stop_ends_the_play_before_the_next_item() -> None:
    control = Control()
    clock = FakeClock((0.5, control.stop))
    assert played(items(0, 1000, 2000), clock, control=control) == [(0, 0)]
    assert control.stopped


def test_a_stop_ends_a_paused_play() -> None:
    control = Control(paused=True)
    assert played(items(0), FakeClock((1, control.stop)), control=control) == []


@given(
    st.lists(st.tuples(st.floats(0, 20), st.sampled_from(["pause", "resume", "toggle", "step"])), max_size=12)
)
def test_whatever_is_pressed_every_item_comes_once_in_order(presses: list[tuple[float, str]]) -> None:
    control = Control()
    acts = [(at_s, getattr(control, name)) for at_s, name in sorted(presses, key=lambda press: press[0])]
    clock = FakeClock(*acts, (21, control.resume))
    came = played(items(*range(0, 10_000, 700)), clock, control=control)
    assert [time_ms for _, time_ms in came] == list(range(0, 10_000, 700))
    assert all(before[0] <= after[0] for before, after in pairwise(came))


@given(st.lists(st.integers(-1000, 1000), max_size=20), st.sampled_from([RECORDED, Pace(3), UNPACED]))
def test_a_task_gets_what_a_thread_gets_at_the_same_times(times: list[int], pace: Pace) -> None:
    found = items(*times)
    awaited = asyncio.run(played_async(found, FakeAsyncClock(), pace))
    assert awaited == played(found, FakeClock(), pace)


def test_nothing_is_read_ahead_of_what_is_given_out() -> None:
    read = 0

    def source() -> Iterator[Item]:
        nonlocal read
        for number in range(10):
            read += 1
            yield Item(number)

    running = play(source(), UNPACED)
    assert [next(running).time_ms for _ in range(3)] == [0, 1, 2]
    assert read == 3


@pytest.mark.parametrize("how", ["resume", "step", "stop"])
def test_another_thread_wakes_a_player_that_waits(how: str) -> None:
    control = Control(paused=True)
    timer = threading.Timer(0.05, getattr(control, how))
    timer.start()
    came = [item.time_ms for item in play(items(7), control=control)]
    assert came == ([] if how == "stop" else [7])
    timer.join()


def test_another_thread_wakes_a_task_that_waits() -> None:
    control = Control()

    async def run() -> list[int]:
        timer = threading.Timer(0.05, control.step)
        timer.start()
        came = [item.time_ms async for item in play_async(items(0, 3_600_000), control=control)]
        timer.join()
        return came

    assert asyncio.run(run()) == [0, 3_600_000]


def test_real_time_is_waited_for() -> None:
    began_s = time.monotonic()
    assert len(list(play(items(0, 30, 60)))) == 3
    assert time.monotonic() - began_s >= 0.059


def test_other_tasks_run_while_one_plays_without_pacing() -> None:
    async def run() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async for _ in play_async(items(*range(50)), UNPACED):
            pass
        task.cancel()
        return turns

    assert asyncio.run(run()) >= 50
