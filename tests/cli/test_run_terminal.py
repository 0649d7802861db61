"""``playhead run`` in a terminal: a person types while the answer streams, stops it, and leaves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest
from chat_answers import calls, delta, refused, said
from children import environment
from cli_runner import Play
from scripted_server import HANG, LONG_S, Answer, Signal, Until, scripted_server

RUN = [sys.executable, "-m", "playhead.cli.main", "run"]
ROWS = 200
"""Of the terminal: enough that nothing ever leaves it at the top."""
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()].?)")


class Screen:
    """A program in a terminal, and what a person sees there."""

    def __init__(self, words: list[str], store: Path, columns: int) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        env = environment(str(store)) | {"TERM": "xterm", "COLUMNS": "", "LINES": ""}
        self.process = subprocess.Popen(
            words,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(follower)
        self._written = b""
        self._screen = pyte.Screen(columns, ROWS)
        self._terminal = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        """What is on the screen now, without the blanks that end lines."""
        return "\n".join(row.rstrip() for row in self._screen.display).rstrip()

    @property
    def written(self) -> str:
        """All that was ever written, without what moves the cursor."""
        return ESCAPES.sub("", self._written.decode("utf-8", "replace"))

    def expect(self, pattern: str) -> None:
        """Wait until what is on the screen matches ``pattern`` somewhere; ``^`` and ``$`` are of lines."""
        deadline = time.monotonic() + LONG_S
        while re.search(pattern, self.text, re.MULTILINE) is None:
            assert self._read(deadline - time.monotonic()), f"no {pattern!r} in\n{self.text}"

    def type(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def hang_up(self) -> None:
        """Close the terminal, as its window is closed."""
        os.close(self._leader)
        self._leader = -1
        self.process.wait(LONG_S)

    def ended(self) -> int:
        """The exit code, once everything it had to show was read."""
        deadline = time.monotonic() + LONG_S
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(LONG_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._leader >= 0:
            os.close(self._leader)

    def _read(self, seconds: float) -> bool:
        """Take in what comes within a time; False when nothing did, or nothing more will."""
        ready, _, _ = select.select([self._leader], [], [], max(seconds, 0))
        try:
            piece = os.read(self._leader, 2**16) if ready else b""
        except OSError:  # the other side is gone
            piece = b""
        self._written += piece
        self._terminal.feed(piece)
        return bool(piece)


@pytest.fixture
def talking(store_file: Path) -> Any:
    """Opens a conversation in a terminal against these answers."""
    screens: list[Screen] = []

    @contextmanager
    def talk(*answers: Answer, words: tuple[str, ...] = (), columns: int = 80) -> Iterator[Screen]:
        with scripted_server(*answers) as server:
            run = [*RUN, "--base-url", server.url, "--model", "m1", "--id", "s1", *words]
            screens.append(Screen(run, store_file, columns))
            screens[-1].expect("session s1")
            yield screens[-1]

    yield talk
    for screen in screens:
        screen.close()


def endings(play: Play) -> list[str]:
    found = play("events", "s1", "--json", "--type", "turn/end").json_lines
    return [event["data"]["reason"]["kind"] for event in found]


def test_a_person_talks_steers_and_leaves(talking: Any, play: Play) -> None:
    go, streams = threading.Event(), threading.Event()
    first = said("I am ", "think", Signal(streams), Until(go), "ing.")
    with talking(first, said("Sooner, ", "then."), said("Done.")) as screen:
        screen.type("Hello\r")
        assert streams.wait(LONG_S)
        screen.expect(
            "^User\n  Hello\n\nAssistant · m1\n  I am think\n\n── turn 1 · m1 · Ctrl-C stops · /help\n>$"
        )
        screen.type("Hurry\r")
        screen.expect("queued for the next step: Hurry$")
        screen.type("/followup And then?\r")
        screen.expect("queued for a turn of its own: And then\\?$")
        screen.expect("^  I am think\n\n── turn 1 · m1 · 2 queued · Ctrl-C stops")
        go.set()
        screen.expect("^  Done.$")
        screen.expect("^── ready · m1 · Ctrl-D leaves")
        screen.type("\x04")
        assert screen.ended() == 0
        screen.expect("recorded as s1; `playhead show s1` shows it")
    said_in_order = ["User\n  Hello", "  I am thinking.", "User · steering\n  Hurry", "  Sooner, then."]
    said_in_order += ["User\n  And then?", "  Done."]
    places = [screen.text.index(f"\n{said}\n") for said in said_in_order]
    assert places == sorted(places)
    assert endings(play) == ["completed", "completed"]


def test_ctrl_c_stops_the_turn_and_keeps_the_queue_and_a_second_one_leaves(talking: Any, play: Play) -> None:
    with talking(Answer(steps=[delta(content="so far"), HANG])) as screen:
        screen.type("Hello\r")
        screen.expect("so far")
        screen.type("/followup later\r")
        screen.expect("queued for a turn of its own: later")
        screen.type("\x03")
        screen.expect("1 message still queued")
        screen.expect("turn cancelled by user")
        screen.expect("ready")
        screen.type("\x03")
        assert screen.ended() == 130
    assert endings(play) == ["aborted"]
    assert "later" in play("inbox", "s1").out.decode()


def test_ctrl_c_drops_a_text_that_is_not_sent_and_leaves_when_there_is_none(talking: Any, play: Play) -> None:
    with talking() as screen:
        screen.type("never mind\x03\x03")
        assert screen.ended() == 130
    assert play("events", "s1", "--json").out == b""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_signals_from_elsewhere_stop_and_leave_too(talking: Any, play: Play, how: signal.Signals) -> None:
    with talking(Answer(steps=[delta(content="so far"), HANG])) as screen:
        screen.type("Hello\r")
        screen.expect("so far")
        screen.process.send_signal(how)
        screen.expect("turn cancelled by")
        if how == signal.SIGINT:
            screen.expect("ready")
            screen.process.send_signal(how)
        assert screen.ended() == 130
    assert endings(play) == ["aborted"]
    assert play("verify", "s1").code == 0


def test_a_terminal_that_is_closed_ends_the_turn_and_keeps_the_queue(talking: Any, play: Play) -> None:
    with talking(Answer(steps=[delta(content="so far"), HANG])) as screen:
        screen.type("Hello\r")
        screen.expect("so far")
        screen.type("/followup later\r")
        screen.expect("queued for a turn of its own: later")
        screen.type("half a te")
        screen.hang_up()
    assert endings(play) == ["aborted"]
    assert "later" in play("inbox", "s1").out.decode()
    assert play("verify", "s1").code == 0


def test_ctrl_z_puts_it_into_the_background_and_back(store_file: Path, play: Play) -> None:
    shell = 'set -m; "$@"; echo "back in the shell"; read answer; fg %1; echo "left with $?"'
    with scripted_server(said("here.")) as server:
        run = [*RUN, "--base-url", server.url, "--model", "m1", "--id", "s1"]
        screen = Screen(["sh", "-c", shell, "sh", *run], store_file, 80)
        try:
            screen.expect("session s1")
            screen.type("Hello\x1a")
            screen.expect("^back in the shell")
            screen.type("\r")
            screen.expect("^> Hello$")
            screen.type("\r")
            screen.expect("^  here.$")
            screen.expect("^── ready")
            screen.type("\x04")
            screen.expect("^left with 0")
        finally:
            screen.close()
    assert endings(play) == ["completed"]


def test_commands_are_answered_and_wrong_ones_are_said(talking: Any) -> None:
    with talking(refused(400, "no such model"), words=("--goal", "rhyme", "--retries", "0")) as screen:
        screen.expect("goal active, round 0 of 256: rhyme")
        screen.expect("model call failed: INVALID_REQUEST \\(HTTP 400\\): no such model")
        screen.expect("turn failed")
        screen.type("/nope\r")
        screen.expect("there is no command /nope")
        screen.type("/wait\r")
        screen.expect("/wait is for scripts")
        screen.type("/help\r")
        screen.expect("/quit +leave")
        screen.type("/goal pause\r")
        screen.expect("goal paused, round 1 of 256: rhyme")
        screen.type("/quit\r")
        assert screen.ended() == 0


def test_the_text_fits_the_terminal(talking: Any) -> None:
    text = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen. "
    listing = calls(("list-files", {"folder": "/", "pattern": "nothing-of-this-name-is-there" * 3}))
    with talking(said(text, text), listing, said("ok"), words=("--tool", "list-files"), columns=44) as screen:
        screen.type("Count\r")
        screen.expect("thirteen fourteen fifteen")
        screen.expect("ready")
        screen.type("List\r")
        screen.expect("ok")
        screen.type("\x04")
        screen.ended()
    lines = re.split(r"[\r\n]+", screen.written)
    assert max(len(line) for line in lines if not line.startswith("playhead: ")) <= 44
    assert "\n  One two three four five six seven eight\n  nine ten" in screen.text
