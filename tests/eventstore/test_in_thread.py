"""Waiting for what blocks: results, errors, waits that are given up, and loops that are gone."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time

import pytest

from playhead.eventstore.in_thread import in_thread

PLACE = contextvars.ContextVar("place", default="outside")


def raises(error: BaseException) -> None:
    raise error


def test_a_call_gives_its_result_and_sees_the_context_of_its_caller() -> None:
    async def run() -> str:
        PLACE.set("inside")
        return await in_thread(PLACE.get)

    assert asyncio.run(run()) == "inside"


@pytest.mark.parametrize(
    ("error", "seen"),
    [(KeyError("k"), KeyError), (StopIteration(), RuntimeError), (SystemExit(), SystemExit)],
)
def test_a_call_raises_what_it_raises(error: BaseException, seen: type[BaseException]) -> None:
    async def run() -> str:
        try:
            await in_thread(lambda: raises(error))
        except seen:
            return "raised"
        return "not raised"

    assert asyncio.run(run()) == "raised"


def test_many_calls_that_wait_for_each_other_all_run() -> None:
    """More than the threads of a pool would be."""
    together = threading.Barrier(40)

    async def run() -> None:
        await asyncio.gather(*(in_thread(lambda: together.wait(30)) for _ in range(40)))

    asyncio.run(run())


def test_a_call_that_nobody_waits_for_any_more_holds_up_neither_its_loop_nor_the_process() -> None:
    script = """
import asyncio, time
from playhead.eventstore.in_thread import in_thread
async def run():
    try:
        await asyncio.wait_for(in_thread(lambda: time.sleep(600)), 0.05)
    except TimeoutError:
        print("gave up")
asyncio.run(run())
"""
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("gave up\n", "", 0)
    assert time.monotonic() - began < 60


def test_a_call_that_ends_when_its_loop_is_closed_says_nothing() -> None:
    release, ended = threading.Event(), threading.Event()

    def call() -> None:
        release.wait(30)
        ended.set()

    async def run() -> None:
        task = asyncio.ensure_future(in_thread(call))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(run())
    release.set()
    assert ended.wait(30)
