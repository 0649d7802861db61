"""``playhead serve``: what it prints, how it ends, and what it says when it cannot serve."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import children
import httpx
import pytest
from cli_runner import Play
from patience import patiently
from scripted_server import LONG_S

from playhead.cli.speed import speed_of
from playhead.eventstore.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PANCAKES = ROOT / "examples" / "sessions" / "native-pancakes.jsonl"
CALLS = 4
STATUSES = [0, 200, 200, 0]
"""What they get: the connection of the first broke, the last was never answered."""


class Serving:
    """The command, running: it has said where it is."""

    def __init__(self, *words: object) -> None:
        self.process = children.start_playhead("serve", *words, store="none.sqlite")
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().decode().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, url: str = "", times: int = 1, silence_s: float = LONG_S) -> list[int]:
        """The statuses that so many calls get; 0 for a connection that broke, or an answer that never came."""
        found = []
        for _ in range(times):
            try:
                body = {"messages": [{"role": "user", "content": "Hi"}]}
                answer = httpx.post((url or self.first) + "/chat/completions", json=body, timeout=silence_s)
                found.append(answer.status_code)
            except httpx.HTTPError:
                found.append(0)
        return found

    def end(self, how: int | None = signal.SIGINT) -> children.Ended:
        """How it ends once it gets a signal, or by itself."""
        if how is not None:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=LONG_S)
        assert b"Traceback" not in err, err
        return children.Ended(self.process.returncode, out, err.decode())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_did_what_it_should(how: int) -> None:
    with Serving("--replay", PANCAKES) as serving:
        assert serving.first.startswith("http://127.0.0.1:")
        assert serving.ask(times=2)[1] == 200
        ended = serving.end(how)
        assert (ended.code, ended.out) == (0, b"")
        assert "native-pancakes: 4 calls" in ended.err
        assert "not all served: native-pancakes: 4 calls, 2 of them were asked for" in ended.err


@pytest.mark.parametrize(("host", "is_said"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_that_other_machines_can_read_it_is_said(host: str, is_said: bool) -> None:
    with Serving("--replay", PANCAKES, "--host", host) as serving:
        assert ("other machines can reach http://0.0.0.0:" in serving.end().err) == is_said


def test_misses_are_listed_at_the_end_and_make_the_exit_code_1() -> None:
    with Serving("--replay", PANCAKES, "--match", "strict") as serving:
        assert serving.ask() == [422]
        ended = serving.end()
        assert ended.code == 1
        assert "missed: /chat/completions: call 1 of session 'native-pancakes'" in ended.err
        assert "messages[" in ended.err


def test_once_ends_by_itself_when_every_call_was_answered() -> None:
    def check(silence_s: float) -> None:
        with Serving("--replay", PANCAKES, "--once") as serving:
            assert serving.ask(times=CALLS, silence_s=silence_s) == STATUSES
            ended = serving.end(None)
        assert ended.code == 0
        assert "serving until every call was answered, or Ctrl-C" in ended.err
        assert "4 calls served" in ended.err

    patiently(check)


def test_json_is_one_line_at_the_start_and_one_at_the_end() -> None:
    def check(silence_s: float) -> None:
        with Serving("--replay", PANCAKES, "--json") as serving:
            start = json.loads(serving.first)
            assert start["sessions"] == [{"session": "native-pancakes", "calls": CALLS}]
            assert serving.ask(start["url"], CALLS + 1, silence_s) == [*STATUSES, 422]
            ended = serving.end()
        end = json.loads(ended.out)
        assert (end["served"], end["unserved"], ended.code) == (CALLS, [], 1)
        assert end["misses"][0]["path"] == "/chat/completions"

    patiently(check)


def test_a_silent_call_does_not_hold_the_end_up(tmp_path: Path) -> None:
    override = tmp_path / "override.json"
    override.write_text('[{"kind": "hang", "readyFile": "ready"}]')
    with Serving("--replay", PANCAKES, "--override", override) as serving:
        asked = {"json": {"stream": True}, "timeout": LONG_S}
        with httpx.stream("POST", f"{serving.first}/chat/completions", **asked) as answer:
            assert b"partial" in next(answer.iter_bytes())
            children.wait_for((tmp_path / "ready").exists, serving.process)
            ended = serving.end()
        assert ended.code == 0


def test_a_taken_port_is_said_in_one_line(play: Play) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = play("serve", "--replay", PANCAKES, "--port", port)
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err.startswith(f"playhead: cannot listen on 127.0.0.1:{port}: Address already in use; choose ")


@pytest.mark.parametrize(
    "words", [["serve", "--replay", PANCAKES], ["record", "--upstream", "http://localhost"]]
)
def test_without_the_extra_the_command_says_what_to_install(
    play: Play, monkeypatch: pytest.MonkeyPatch, words: list[object]
) -> None:
    for library in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, library, None)
    ran = play(*words)
    assert (ran.code, ran.out) == (3, b"")
    assert ran.err == "playhead: starlette and uvicorn are not installed; pip install 'playhead[web]'\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "say what to serve"),
        (["--replay", "./none.jsonl"], 3, "./none.jsonl: no such file; and there is no store at"),
        (["--replay", PANCAKES, "--replay", PANCAKES], 2, "named twice"),
        (["--replay", PANCAKES, "--host", ""], 2, "--host takes an address"),
        (["--replay", PANCAKES, "--replay", PANCAKES, "--generation", 1], 2, "one session"),
        (["--replay", PANCAKES, "--speed", "fast"], 2, "--speed fast"),
        (["--replay", PANCAKES, "--override", "none.json"], 3, "none.json: No such file"),
        (["--replay", PANCAKES, "--port", 70000], 2, ""),
        (["--replay", PANCAKES, "--match", "loose"], 2, ""),
        (["--replay", "some-id"], 3, "store"),
    ],
)
def test_what_cannot_be_served_is_said(play: Play, words: list[Any], code: int, says: str) -> None:
    ran = play("serve", *words)
    assert (ran.code, ran.out) == (code, b"")
    assert says in ran.err


def test_a_wrong_override_is_said_with_its_place(play: Play, tmp_path: Path) -> None:
    override = tmp_path / "override.json"
    override.write_text('{"patches": [{"at": 9, "entry": {"kind": "hang"}}]}')
    ran = play("serve", "--replay", PANCAKES, "--override", override)
    assert ran.code == 2
    assert "patches[0].at: 9 is beyond the script, which has 4 calls" in ran.err


def test_a_session_without_a_call_is_said(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "empty.jsonl"
    log.write_bytes(children.header_line("quiet"))
    ran = play("serve", "--replay", log)
    assert ran.code == 2
    assert "quiet has no model call" in ran.err


@pytest.mark.parametrize(
    ("word", "factor"), [("1x", 1), ("0.5", 0.5), (".5x", 0.5), ("4", 4), ("max", float("inf"))]
)
def test_a_speed_is_a_factor(word: str, factor: float) -> None:
    assert speed_of(word) == factor


@pytest.mark.parametrize("word", ["", "x", "0", "-1", "1y", "inf", "٣", "9" * 400])
def test_what_is_no_speed_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        speed_of(word)


def test_a_reader_who_goes_away_ends_nothing() -> None:
    with Serving("--replay", PANCAKES) as serving:
        assert serving.process.stderr is not None
        serving.process.stderr.close()
        assert serving.ask(times=2)[1] == 200
        serving.process.send_signal(signal.SIGINT)
        assert serving.process.wait(timeout=LONG_S) in (0, 141)
        assert isinstance(serving.process, subprocess.Popen)
