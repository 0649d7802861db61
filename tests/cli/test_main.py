"""The program as a process: what a shell sees of it."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import example_logs
import pytest
from scripted_server import LONG_S

PROGRAM = [sys.executable, "-m", "playhead.cli.main"]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, Any]:
    """Arguments of ``subprocess`` for a process that knows this test's store only."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {
        "env": kept | {"HOME": str(tmp_path), "PLAYHEAD_STORE": str(tmp_path / "store.sqlite")},
        "text": True,
    }


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A log whose listing is far longer than a pipe holds."""
    file = tmp_path / "long.jsonl"
    head = example_logs.header("long").line()
    lines = (b'{"type":"x/y","seq":%d,"time":1,"data":"%s"}' % (seq, b"x" * 200) for seq in range(5_000))
    file.write_bytes(b"\n".join((head, *lines)) + b"\n")
    return file


def run(shell: dict[str, Any], *words: object) -> subprocess.CompletedProcess[str]:
    program = [*PROGRAM, *map(str, words)]
    return subprocess.run(program, capture_output=True, stdin=subprocess.DEVNULL, **shell)


def test_the_version_is_that_of_the_installed_package(shell: dict[str, Any]) -> None:
    assert run(shell, "--version").stdout == f"playhead {version('playhead')}\n"


def test_help_lists_every_command_of_the_folder(shell: dict[str, Any]) -> None:
    shown = run(shell, "--help").stdout
    for name in ("doctor", "events", "export", "import", "sessions", "store", "verify"):
        assert f" {name} " in shown


@pytest.mark.parametrize("words", [["nonsense"], ["sessions", "--nonsense"], ["events"], ["import"]])
def test_wrong_usage_exits_2_without_a_traceback(shell: dict[str, Any], words: list[str]) -> None:
    ran = run(shell, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Usage:" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_one_where_nothing_comes_and_nothing_is_seen(
    shell: dict[str, Any], closed: str
) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, "sessions"]
    ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, **shell)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ("there is no store" in ran.stderr, "Traceback" in ran.stderr) == ("2>&-" not in closed, False)


def test_a_missing_store_exits_3(shell: dict[str, Any]) -> None:
    ran = run(shell, "sessions")
    assert ran.returncode == 3
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("form", [[], ["--json"], ["--raw"]])
def test_a_reader_that_goes_away_ends_the_output_silently(
    shell: dict[str, Any], long_log: Path, form: list[str]
) -> None:
    program = [*PROGRAM, "events", str(long_log), *form]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **shell) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_reader_that_never_was_ends_even_short_output_silently(shell: dict[str, Any]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ran = subprocess.run([*PROGRAM, "--version"], stdout=write, stderr=subprocess.PIPE, **shell)
    finally:
        os.close(write)
    assert ran.stderr == ""


def test_ctrl_c_ends_an_import_with_130_and_one_line(shell: dict[str, Any], tmp_path: Path) -> None:
    program = [*PROGRAM, "import", "-"]
    fifo = tmp_path / "never-ends"
    os.mkfifo(fifo)
    holder = os.open(fifo, os.O_RDWR)
    try:
        with (
            open(fifo, "rb") as stdin,
            subprocess.Popen(program, stdin=stdin, stderr=subprocess.PIPE, **shell) as process,
        ):
            os.write(holder, example_logs.header("endless").line() + b"\n")
            _wait_until_read(holder)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            told = process.stderr.read()
    finally:
        os.close(holder)
    assert process.returncode == 130
    assert told.startswith("playhead: stopped; ")
    assert told.count("\n") == 1


def _wait_until_read(pipe: int) -> None:
    """Wait until nothing is left in a pipe."""
    deadline = time.monotonic() + LONG_S
    while fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4) != b"\0" * 4:
        assert time.monotonic() < deadline, "nobody read what was written"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("columns", "headings"),
    [
        ("80", ["SESSION", "CREATED", "EVENTS", "TITLE"]),
        (
            "220",
            ["SESSION", "GEN", "FORMAT", "CREATED", "LAST EVENT", "EVENTS", "LINES", "STATE", "CWD", "TITLE"],
        ),
    ],
)
def test_a_terminal_gets_the_headings_it_has_room_for_and_no_color_codes(
    shell: dict[str, Any], long_log: Path, columns: str, headings: list[str]
) -> None:
    assert run(shell, "import", long_log).returncode == 0
    shell["env"]["COLUMNS"] = columns
    master, slave = pty.openpty()
    with open(master, "rb", buffering=0) as terminal:
        ran = subprocess.run([*PROGRAM, "sessions"], stdout=slave, stderr=subprocess.PIPE, **shell)
        os.close(slave)
        assert ran.returncode == 0, ran.stderr
        written = b""
        with suppress(OSError):  # nobody has the other end open any more
            while piece := terminal.read(10_000):
                written += piece
    shown = written.decode()
    assert shown.splitlines()[0].split() == " ".join(headings).split()
    assert "\x1b" not in shown
