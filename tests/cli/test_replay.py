"""``playhead replay``: the text, the chunks and the lines of a session, paced or not, and how it ends."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play
from log_script import PLACE, LogScript
from reference import shared_path
from scripted_server import LONG_S
from twins import Log, Twins, read_log, twins

from playhead.cli.replay import As
from playhead.cli.replay_forms import FORMS
from playhead.cli.replay_items import TYPES
from playhead.cli.replay_text import ReplayText
from playhead.projections.folding import Foldable
from playhead.projections.repaired import Repaired
from playhead.replay.attempt import attempts
from playhead.replay.moments import moments
from playhead.replay.part import part

PROGRAM = [sys.executable, "-m", "playhead.cli.main", "replay"]
FAILURE = {"message": "slow down", "code": "RATE_LIMIT", "status": 429}
LAYOUTS = [
    "plain-v0",
    "packed-v0",
    "packed-v1",
    "compressed-v2",
    "compressed-v3",
    "compressed-v4",
    "database-15",
]


def told(out: bytes) -> str:
    """The text below its two lines of title, with the times taken out."""
    body = out.decode().split("\n", 2)[2]
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", body)


def test_every_form_that_may_be_named_is_played() -> None:
    assert set(FORMS) == set(As)


# Text


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_plays_the_same_text(full: Play, name: str) -> None:
    ran = full("replay", name)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0] == name
    assert (
        told(ran.out)
        == """
── Turn 1 · TIME

User
  What is in this folder?

Assistant · example-1
  ▸ bash  {"command": "ls"}
  ◂ bash  40 ms
    list.md
    plan.md

  Two files: a plan 📝 and a list.
"""
    )


def test_failures_retries_and_cancels_are_said_where_they_happened(play: Play, log: LogScript) -> None:
    log.start()
    log.say("Go on.")
    log.chunk(type="block-start", index=0, blockType="reasoning")
    log.chunk(type="reasoning-delta", index=0, text="Let me\nsee")
    log.chunk(type="text-delta", index=1, text="Half an ans")
    log.finish(kind="error", failure=FAILURE)
    retry = {**PLACE, "retryId": "r", "retry": 1, "maxRetries": 5, "delayMs": 1500.4, "failure": FAILURE}
    log.add("llm/retry", retry)
    log.add("llm/retry-started", {**PLACE, "retryId": "r", "retry": 1})
    log.open()
    log.text("Again")
    log.end(kind="aborted", reason={"kind": "user"})
    log.start(2)
    log.finish(2, kind="error", failure=FAILURE)
    log.end(2, kind="error", error=FAILURE)
    ran = play("replay", log.write())
    assert ran.code == 0
    assert (
        told(ran.out)
        == """
── Turn 1 · TIME

User
  Go on.

Assistant · model unknown
  │ Let me
  │ see

  Half an ans
  model call failed: RATE_LIMIT (HTTP 429): slow down; the 21 characters above are no answer
  retry 1 of 5 after 1.5 s

  Again
  cancelled here; nothing of it was kept
  turn cancelled by user

── Turn 2 · TIME

  model call failed: RATE_LIMIT (HTTP 429): slow down
  turn failed
