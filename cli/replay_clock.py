"""What a replay waits with: it shows what is written first, and in a terminal it listens to keys.

Keys: space pauses and plays on, ``s`` or enter gives the next piece, ``q`` leaves. The terminal is put into a mode in
which keys come at once and are not echoed, and back again whatever happens.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from types import FrameType, TracebackType
from typing import Any, Self

from playhead.cli.output import note
from playhead.replay.control import Control
from playhead.replay.player import ThreadClock

KEYS = "space pauses and plays on, s or enter steps, q leaves"

_PAUSED = "\x1b[2m ‖\x1b[0m"
_UNPAUSED = "\x1b[2D\x1b[K"
PAUSED_CELLS = 2
"""So much room the sign of a pause takes behind what is written."""


class PipeClock(ThreadClock):
    """Real time. What was written can be seen before a wait begins."""

    def wait(self, seconds: float | None) -> None:
        sys.stdout.flush()
        super().wait(seconds)


class KeyClock:
    """Real time in a terminal, whose keys drive ``control``. It is a context: the terminal is changed within it only.

    ``signs`` says whether a pause may be marked where the cursor stands.
    """

    def __init__(self, control: Control, *, signs: bool) -> None:
        self._control = control
        self._signs = signs
        self._stdin = sys.stdin.fileno()
        self._listens = True
        self._mode: list[Any] = []
        self._continued: Any = None

    def __enter__(self) -> Self:
        self._mode = termios.tcgetattr(self._stdin)
        self._continued = signal.signal(signal.SIGCONT, self._take_keys)
        self._take_keys()
        note(KEYS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGCONT, self._continued)
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._mode)

    def _take_keys(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Let keys come one by one. A shell that went on with a stopped program has undone it."""
        mode = termios.tcgetattr(self._stdin)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, mode)

    # Clock

    def now_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float | None) -> None:
        """Wait for the time or a key, and do what the key says."""
        sys.stdout.flush()
        sign = self._signs and seconds is None
        try:
            if sign:
                print(_PAUSED, end="", file=sys.stderr, flush=True)
            ready, _, _ = select.select([self._stdin] if self._listens else [], [], [], seconds)
        finally:
            if sign:
                print(_UNPAUSED, end="", file=sys.stderr, flush=True)
        if ready:
            self._press(os.read(self._stdin, 64))

    def wake(self) -> None:
        """Nothing: keys are pressed within a wait."""

    def _press(self, keys: bytes) -> None:
        if not keys:  # the terminal is gone
            self._listens = False
            self._control.resume()
        for key in keys.decode("ascii", "replace"):
            match key:
                case " ":
                    self._control.toggle()
                case "s" | "S" | "\n" | "\r":
                    self._control.step()
                case "q" | "Q":
                    self._control.stop()


def has_keys() -> bool:
    """Whether a person is at the keys: stdin and stdout are a terminal, and this is the program in front of it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False
