"""Cancellation: the first cause counts, everybody is told once, and nobody who fails is in the way."""

from __future__ import annotations

import asyncio
import logging

import pytest

from playhead.eventstore.cancel import Cancelled, CancelToken, is_torn_down


def test_the_first_cause_counts_and_is_raised() -> None:
    token = CancelToken()
    token.check()
    token.cancel({"kind": "user"})
    token.cancel({"kind": "disposed"})
    with pytest.raises(Cancelled) as raised:
        token.check()
    assert (raised.value.cause, token.cause) == ({"kind": "user"}, {"kind": "user"})


def test_listeners_are_called_once_in_order_and_one_that_fails_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token, told = CancelToken(), list[str]()

    def broken() -> None:
        raise RuntimeError("boom")

    token.on_cancel(broken)
    token.on_cancel(lambda: told.append("first"))
    token.on_cancel(lambda: told.append("gone"))()
    token.on_cancel(lambda: told.append("second"))
    with caplog.at_level(logging.ERROR, "playhead.eventstore"):
        token.cancel({"kind": "user"})
    token.cancel({"kind": "user"})
    token.on_cancel(lambda: told.append("late"))
    assert told == ["first", "second", "late"]
    assert "boom" in caplog.text


def test_waiting_ends_with_the_cause_and_leaves_no_listener_behind() -> None:
    async def run() -> str:
        token = CancelToken()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(token.wait(), 0.01)
        assert not token._listeners
        asyncio.get_running_loop().call_soon(token.cancel, {"kind": "parent"})
        return str((await token.wait())["kind"])

    assert asyncio.run(run()) == "parent"


def test_a_task_knows_whether_it_was_cancelled_itself_or_what_it_awaited() -> None:
    async def wait_for(future: asyncio.Future[None]) -> bool:
        try:
            await future
        except asyncio.CancelledError:
            return is_torn_down()
        raise AssertionError

    async def run() -> list[bool]:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        tasks = [asyncio.ensure_future(wait_for(first)), asyncio.ensure_future(wait_for(second))]
        await asyncio.sleep(0)
        first.cancel()
        tasks[1].cancel()
        return [await task for task in tasks]

    assert asyncio.run(run()) == [False, True]
