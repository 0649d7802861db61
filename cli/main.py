"""The way in: finds the commands in this folder and runs one.

A polite request to end (SIGTERM) is treated like Ctrl-C: what is under way is taken back, and the exit code says so.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from pkgutil import iter_modules
from typing import NoReturn

import playhead.cli
from playhead.cli.app import READER_GONE, STOPPED, app, show
from playhead.cli.log_lines import tell_what_is_logged
from playhead.cli.output import silence


def load_commands() -> None:
    """Import the modules of this folder that may hold a command; those that do register it.

    A name of several words is that of a part, which the command imports when it needs it.
    """
    for module in iter_modules(playhead.cli.__path__):
        if "_" not in module.name.rstrip("_"):
            import_module(f"playhead.cli.{module.name}")


def _open_standard_streams() -> None:
    """Give one that is closed (``<&-``) the null device: no other file is taken for it, and nothing is shown there."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            setattr(sys, name, os.fdopen(null, "w" if descriptor else "r", encoding="utf-8"))


def main() -> NoReturn:
    """Run the command that ``sys.argv`` names, and end the process with its exit code."""
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code: int | str | None
    tell_what_is_logged()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        load_commands()
        app(prog_name="playhead")
        code = 0
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        code = STOPPED
    except OSError as error:  # of what no command writes: help, and the version
        code = show(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        code = READER_GONE
    except OSError as error:
        code = show(error)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left that could be taken back
    sys.exit(code)


if __name__ == "__main__":
    main()