"""
    )


def test_what_happens_while_an_answer_streams_stands_in_the_middle_of_it(play: Play, log: LogScript) -> None:
    log.start()
    log.open()
    log.text("before ")
    log.add("command/run", {"name": "goal", "args": "x"})
    log.text("behind")
    log.finish()
    assert "  before\n\n  /goal x\n\n  behind\n" in told(play("replay", log.write()).out)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("07-half-a-surrogate-pair", ["  ok 😀 done\n", "cut here \\ud83d\n"]),
        (
            "12-error-in-mid-stream",
            ["  Half an ans\n  model call failed: OVERLOADED: busy; the 11 characters"],
        ),
        (
            "13-interleaved-tool-calls",
            ['▸ read  {"path":"a.txt"}\n', '▸ read  {"path":"b.txt"}\n', "turn cancelled"],
        ),
        (
            "16-crash-with-parallel-calls",
            ["two is done\n", "no result\n", "never started\n", "the turn has no end"],
        ),
        ("10-the-clock-goes-back", ["  first\n", "  ABC\n", "  second\n"]),
        ("20-two-compactions-two-views", ["compaction: for the model", "compaction failed"]),
    ],
)
def test_reported_cases_are_played_as_they_happened(play: Play, case: str, words: list[str]) -> None:
    ran = play("replay", shared_path(f"cases/{case}/log.jsonl"))
    assert (ran.code, ran.err) == (0, "")
    text = ran.out.decode()
    at = [text.index(word) for word in words]
    assert at == sorted(at)


def played(session: Foldable) -> str:
    """The text of a session."""
    written: list[str] = []
    text = ReplayText(session.header, written.append)
    for moment in moments(part(session), lambda event: event.type in TYPES):
        text.show(moment)
    text.end()
    return "".join(written)


@pytest.mark.heavy
@pytest.mark.parametrize("pair", twins())
def test_a_log_and_its_migrated_form_play_the_same_text(pair: Twins) -> None:
    # A repair explains to the model in its own words what became of a call.
    explained = re.compile("(?<=TOOL_OUTCOME_UNKNOWN\n).*")
    older, newer = (explained.sub("", played(log)) for log in (Repaired(pair.source), pair.migrated))
    assert older == newer


def test_nothing_of_a_log_controls_the_terminal(play: Play, log: LogScript) -> None:
    log.start()
    log.say("\x1b[2J\u202eprompt")
    log.open()
    log.text("\x1b")
    log.text("]0;title\x07")
    log.chunk(type="tool-call-delta", index=1, id="c", name="\x1b[1mls", argumentsDelta='{"\x9b": "\u2028"}')
    log.finish(kind="error", failure={"message": "\x1b[31m", "code": "\x08"})
    log.add("x/\x1b[1m", {})
    out = play("replay", log.write()).out.decode()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", out)
    assert "\\x1b]0;title\\x07" in out


def test_a_long_result_is_cut_unless_all_is_asked_for(play: Play, log: LogScript) -> None:
    log.start()
    log.chunk(type="tool-call-delta", index=0, id="c", name="ls", argumentsDelta="{}")
    log.finish(kind="tool-calls")
    log.add("tool/call", {**PLACE, "callId": "c", "name": "ls", "arguments": "{}"})
    content = [
        {
            "type": "tool-result",
            "toolCallId": "c",
            "content": [{"type": "text", "text": "\n".join("abcdefg")}],
        }
    ]
    message = {"id": "r", "role": "user", "content": content, "source": {"kind": "tool", "callId": "c"}}
    log.add("tool/result", {**PLACE, "message": message}, surfaceOp="append")
    assert "    e\n    … 2 more lines, 13 characters in all\n" in told(play("replay", log.write()).out)
    assert "    e\n    f\n    g\n" in told(play("replay", log.path, "--full").out)


def test_an_answer_without_a_stream_is_shown_all_the_same(play: Play, log: LogScript) -> None:
    log.start()
    source = {"kind": "model", "provider": "p", "model": "m"}
    content = [
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "Yes."},
        {"type": "tool-call", "id": "c", "name": "ls", "arguments": "{}"},
    ]
    message = {"id": "a", "role": "assistant", "content": content, "source": source}
    log.add("assistant/message", {**PLACE, "message": message}, surfaceOp="append")
    assert "Assistant · m\n  │ Hm.\n\n  Yes.\n\n  ▸ ls  {}\n" in told(play("replay", log.write()).out)


# Chunks


@pytest.mark.parametrize("name", LAYOUTS)
def test_chunks_are_those_of_every_call_between_its_beginning_and_its_end(
    full: Play, home: Path, name: str
) -> None:
    ran = full("replay", name, "--as", "chunks")
    assert ran.code == 0
    assert ran.out == full("replay", name, "--json").out
    found = ran.json_lines
    events = "".join(f"{item['call']}{item['event'][0]}" for item in found)
    assert re.fullmatch(r"(\d+)b(\1c)+\1e(\d+)b(\3c)+\3e", events)
    calls = [item for item in found if item["event"] == "end"]
    assert [(call["turn"], call["step"], call["attempt"]) for call in calls] == [(1, 1, 1), (1, 2, 1)]
    assert [(call["outcome"], call["finish"]) for call in calls] == [
        ("finished", "tool-calls"),
        ("finished", "stop"),
    ]
    assert [call["chunks"] for call in calls] == [6, 13]
    files = [path for path in home.rglob("session*") if path.is_file() and name in str(path)]
    for file in files:
        expected = [
            {"timeMs": piece.time_ms, "chunk": piece.chunk.to_json()}
            for attempt in attempts(read_log(file))
            for piece in attempt.chunks()
        ]
        assert [
            {key: item[key] for key in ("timeMs", "chunk")} for item in found if "chunk" in item
        ] == expected


def test_the_end_of_a_call_says_how_and_that_it_was_made_again(play: Play, log: LogScript) -> None:
    log.start()
    log.open()
    log.text("\ud83d")
    log.finish(kind="error", failure=FAILURE)
    log.add("llm/retry", {**PLACE, "retryId": "r", "retry": 1, "delayMs": 5, "failure": FAILURE})
    found = play("replay", log.write(), "--as", "chunks").json_lines
    assert [item["event"] for item in found] == ["begin", "chunk", "chunk", "chunk", "end"]
    assert found[2]["chunk"]["text"] == "\ud83d"
    end = found[-1]
    assert (end["outcome"], end["ending"], end["finish"]) == ("failed", "error", "error")
    assert end["failure"] == {"code": "RATE_LIMIT", "message": "slow down", "status": 429}
    assert end["retry"] == {"id": "r", "number": 1, "seq": 5, "delayMs": 5.0}
    assert "messageSeq" not in end


# Lines


@pytest.mark.parametrize("name", LAYOUTS)
def test_lines_are_the_decoded_file_byte_for_byte(full: Play, name: str) -> None:
    lines = full("replay", name, "--as", "lines")
    assert lines.code == 0
    assert lines.out == full("export", name, "--decoded").out


def test_lines_of_a_part_are_the_header_and_every_line_with_an_event_of_it(
    play: Play, log: LogScript
) -> None:
    for turn in (1, 2, 3):
        log.start(turn)
        log.end(turn)
    log.write()
    alone = play("replay", log.path, "--as", "lines", "--turn", 2).out.splitlines()
    assert alone == [log.lines[0], *log.lines[5:9]]
    later = play("replay", log.path, "--as", "lines", "--from-turn", 2, "--at", 9).out.splitlines()
    assert later == [log.lines[0], *log.lines[5:11]]


# Parts


def test_a_turn_alone_and_all_from_a_turn_on(play: Play, log: LogScript) -> None:
    for turn in (1, 2, 3):
        log.start(turn)
        log.open(turn)
        log.text(f"answer {turn}", turn)
        log.finish(turn)
        log.end(turn)
    log.write()

    def answers(*words: object) -> list[str]:
        return re.findall(r"answer \d", play("replay", log.path, *words).out.decode())

    assert answers("--turn", 2) == ["answer 2"]
    assert answers("--turn", "2-9") == answers("--turn", "2-") == ["answer 2", "answer 3"]
    assert answers("--turn", "-2") == ["answer 1", "answer 2"]
    assert answers("--from-turn", 2) == ["answer 2", "answer 3"]
    assert answers("--from-turn", 2, "--at", 12) == ["answer 2"]
    assert answers() == ["answer 1", "answer 2", "answer 3"]
    cut = play("replay", log.path, "--at", 3, "--json").json_lines
    assert cut[-1]["outcome"] == "open"
    shown = told(play("replay", log.path, "--at", 3).out)
    assert shown.endswith(
        "  answer 1\n  stopped here, as was asked for, in the middle of the model's answer\n"
    )
    assert told(play("replay", log.path, "--at", 4).out).endswith("  answer 1\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--turn", 7], "no turn 7: its only turn is 1"),
        (["--turn", "7-9"], "no turn from 7 to 9: its only turn is 1"),
        (["--turn", "7-"], "no turn 7: its only turn is 1"),
        (["--turn", "two"], "--turn two: give a number, or a range such as 2-5, 4- or -3"),
        (["--from-turn", 7], "no turn 7: its only turn is 1"),
        (["--turn", 1, "--from-turn", 1], "choose one"),
        (["--at", 99], "--at 99: the session has 33 seqs"),
        (["--speed", "0"], "--speed 0: give a factor"),
        (["--speed", "fast"], "--speed fast: give a factor"),
        (["--speed", "-1"], "--speed -1: give a factor"),
        (["--idle", "soon"], "--idle soon: give seconds"),
        (["--as", "lines", "--json"], "leave out --as lines"),
        (["--as", "sse", "--json"], "leave out --as sse"),
        (["--as", "chunks", "--dialect", "openai-chat"], "--dialect goes with --as sse"),
        (["--as", "sse", "--dialect", "klingon"], "no dialect is named 'klingon'; there are openai-chat, "),
        (["--as", "lines", "--full"], "--full goes with --as text"),
        (["--as", "lines", "--ignorable", "x/y"], "they are not interpreted"),
        (["--paused"], "--paused needs a terminal"),
    ],
)
def test_wrong_usage_is_told(full: Play, words: list[object], told: str) -> None:
    ran = full("replay", "plain-v0", *words)
    assert (ran.code, ran.out) == (2, b"")
    assert told in ran.err


# Trouble


def test_damage_is_said_first_and_where_it_is_and_the_exit_code_is_1(full: Play) -> None:
    ran = full("replay", "torn-v0")
    assert ran.code == 1
    assert ran.err.startswith("playhead: torn-v0: damaged: torn tail")
    assert "damaged here: torn tail" in ran.out.decode()
    assert "Two files" in ran.out.decode()
    first = full("replay", "torn-v0", "--json").json_lines[0]
    assert (first["event"], first["damaged"][0]["kind"]) == ("damaged", "torn-tail")


@pytest.mark.parametrize("form", ["text", "chunks", "sse", "lines"])
def test_strict_plays_nothing_of_a_damaged_log(full: Play, form: str) -> None:
    ran = full("replay", "torn-v0", "--as", form, "--strict")
    assert (ran.code, ran.out) == (1, b"")


def test_what_nobody_knows_is_said_unless_it_changes_nothing(play: Play, log: LogScript) -> None:
    log.start()
    log.add("x/new", {})
    log.add("x/new", {})
    log.add("x/harmless", {}, ignorable=True)
    log.write()
    ran = play("replay", log.path)
    assert ran.code == 1
    assert ran.err == "playhead: told: interpretation incomplete: unknown event type x/new, first at seq 2\n"
    assert ran.out.decode().count("not understood: event of unknown type x/new") == 2
    assert play("replay", log.path, "--ignorable", "x/new").code == 0
    assert play("replay", log.path, "--as", "lines").code == 0
    strict = play("replay", log.path, "--strict")
    assert (strict.code, strict.out) == (1, b"")


# As a process


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, Any]:
    """Arguments of ``subprocess`` for a process that knows nothing of this machine's store."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {"env": kept | {"HOME": str(tmp_path), "COLUMNS": "60", "TERM": "xterm"}}


