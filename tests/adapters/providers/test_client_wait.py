"""Which came first, silence or cancellation, decides how a wait ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from playhead.adapters.providers.client_wait import IdleTimeout, Wait
from playhead.eventstore.cancel import Cancelled, CancelToken

CAUSE = {"kind": "user"}
LONG_S = 20.0


async def for_ever() -> None:
    await asyncio.sleep(LONG_S)


def waited(
    begin: Callable[[], Awaitable[object]], token: CancelToken, idle_timeout_s: float = LONG_S
) -> object:
    async def run() -> object:
        return await Wait(token, idle_timeout_s)(begin)

    return asyncio.run(run())


def test_what_comes_is_given_back_and_leaves_no_listener() -> None:
    token = CancelToken()

    async def seven() -> int:
        return 7

    assert waited(seven, token) == 7
    assert not token._listeners


def test_silence_ends_a_wait() -> None:
    with pytest.raises(IdleTimeout):
        waited(for_ever, CancelToken(), 0.01)


def test_a_cancellation_ends_a_wait_at_once() -> None:
    token = CancelToken()

    async def cancelled_soon() -> None:
        asyncio.get_running_loop().call_later(0.01, token.cancel, CAUSE)
        await for_ever()

    with pytest.raises(Cancelled) as caught:
        waited(cancelled_soon, token)
    assert caught.value.cause == CAUSE


def test_a_wait_is_not_begun_behind_a_cancellation() -> None:
    token = CancelToken()
    token.cancel(CAUSE)
    with pytest.raises(Cancelled):
        waited(lambda: pytest.fail("begun"), token)


def test_a_cancellation_behind_the_silence_does_not_hide_it() -> None:
    token = CancelToken()

    async def cancels_while_it_ends() -> None:
        try:
            await for_ever()
        finally:
            token.cancel(CAUSE)

    with pytest.raises(IdleTimeout):
        waited(cancels_while_it_ends, token, 0.01)


def test_silence_behind_a_cancellation_does_not_hide_it() -> None:
    token = CancelToken()

    async def ends_slowly() -> None:
        asyncio.get_running_loop().call_soon(token.cancel, CAUSE)
        try:
            await for_ever()
        finally:
            await asyncio.sleep(0.05)

    with pytest.raises(Cancelled):
        waited(ends_slowly, token, 0.02)


def test_a_timeout_of_what_is_awaited_is_its_own() -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        waited(fails, CancelToken())


def test_the_cancellation_of_the_task_stays_one() -> None:
    async def run() -> None:
        task = asyncio.create_task(Wait(CancelToken(), LONG_S)(for_ever))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
