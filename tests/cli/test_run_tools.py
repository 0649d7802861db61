"""The tools of ``playhead run``: bounded, told apart by name, and stopped with the turn."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play
from patience import patiently
from scripted_server import LONG_S

from playhead.cli.run_tools import ENTRIES, NAMES, OUTPUT_BYTES, tools
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import Cancelled, CancelToken
from playhead.eventstore.errors import UsageError
from playhead.live.tool_box import ToolOutcome


def called(name: str, *, hidden: tuple[str, ...] = (), **arguments: Any) -> ToolOutcome:
    box = tools([name], hidden)
    return asyncio.run(box.call(name, json.dumps(arguments), "c", CancelToken()))


def given(name: str, **arguments: Any) -> str:
    outcome = called(name, **arguments)
    assert not outcome.is_error, outcome
    return text_of(outcome)


def text_of(outcome: ToolOutcome) -> str:
    (block,) = outcome.content
    assert isinstance(block, TextBlock)
    return block.text


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_only_named_tools_are_there_in_the_order_in_which_they_were_named() -> None:
    assert [tool.name for tool in tools([]).tools] == []
    assert [tool.name for tool in tools(["shell", "read-file", "shell"]).tools] == ["shell", "read-file"]
    with pytest.raises(UsageError, match="no tool is named 'rm'; there are read-file, write-file"):
        tools(["rm"])


def test_the_help_names_every_tool(play: Play) -> None:
    shown = " ".join(re.findall(r"[\w,-]+", play("run", "--help").out.decode()))
    assert f"{', '.join(NAMES[:-1])} or {NAMES[-1]}" in shown


def test_the_model_is_told_what_each_tool_takes_but_not_of_the_token() -> None:
    for tool in tools(NAMES).tools:
        assert tool.description
        assert "token" not in tool.parameters["properties"]
    assert [name for name in NAMES if tools(NAMES).is_exclusive(name)] == ["write-file", "shell"]


def test_a_file_is_read_from_a_line_on_and_what_is_left_is_said() -> None:
    Path("a").write_text("one\ntwo\r\nthree", encoding="utf-8")
    assert given("read-file", path="a") == "one\ntwo\r\nthree"
    assert given("read-file", path="a", first_line=2, lines=1) == "two\r\n\n[it goes on at line 3]"
    assert given("read-file", path="a", first_line=9) == ""
    Path("long").write_text("x" * 1000 + "\n" + "y" * OUTPUT_BYTES + "\n")
    assert given("read-file", path="long").endswith("x\n\n[it goes on at line 2]")
    assert "line 2 alone has more than" in text_of(called("read-file", path="long", first_line=2))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"path": "nope"}, "No such file"),
        ({"path": "."}, "Is a directory"),
        ({"path": "binary"}, "can't decode"),
        ({"path": "binary", "first_line": 0}, "numbers from 1 on"),
        ({}, "path"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_the_model_reads(arguments: dict[str, Any], told: str) -> None:
    Path("binary").write_bytes(b"\xff\xfe")
    outcome = called("read-file", **arguments)
    assert outcome.is_error
    assert told in text_of(outcome)


def test_what_has_no_end_or_never_begins_is_no_file_to_read_or_write() -> None:
    os.mkfifo("pipe")
    for path in ("/dev/zero", "/dev/null", "pipe"):
        assert "is no regular file" in text_of(called("read-file", path=path))
        assert "is no regular file" in text_of(called("write-file", path=path, text="x"))


def test_a_line_of_any_length_is_passed_over_without_being_held() -> None:
    with Path("sparse").open("wb") as file:
        file.truncate(100 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\nend")
    tracemalloc.start()
    assert "line 1 alone has more than" in text_of(called("read-file", path="sparse"))
    assert given("read-file", path="sparse", first_line=2) == "end"
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10 << 20


@pytest.mark.parametrize(("name", "look"), [("read-file", "_part"), ("list-files", "_listing")])
def test_a_turn_that_is_stopped_does_not_wait_for_what_is_looked_up(
    name: str, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, go = threading.Event(), threading.Event()

    def hang(*_: object) -> str:
        looks.set()
        go.wait(LONG_S)
        return "nobody waits for this"

    async def stopped() -> None:
        token = CancelToken()
        given = {"path": "a"} if name == "read-file" else {}
        calling = asyncio.ensure_future(tools([name]).call(name, json.dumps(given), "c", token))
        assert await asyncio.to_thread(looks.wait, LONG_S)
        token.cancel({"kind": "user"})
        with pytest.raises(Cancelled, match="cancelled: user"):
            await asyncio.wait_for(calling, LONG_S)

    monkeypatch.setattr(f"playhead.cli.run_tools.{look}", hang)
    try:
        asyncio.run(stopped())
    finally:
        go.set()


def test_a_file_is_written_with_its_folders_and_replaced_whole() -> None:
    assert given("write-file", path="x/y/z", text="ü\n") == "x/y/z has 3 bytes now"
    assert given("write-file", path="x/y/z", text="") == "x/y/z has 0 bytes now"
    assert Path("x/y/z").read_bytes() == b""


def test_a_listing_is_sorted_marks_folders_and_is_bounded() -> None:
    Path("b").mkdir()
    Path("b/c.py").touch()
    Path("a").touch()
    assert given("list-files") == "a\nb/"
    assert given("list-files", pattern="**/*.py") == "b/c.py"
    assert given("list-files", folder="b", pattern="*.txt") == "[nothing]"
    assert "nope is no folder" in text_of(called("list-files", folder="nope"))
    for number in range(ENTRIES + 1):
        Path(f"b/{number}").touch()
    assert given("list-files", folder="b").endswith(f"[there are more than {ENTRIES}]")


def test_a_command_gives_what_it_wrote_to_both_streams_and_how_it_ended() -> None:
    assert given("shell", command="echo out; echo err >&2") == "out\nerr\n"
    assert given("shell", command="echo no; exit 3") == "no\n\n[exit code 3]"
    assert given("shell", command="cat") == ""


def test_the_output_of_a_command_is_cut_in_the_middle() -> None:
    text = given("shell", command="printf start; head -c 300000 /dev/zero | tr '\\0' x; printf end")
    left_out = 300_000 + len("startend") - OUTPUT_BYTES
    assert text.startswith("startxx")
    assert text.endswith("xxend")
    assert f"\n[{left_out} bytes left out]\n" in text


def test_a_command_does_not_see_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    monkeypatch.setenv("OTHER", "seen")
    command = 'echo "[$SOME_KEY][$OTHER]"'
    assert text_of(called("shell", hidden=("SOME_KEY",), command=command)) == "[][seen]\n"


def test_a_command_that_takes_too_long_is_ended_with_what_it_began() -> None:
    def check(timeout_s: float) -> None:
        text = given("shell", command="echo begun; sleep 60 & echo $!; sleep 60", timeout_s=timeout_s)
        begun, pid, *_, said = text.splitlines()
        assert (begun, said) == ("begun", f"[ended after {timeout_s:g} s]")
        assert is_gone(int(pid))

    patiently(check)


def test_a_command_is_not_waited_for_by_what_it_left_running() -> None:
    text = given("shell", command="sleep 60 & echo $!")
    assert is_gone(int(text))


def test_a_command_is_stopped_with_the_turn() -> None:
    async def stopped() -> ToolOutcome:
        token = CancelToken()
        calling = asyncio.ensure_future(
            tools(["shell"]).call("shell", json.dumps({"command": "echo $$ > pid; sleep 60"}), "c", token)
        )
        while not (Path("pid").exists() and Path("pid").read_text().strip()):
            await asyncio.sleep(0.01)
        token.cancel({"kind": "user"})
        with pytest.raises(Exception, match="cancelled: user"):
            await asyncio.wait_for(calling, 20)
        return ToolOutcome(())

    asyncio.run(stopped())
    assert is_gone(int(Path("pid").read_text()))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or does so soon."""
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with suppress(FileNotFoundError, ProcessLookupError):  # no /proc here, or it has just gone
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        time.sleep(0.01)
    return False