@pytest.fixture
def slow(log: LogScript) -> Path:
    """A log whose answer comes in 500 pieces, one a second."""
    log.start()
    log.say("Slowly.")
    log.open()
    for second in range(1, 500):
        log.text(f"word{second} ", time=1030 + 1000 * second)
    log.finish()
    return log.write()


@pytest.mark.heavy
@pytest.mark.parametrize("form", ["text", "chunks", "sse", "lines"])
def test_a_reader_that_goes_away_ends_a_replay_silently(shell: dict[str, Any], slow: Path, form: str) -> None:
    program = [*PROGRAM, str(slow), "--as", form, "--speed", "20x"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **shell) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.heavy
def test_what_goes_into_a_file_waits_for_nothing(shell: dict[str, Any], slow: Path, tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        ran = subprocess.run([*PROGRAM, str(slow)], stdout=out, timeout=60, **shell)
    assert ran.returncode == 0
    assert "word499" in (tmp_path / "out").read_text()


@pytest.mark.heavy
def test_ctrl_c_in_the_middle_of_a_paced_replay_ends_with_130(shell: dict[str, Any], slow: Path) -> None:
    program = [*PROGRAM, str(slow), "--speed", "1"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **shell) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = b""
        while b"word1" not in seen:
            piece = os.read(process.stdout.fileno(), 1000)
            assert piece, seen
            seen += piece
        process.send_signal(signal.SIGINT)
        seen += process.stdout.read()
        assert process.stderr.read() == b"playhead: stopped\n"
    assert process.returncode == 130
    assert re.search(rb"word\d+\n$", seen)
    assert b"word499" not in seen


class Terminal:
    """A person at a terminal in which a replay runs."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self._master, self._slave = pty.openpty()
        self.seen = ""
        self.before = self.mode
        self.process = subprocess.Popen(
            words,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            preexec_fn=_take_terminal,
            env=env,
        )

    def until(self, words: str) -> str:
        """What is shown until ``words`` are."""
        deadline = time.monotonic() + LONG_S
        while words not in self.seen:
            assert time.monotonic() < deadline, f"{words!r} did not come: {self.seen!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                self.seen += os.read(self._master, 10_000).decode()
        return self.seen

    def until_mode(self, mode: list[Any]) -> None:
        """Wait until the terminal is in this mode."""
        deadline = time.monotonic() + LONG_S
        while self.mode != mode:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def leaves(self) -> int:
        """The exit code."""
        return self.process.wait(timeout=LONG_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    @property
    def mode(self) -> list[Any]:
        return termios.tcgetattr(self._slave)


def _take_terminal() -> None:
    os.setsid()
    os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first that is opened becomes the session's own


@contextmanager
def terminal(shell: dict[str, Any], *words: object) -> Iterator[Terminal]:
    person = Terminal([*PROGRAM, *map(str, words)], shell["env"])
    try:
        yield person
    finally:
        person.close()


@pytest.mark.heavy
def test_keys_pause_step_and_leave_and_the_terminal_is_as_it_was(shell: dict[str, Any], slow: Path) -> None:
    with terminal(shell, slow, "--paused") as person:
        person.until("space pauses and plays on, s or enter steps, q leaves")
        person.until("‖")
        assert person.mode != person.before
        assert "Slowly." not in person.seen
        person.press(b"ss")
        person.until("Slowly.")
        person.press(b"s\n")
        person.until("word2")
        assert "word4" not in person.seen
        person.press(b" ")
        person.until("word4")
        person.press(b"q")
        assert person.leaves() == 0
        assert person.mode == person.before


@pytest.mark.heavy
def test_a_stopped_replay_gives_the_terminal_back_and_goes_on_with_its_keys(
    shell: dict[str, Any], slow: Path
) -> None:
    with terminal(shell, slow) as person:
        person.until("word1")
        taken = person.mode
        person.process.send_signal(signal.SIGTSTP)
        person.until_mode(person.before)
        person.process.send_signal(signal.SIGCONT)
        person.until_mode(taken)
        person.press(b"q")
        assert person.leaves() == 0
        assert person.mode == person.before


@pytest.mark.heavy
@pytest.mark.parametrize("paused", [True, False])
def test_ctrl_c_leaves_the_terminal_as_it_was(shell: dict[str, Any], slow: Path, paused: bool) -> None:
    with terminal(shell, slow, *(["--paused"] if paused else [])) as person:
        person.until("‖" if paused else "word1")
        assert person.mode != person.before
        person.press(b"\x03")
        assert person.leaves() == 130
        assert person.mode == person.before
        person.until("playhead: stopped")
        assert re.search("(\r\n|\x1b\\[K)playhead: stopped", person.seen)


def test_a_log_in_memory_is_played_like_any_other() -> None:
    assert played(Log.of(())) == ""
