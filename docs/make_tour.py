"""Writes ``tour.md``: what the commands show of three example sessions, exactly as a terminal shows it.

    python docs/make_tour.py [FILE]

FILE is ``docs/tour.md`` by default. The commands run in a terminal of 96 columns, in UTC and without colours, so the
same program gives the same page.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).parent / "tour.md"
SESSIONS = "examples/tour"
COLUMNS = 96

INTRODUCTION = """\
# Tour

What Playhead shows of three sessions, each written by Playhead itself. They lie in [examples/tour](../examples/tour),
made by [a script](../examples/tour.py); a path to a log file works wherever the name of a session in a store does.
This page is made by [make_tour.py](make_tour.py), which runs the commands.
"""

PARTS = {
    "crash-and-resume": (
        "A session that crashed twice",
        """\
The first time the process died while a tool ran. Nobody knows whether the photos were renamed, and the log says so
instead of guessing. What was queued survived, and was done after the restart. The second time it died when it had just
taken a prompt from the queue: that prompt is lost, and the audit of the inbox is where it shows.""",
        (("show",), ("inbox",), ("inbox", "--message", "message-12"), ("stats",)),
    ),
    "steering": (
        "A session that was steered",
        """\
A person joins in while tools run, queues two more prompts, rewrites one, takes the other back, and stops an answer.
Every message has one verdict, and every verdict that needs it a reason.""",
        (("show",), ("inbox",), ("stats",)),
    ),
    "goal": (
        "A session that worked on a goal",
        """\
Rounds are counted when they enter the conversation. The goal was paused, rewritten and taken up again on the way, and
one model call broke off and was made again.""",
        (("show",), ("goals",), ("inbox",), ("stats",)),
    ),
}
"""Session -> heading, what is to be seen in it, and the commands that show it."""


def page() -> str:
    """The whole page."""
    return "".join(_sections())


def _sections() -> Iterator[str]:
    yield INTRODUCTION
    for session, (heading, told, commands) in PARTS.items():
        yield f"\n## {heading}\n\n{told}\n"
        for command, *options in commands:
            words = (command, f"{SESSIONS}/{session}.jsonl", *options)
            yield f"\n```console\n$ playhead {' '.join(words)}\n{screen(*words)}```\n"


def screen(*words: str) -> str:
    """What a terminal shows of ``playhead`` with these words, without blanks at the ends of lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLAYHEAD_", "LC_"))}
    env = kept | {"NO_COLOR": "1", "TERM": "xterm", "TZ": "UTC", "COLUMNS": str(COLUMNS), "LANG": "C.UTF-8"}
    program = [sys.executable, "-m", "playhead.cli.main", *words]
    with subprocess.Popen(program, cwd=ROOT, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        shown = _all_of(ours)
    os.close(ours)
    if running.returncode not in (0, 1):
        raise RuntimeError(f"playhead {' '.join(words)} ended with {running.returncode}:\n{shown}")
    return "".join(f"{line.rstrip()}\n" for line in shown.rstrip().splitlines())


def _all_of(terminal: int) -> str:
    """Everything that is written to a terminal until nobody holds its other end."""
    pieces = []
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            piece = b""
        if not piece:
            return b"".join(pieces).decode()
        pieces.append(piece)


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(page(), encoding="utf-8")
