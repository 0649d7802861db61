"""Writes ``tour.md``: what the commands show of the example sessions, exactly as a terminal shows it.

    python docs/make_tour.py [FILE]

FILE is ``docs/tour.md`` by default. The commands run in a terminal of 96 columns, in UTC and without colours, with a
store of their own, so the same program gives the same page. What a conversation has anew each time is put right
afterwards.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).parent / "tour.md"
SESSIONS = "examples/tour"
COLUMNS = 96

INTRODUCTION = """\
# Tour

What Playhead shows of four sessions, each written by Playhead itself. They lie in [examples/tour](../examples/tour),
made by [a script](../examples/tour.py); a path to a log file works wherever the name of a session in a store does.
This page is made by [make_tour.py](make_tour.py), which runs the commands.
"""


class Part(NamedTuple):
    """A section of the page: what is to be seen, and the commands that show it."""

    heading: str
    told: str
    commands: tuple[str, ...]


PARTS = (
    Part(
        "A session that crashed twice",
        """\
The first time the process died while a tool ran. Nobody knows whether the photos were renamed, and the log says so
instead of guessing. What was queued survived, and was done after the restart. The second time it died when it had just
taken a prompt from the queue: that prompt is lost, and the audit of the inbox is where it shows.""",
        (
            f"show {SESSIONS}/crash-and-resume.jsonl",
            f"inbox {SESSIONS}/crash-and-resume.jsonl",
            f"inbox {SESSIONS}/crash-and-resume.jsonl --message message-12",
            f"stats {SESSIONS}/crash-and-resume.jsonl",
        ),
    ),
    Part(
        "A session that was steered",
        """\
A person joins in while tools run, queues two more prompts, rewrites one, takes the other back, and stops an answer.
Every message has one verdict, and every verdict that needs it a reason.""",
        (
            f"show {SESSIONS}/steering.jsonl",
            f"inbox {SESSIONS}/steering.jsonl",
            f"stats {SESSIONS}/steering.jsonl",
        ),
    ),
    Part(
        "A session that worked on a goal",
        """\
Rounds are counted when they enter the conversation. The goal was paused, rewritten and taken up again on the way, and
one model call broke off and was made again.""",
        (
            f"show {SESSIONS}/goal.jsonl",
            f"goals {SESSIONS}/goal.jsonl",
            f"inbox {SESSIONS}/goal.jsonl",
            f"stats {SESSIONS}/goal.jsonl",
        ),
    ),
    Part(
        "The same as it streamed",
        """\
A replay takes the time that the session took; these two are told to wait for nothing. The first is what a person saw,
the call that broke off among it. The second is the answer that was stopped, in the pieces in which it came.""",
        (
            f"replay {SESSIONS}/goal.jsonl --turn 2 --speed max",
            f"replay {SESSIONS}/steering.jsonl --turn 2 --as chunks --speed max",
        ),
    ),
    Part(
        "Another way from an earlier place",
        """\
A fork takes over everything up to a place, here the end of the first turn, and is a session that can go on. The
original stays as it is, and keeps what it had queued. What tells the two apart is shown event by event, here without
the header.""",
        (
            f"fork {SESSIONS}/steering.jsonl --at 80 --id sourdough-only",
            f"diff {SESSIONS}/steering.jsonl sourdough-only --ignore session",
        ),
    ),
)

AGAIN = Part(
    "A recording in the place of the provider",
    """\
The recording answers, and an agent that asks the same gets the same: `strict` compares each request with the recorded
one. The tool is really run. The two conversations differ in nothing but their folders, down to the single chunk. (Port
and times are others each time; this page always has the same.)""",
    (
        f"serve --replay {SESSIONS}/shopping.jsonl --match strict --once",
        "run --base-url {url} --model example-1 --tool read-file --script examples/shopping-script.txt --id again",
        f"diff {SESSIONS}/shopping.jsonl again --chunks --ignore session",
    ),
)
"""The last part: what serves, what is run against it, and what compares the two."""

_URL = "http://127.0.0.1:8123"
_CHANGING = (
    (re.compile(r"http://127\.0\.0\.1:\d+"), _URL),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-06-05 12:00:00"),
    (re.compile(r"(?m)  \d+ ms$"), "  3 ms"),
)
"""What is different each time a conversation is had, and what the page has in its place."""


def page() -> str:
    """The whole page."""
    with TemporaryDirectory() as folder:
        return "".join(_sections(Path(folder) / "tour.sqlite"))


def _sections(store: Path) -> Iterator[str]:
    yield INTRODUCTION
    # A fork has the original beside it, and a command that only reads makes no store.
    screen(store, "import", SESSIONS)
    for heading, told, commands in PARTS:
        yield f"\n## {heading}\n\n{told}\n"
        for command in commands:
            yield _shown(command, screen(store, *command.split()))
    yield from _again(store)


def _shown(command: str, screen: str) -> str:
    return f"\n```console\n$ playhead {command}\n{screen}```\n"


def _again(store: Path) -> Iterator[str]:
    """The last part, with the server running while its second command does."""
    serve, run, diff = AGAIN.commands
    yield f"\n## {AGAIN.heading}\n\n{AGAIN.told}\n"
    with _started(store, *serve.split()) as (server, terminal):
        begun = ""
        while not (re.search(r"serving until [^\n]*\n", begun) and "http://" in begun):
            begun += os.read(terminal, 1 << 16).decode()
        url = re.search(r"http://\S+", begun)
        assert url is not None
        yield _shown(f"{serve} &", _still(_lines(begun)))
        said = screen(store, *run.format(url=url[0]).split())
        served = _all_of(terminal)
    _expect_done(server, serve, served)
    yield _shown(run.format(url=_URL), _still(said + _lines(served)))
    yield _shown(diff, screen(store, *diff.split()))


def _still(screen: str) -> str:
    for pattern, text in _CHANGING:
        screen = pattern.sub(text, screen)
    return screen


def screen(store: Path, *words: str) -> str:
    """What a terminal shows of ``playhead`` with these words, without blanks at the ends of lines."""
    with _started(store, *words) as (running, terminal):
        shown = _all_of(terminal)
    _expect_done(running, " ".join(words), shown)
    return _lines(shown)


@contextmanager
def _started(store: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """``playhead`` in a terminal of its own, and our end of that; it is waited for at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLAYHEAD_", "LC_"))}
    env = kept | {"NO_COLOR": "1", "TERM": "xterm", "TZ": "UTC", "COLUMNS": str(COLUMNS), "LANG": "C.UTF-8"}
    env["PLAYHEAD_STORE"] = str(store)
    program = [sys.executable, "-m", "playhead.cli.main", *words]
    try:
        with subprocess.Popen(
            program, cwd=ROOT, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        ) as running:
            os.close(theirs)
            try:
                yield running, ours
            except BaseException:
                running.terminate()
                raise
    finally:
        os.close(ours)


def _expect_done(ended: subprocess.Popen[bytes], command: str, shown: str) -> None:
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"playhead {command} ended with {ended.returncode}:\n{shown}")


def _lines(shown: str) -> str:
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
