"""What a replay waits with: it shows what is written first, and in a terminal it listens to keys.

Keys: space pauses and plays on, ``s`` or enter gives the next piece, ``q`` leaves. The terminal is put into a mode in
which keys come at once and are not echoed, and back again whatever happens, also while the program is stopped (Ctrl-Z).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from importlib.util import find_spec
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
        self._keys = _Keys(sys.stdin.fileno())
        self._listens = True

    def __enter__(self) -> Self:
        self._keys.take()
        note(KEYS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keys.give_back()

    def now_s(self) -> float:
        """The time, which stands still while the program is stopped."""
        return time.monotonic() - self._keys.away_s

    def wait(self, seconds: float | None) -> None:
        """Wait for the time or a key, and do what the key says."""
        sys.stdout.flush()
        sign = self._signs and seconds is None
        try:
            if sign:
                print(_PAUSED, end="", file=sys.stderr, flush=True)
            ready, _, _ = select.select([self._keys.stdin] if self._listens else [], [], [], seconds)
        finally:
            if sign:
                print(_UNPAUSED, end="", file=sys.stderr, flush=True)
        if ready:
            self._press(os.read(self._keys.stdin, 64))

    def wake(self) -> None:
        """Nothing: keys are pressed within a wait."""

    def _press(self, keys: bytes) -> None:
        if not keys:  # nobody can press one any more
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


class _Keys:
    """The mode of the terminal ``stdin``, in which keys come one by one.

    ``away_s`` is how long the program was stopped. A terminal that another program has now is left alone.
    """

    def __init__(self, stdin: int) -> None:
        self.stdin = stdin
        self.away_s = 0.0
        self._stopped_s: float | None = None
        self._before: list[Any] = []
        self._handlers: dict[signal.Signals, Any] = {}

    def take(self) -> None:
        """Have keys come one by one, also when the program goes on after it was stopped."""
        import termios

        self._before = termios.tcgetattr(self.stdin)
        self._handlers = {
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._stop),
            signal.SIGCONT: signal.signal(signal.SIGCONT, self._go_on),
        }
        self._set(one_by_one=True)

    def give_back(self) -> None:
        """Have the terminal as it was."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._set(one_by_one=False)

    def _set(self, *, one_by_one: bool) -> None:
        import termios

        mode = [*self._before]
        if one_by_one:
            mode[3] &= ~(termios.ICANON | termios.ECHO)
        if _is_in_front():
            termios.tcsetattr(self.stdin, termios.TCSADRAIN, mode)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._set(one_by_one=False)
        self._stopped_s = time.monotonic()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)

    def _go_on(self, _signal: int, _frame: FrameType | None) -> None:
        if self._stopped_s is not None:
            self.away_s += time.monotonic() - self._stopped_s
            self._stopped_s = None
        signal.signal(signal.SIGTSTP, self._stop)
        self._set(one_by_one=True)


def has_keys() -> bool:
    """Whether a person is at the keys: stdin and stdout are a terminal, and this is the program in front of it."""
    return find_spec("termios") is not None and sys.stdin.isatty() and sys.stdout.isatty() and _is_in_front()


def _is_in_front() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False
