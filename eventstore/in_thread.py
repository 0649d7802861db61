"""Waiting on an event loop for what blocks: a thread of its own for every call.

The threads of ``asyncio.to_thread`` are few, shared with everybody, and waited for at the end of the process. Here a
call that takes for ever takes nobody's place and holds up no exit; who does not want to wait any more just stops.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """What ``call`` gives or raises, from a thread that begins now. Cancelling the wait leaves the thread alone."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        settle: Callable[[Any], None] = done.set_result
        told: Any
        try:
            told = context.run(call)
        except StopIteration as error:  # no future takes one
            settle, told = done.set_exception, RuntimeError(f"a call in a thread raised {error!r}")
        except BaseException as error:
            settle, told = done.set_exception, error
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(lambda: None if done.done() else settle(told))

    threading.Thread(target=run, name="playhead-call", daemon=True).start()
    return await done
