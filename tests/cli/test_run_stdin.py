"""``playhead run`` whose lines come on stdin while it runs, and what stops it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from chat_answers import calls, delta, said
from children import environment
from cli_runner import Play
from scripted_server import HANG, LONG_S, Answer, Signal, Until, scripted_server

from playhead.eventstore.sql.engine import BUSY_TIMEOUT_MS

COMMAND = [sys.executable, "-m", "playhead.cli.main", "run", "--model", "m1", "--id", "s1"]


@contextmanager
def started(store: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(str(store)),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until_said(process: subprocess.Popen[bytes], *words: bytes) -> None:
    """Read what the process says until each of ``words`` was in it, in whatever order."""
    assert process.stdout is not None
    said = b""
    while not all(word in said for word in words):
        line = process.stdout.readline()
        assert line, f"it ended behind {said.decode()}"
        said += line


def endings(play: Play) -> list[str]:
    found = play("events", "s1", "--json", "--type", "turn/end").json_lines
    return [event["data"]["reason"]["kind"] for event in found]


def test_lines_are_done_as_they_come(store_file: Path, play: Play) -> None:
    go, streams = threading.Event(), threading.Event()
    first = said("think", Signal(streams), Until(go), "ing")
    with (
        scripted_server(first, said("sooner"), said("bye")) as server,
        started(store_file, "--base-url", server.url) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"/followup hello\n")
        process.stdin.flush()
        assert streams.wait(LONG_S)
        process.stdin.write(b"/steer hurry\n/inbox\n")
        process.stdin.flush()
        assert process.stdout is not None
        until_said(process, b"next-step  hurry")
        go.set()
        out, err = process.communicate(b"/wait\nlast", timeout=LONG_S)
        assert process.returncode == 0, err.decode()
        assert [request.json["messages"][-1]["content"] for request in server.requests] == [
            "hello",
            "hurry",
            "last",
        ]
        assert out.decode().endswith("  bye\n")
    assert endings(play) == ["completed", "completed"]


def test_a_round_does_not_end_a_goal_that_was_changed_since(store_file: Path) -> None:
    go, streams = threading.Event(), threading.Event()
    ends = calls(("end-goal", {"outcome": "met"}), before=[delta(content="hm"), Signal(streams), Until(go)])
    with (
        scripted_server(ends, said("Not yet?")) as server,
        started(store_file, "--base-url", server.url, "--tool", "end-goal") as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"/goal rhyme\n")
        process.stdin.flush()
        assert streams.wait(LONG_S)
        process.stdin.write(b"/goal rounds 1\n")
        process.stdin.flush()
        assert process.stdout is not None
        until_said(process, b"round 1 of 1")
        go.set()
        _, err = process.communicate(timeout=LONG_S)
        assert process.returncode == 0, err.decode()
        told = server.requests[-1].json["messages"][-1]["content"]
        assert told == "Error: the goal was changed since this round began"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_script_that_is_stopped_leaves_with_130_and_keeps_the_queue(
    store_file: Path, play: Play, how: signal.Signals
) -> None:
    streams = threading.Event()
    with (
        scripted_server(Answer(steps=[delta(content="so far"), Signal(streams), HANG])) as server,
        started(store_file, "--base-url", server.url) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"/followup hello\n/followup later\n/wait\nnever\n")
        process.stdin.flush()
        until_said(process, b"Assistant", b"later")
        process.send_signal(how)
        _, err = process.communicate(timeout=LONG_S)
        assert (process.returncode, err.decode().splitlines()) == (
            130,
            ["playhead: recorded as s1; `playhead show s1` shows it"],
        )
    assert endings(play) == ["aborted"]
    assert "later" in play("inbox", "s1").out.decode()
    assert play("verify", "s1").code == 0


def test_a_hang_up_that_is_ignored_stays_so(store_file: Path, play: Play) -> None:
    go, streams = threading.Event(), threading.Event()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with (
            scripted_server(said("think", Signal(streams), Until(go), "ing")) as server,
            started(store_file, "--base-url", server.url, "hello") as process,
        ):
            assert streams.wait(LONG_S)
            process.send_signal(signal.SIGHUP)
            go.set()
            assert process.wait(LONG_S) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert endings(play) == ["completed"]


def test_who_presses_on_leaves_a_store_that_hangs(store_file: Path, play: Play) -> None:
    with (
        scripted_server(Answer(steps=[delta(content="so far"), HANG])) as server,
        started(store_file, "--base-url", server.url, "hello") as process,
    ):
        until_said(process, b"Assistant")
        with closing(sqlite3.connect(store_file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            deadline = time.monotonic() + BUSY_TIMEOUT_MS / 2000  # far less than a writer waits for its turn
            while process.poll() is None and time.monotonic() < deadline:
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        assert process.poll() == -signal.SIGINT
        assert process.stderr is not None
        told = "playhead: what came last is being stored; Ctrl-C ends it without that\n"
        assert process.stderr.read().decode() == told
    assert play("verify", "s1").code == 0


def test_a_second_ctrl_c_in_haste_loses_nothing(store_file: Path, play: Play) -> None:
    with (
        scripted_server(Answer(steps=[delta(content="so far"), HANG])) as server,
        started(store_file, "--base-url", server.url, "hello") as process,
    ):
        until_said(process, b"Assistant")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG_S)
        assert b"Traceback" not in err, err.decode()
    assert endings(play) == ["aborted"]


def test_a_line_that_makes_no_sense_ends_the_script_with_its_number(store_file: Path, play: Play) -> None:
    with (
        scripted_server(said("one")) as server,
        started(store_file, "--base-url", server.url, "--script", "-") as process,
    ):
        _, err = process.communicate(b"# first\nhello\n/fly\nnever\n", timeout=LONG_S)
        assert process.returncode == 2
        assert "playhead: stdin:3: there is no command /fly" in err.decode()
    assert endings(play) == ["completed"]


def test_stdin_is_left_alone_beside_a_prompt(store_file: Path) -> None:
    with (
        scripted_server(said("one")) as server,
        started(store_file, "--base-url", server.url, "hello") as process,
    ):
        assert process.wait(LONG_S) == 0
        assert len(server.requests) == 1


def test_a_reader_that_went_away_ends_it_with_141(store_file: Path, play: Play) -> None:
    gone = threading.Event()
    steps = [delta(content="so far "), Until(gone), delta(content="and more"), HANG]
    with (
        scripted_server(Answer(steps=steps)) as server,
        started(store_file, "--base-url", server.url, "--json", "hello") as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        gone.set()
        assert process.stderr is not None
        err = process.stderr.read().decode()
        assert process.wait(LONG_S) == 141
        assert "Traceback" not in err
    assert endings(play) == ["aborted"]
