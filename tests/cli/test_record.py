"""``playhead record``: a proxy as a process, from its first line to its end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from children import start
from cli_runner import Play
from recordings import KEY, events_of, only, streamed, transcript
from scripted_server import HANG, LONG_S, Answer, Signal, Until, scripted_server

import playhead
from playhead.adapters.providers.dialects import dialect
from playhead.replay.attempt import attempts

OPENAI = dialect("openai-chat")
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "stream": True}


_PATIENT = """
import sys
from playhead.cli import main, record
record._GRACE_S = 600.0
sys.argv = ["playhead", *sys.argv[1:]]
main.main()
"""


@contextmanager
def recording(store: Path, *words: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The command, listening; and its first line. It waits long for what runs when it is told to end."""
    process = start(_PATIENT, "record", *words, store=store)
    try:
        yield process, line(process.stdout)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def line(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode().rstrip("\n")


def ask(url: str, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.post(f"{url}/v1/chat/completions", json=ASKED, headers=headers, timeout=LONG_S, **more)


def end(process: subprocess.Popen[bytes], how: int = signal.SIGINT) -> tuple[int, str]:
    """Ask the command to end; its exit code, and what it said that was not read yet."""
    process.send_signal(how)
    _, said = process.communicate(timeout=LONG_S)
    return process.returncode, said.decode()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_calls_are_passed_told_and_recorded_until_the_end(tmp_path: Path, how: int) -> None:
    store = tmp_path / "new.sqlite"
    with (
        scripted_server(streamed(OPENAI, "Hello there.")) as upstream,
        recording(store, "--upstream", upstream.url, "--session", "s-1") as (process, url),
    ):
        assert ask(url).content == b"".join(events_of(OPENAI, "Hello there."))
        assert line(process.stderr) == "playhead: s-1 turn 1: 200, 6 chunks, stop"
        assert end(process, how) == (0, "")
    with playhead.open_store(str(store)) as held:
        assert transcript(held.session("s-1")) == ["user: Hi.", "model: Hello there."]
    assert KEY.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(("host", "is_said"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_that_other_machines_can_use_it_is_said(tmp_path: Path, host: str, is_said: bool) -> None:
    words = ("--upstream", "http://127.0.0.1:9", "--listen", f"{host}:0")
    with recording(tmp_path / "s.sqlite", *words) as (process, _):
        code, said = end(process)
    assert (code, "other machines can reach http://0.0.0.0:" in said) == (0, is_said)


def test_the_first_line_can_be_json(tmp_path: Path) -> None:
    with recording(tmp_path / "s.sqlite", "--upstream", "http://127.0.0.1:9/v1", "--json") as (
        process,
        first,
    ):
        told = json.loads(first)
        assert (told["upstream"], told["session"]) == ("http://127.0.0.1:9/v1", None)
        assert told["url"].startswith("http://127.0.0.1:")
        assert end(process)[0] == 0


def test_a_call_that_runs_at_the_end_is_waited_for(tmp_path: Path) -> None:
    gate, reached = threading.Event(), threading.Event()

    def script(_: Any) -> Answer:
        return Answer(steps=[Signal(reached), Until(gate), *events_of(OPENAI, "late")])

    got: list[bytes] = []
    store = tmp_path / "s.sqlite"
    with (
        scripted_server(script=script) as upstream,
        recording(store, "--upstream", upstream.url) as (process, url),
    ):
        asking = threading.Thread(target=lambda: got.append(ask(url).content))
        asking.start()
        assert reached.wait(LONG_S)
        process.send_signal(signal.SIGINT)
        assert "waiting" in line(process.stderr)
        gate.set()
        asking.join(LONG_S)
        process.communicate(timeout=LONG_S)
        assert process.returncode == 0
    assert got == [b"".join(events_of(OPENAI, "late"))]
    with playhead.open_store(str(store)) as held:
        assert transcript(only(held))[-1] == "model: late"


def test_a_second_ctrl_c_breaks_off_what_runs_and_records_that(tmp_path: Path) -> None:
    reached = threading.Event()
    store = tmp_path / "s.sqlite"
    hanging = Answer(steps=[*events_of(OPENAI, "one two")[:2], Signal(reached), HANG])
    with (
        scripted_server(hanging) as upstream,
        recording(store, "--upstream", upstream.url, "--no-wire") as (process, url),
        httpx.stream("POST", f"{url}/v1/chat/completions", json=ASKED, timeout=LONG_S) as got,
    ):
        pieces = got.iter_raw()
        next(pieces)
        assert reached.wait(LONG_S)
        process.send_signal(signal.SIGINT)
        assert "waiting" in line(process.stderr)
        assert end(process)[0] == 0
    with playhead.open_store(str(store)) as held:
        (call,) = attempts(only(held))
        assert call.outcome in ("cancelled", "unanswered")
        assert not list(only(held).exchanges())


def test_a_port_that_is_taken_is_exit_code_3(play: Play) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = play("record", "--upstream", "http://127.0.0.1:9", "--listen", port)
    assert (ran.code, ran.out) == (3, b"")
    assert str(port) in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say where calls go"),
        (["--upstream", "api.openai.com"], "http://"),
        (["--upstream", "ftp://x"], "http://"),
        (["--upstream", "http://"], "http://"),
        (["--upstream", f"https://me:{KEY}@host/v1"], "no user and no password"),
        (["--upstream", f"https://host/v1?key={KEY}"], "ends with its path"),
        (["--upstream", "http://host:99999/v1"], "ports are 1 to 65535"),
        (["--upstream", "http://x", "--listen", "everywhere"], "HOST:PORT"),
        (["--upstream", "http://x", "--listen", "127.0.0.1:70000"], "HOST:PORT"),
        (["--upstream", "http://x", "--dialect", "esperanto"], "openai-chat"),
        (["--upstream", "http://x", "--session", ""], "needs an id"),
    ],
)
def test_wrong_usage_is_said_and_makes_no_store(
    play: Play, store_file: Path, words: list[str], says: str
) -> None:
    ran = play("record", *words)
    assert (ran.code, ran.out) == (2, b"")
    assert says in ran.err
    assert KEY not in ran.err
    assert not store_file.exists()
