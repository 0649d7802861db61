"""The signals that a conversation heeds.

Ctrl-C is for the place where the conversation is had. A request to end, or a terminal that was closed, leaves in good
order: the turn is closed, and everything is durable. What is ignored stays so, as a hang-up under ``nohup``.

A person may not want to wait for all that. The next Ctrl-C says what is waited for, and one more ends the process where
it is, whatever it hangs at.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_WAITS = b"playhead: what came last is being stored; Ctrl-C ends it without that\n"


@contextmanager
def heeded(interrupt: Callable[[], object], leave: Callable[[], object]) -> Iterator[None]:
    """Calls ``interrupt`` at Ctrl-C, and ``leave`` when the conversation is to end, on the loop that runs.

    Behind the context requests to end are still taken, and change nothing; Ctrl-C is for who does not want to wait.
    """
    loop = asyncio.get_running_loop()
    calls = {signal.SIGINT: interrupt, signal.SIGTERM: leave, signal.SIGHUP: leave}
    heeded = {number: call for number, call in calls.items() if signal.getsignal(number) != signal.SIG_IGN}
    for number, call in heeded.items():
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        if signal.SIGINT in heeded:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, _say_what_is_waited_for)


@contextmanager
def put_back() -> Iterator[None]:
    """Lets signals do afterwards what they did before, but for a Ctrl-C that is to end the process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
            del before[signal.SIGINT]
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_what_is_waited_for(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.write(sys.stderr.fileno(), _WAITS)
