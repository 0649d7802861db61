"""The signals that a conversation heeds.

Ctrl-C is for the place where the conversation is had. A request to end, or a terminal that was closed, leaves in good
order: the turn is closed, and everything is durable. A hang-up that is ignored, as under ``nohup``, stays so.

While all that is done, a person may not want to wait for it: Ctrl-C then breaks it off, and one more ends the process
where it is, whatever it hangs at.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def heeded(interrupt: Callable[[], object], leave: Callable[[], object]) -> Iterator[None]:
    """Calls ``interrupt`` at Ctrl-C, and ``leave`` when the conversation is to end, on the loop that runs.

    Behind the context requests to end are still taken, and change nothing; Ctrl-C breaks off what is left to do.
    """
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, leave)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, leave)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, _break_off)


@contextmanager
def put_back() -> Iterator[None]:
    """Lets signals do afterwards what they did before; Ctrl-C not where it broke something off."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        del before[signal.SIGINT]
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _break_off(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt
