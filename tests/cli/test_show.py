from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import example_logs
import pytest
from cli_runner import Play
from hypothesis import given
from hypothesis import strategies as st
from reference import shared_path
from rich.cells import cell_len

from playhead.cli import output
from playhead.cli.paragraphs import clipped, split, wrap
from playhead.cli.transcript_markdown import fence, inline


class Log:
    """A log file that a test writes event by event."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [example_logs.header("told").line()]

    def add(self, type: str, data: Any, *, time: int | None = None, **envelope: Any) -> int:
        seq = len(self.lines) - 1
        event = {"type": type, "seq": seq, "time": 1000 + 10 * seq if time is None else time, "data": data}
        self.lines.append(json.dumps(event | envelope).encode())
        return seq

    def start(self) -> dict[str, int]:
        self.add("turn/start", {"turn": 1})
        self.add("step/start", {"turn": 1, "step": 1})
        return {"turn": 1, "step": 1}

    def say(self, text: str, source: dict[str, Any] | None = None) -> int:
        message = {"role": "user", "id": "u", "source": source or {"kind": "user"}}
        content = [{"type": "text", "text": text}]
        return self.add("user/message", {**message, "content": content}, surfaceOp="append")

    def answer(self, *blocks: dict[str, Any]) -> int:
        source = {"kind": "model", "provider": "p", "model": "m"}
        message = {"id": "a", "role": "assistant", "content": list(blocks), "source": source}
        return self.add("assistant/message", {"turn": 1, "step": 1, "message": message}, surfaceOp="append")

    def result(self, call: str, text: str) -> int:
        block = {"type": "tool-result", "toolCallId": call, "content": [{"type": "text", "text": text}]}
        source = {"kind": "tool", "callId": call}
        message = {"id": "r", "role": "user", "content": [block], "source": source}
        return self.add("tool/result", {"turn": 1, "step": 1, "message": message}, surfaceOp="append")

    def end(self, reason: dict[str, Any]) -> None:
        self.add("step/end", {"turn": 1, "step": 1})
        self.add("turn/end", {"turn": 1, "reason": reason})

    def write(self) -> Path:
        self.path.write_bytes(b"".join(line + b"\n" for line in self.lines))
        return self.path


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "told.jsonl")


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call_block(arguments: str, id: str = "c") -> dict[str, Any]:
    return {"type": "tool-call", "id": id, "name": "bash", "arguments": arguments}


@pytest.mark.parametrize("name", ["plain-v0", "packed-v1", "compressed-v4", "database-15"])
def test_every_layout_shows_the_same_conversation(full: Play, name: str) -> None:
    ran = full("show", name)
    assert (ran.code, ran.err) == (0, "")
    shown = [line.strip() for line in ran.lines if line.strip()]
    assert shown[0].startswith(name)
    wanted = ["User", "What is in this folder?", "Assistant · example-1", "Two files: a plan 📝 and a list."]
    assert [line for line in shown if line in wanted] == wanted
    assert re.fullmatch(r"── Turn 1 · .* · completed · [0-9.]+ m?s", shown[2])
    assert any(line.startswith("▸ bash  command: ls") for line in shown)


def test_the_whole_text_of_a_conversation(play: Play, log: Log) -> None:
    place = log.start()
    log.say("Sum up the notes,\nplease.")
    log.say("Context\nof a program", {"kind": "plugin", "plugin": "weather"})
    log.answer(
        {"type": "reasoning", "text": "First look."}, text_block("I look."), call_block('{"command": "ls"}')
    )
    log.add("tool/call", {**place, "callId": "c", "name": "bash", "arguments": "{}"})
    log.result("c", "\n".join("abcdefg"))
    log.end({"kind": "aborted", "reason": {"kind": "user"}})
    ran = play("show", log.write())
    assert ran.code == 0
    assert (
        re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", ran.out.decode())
        == """\
told
dsh-v0 · /home/ada/notes · TIME · 1 turn, 9 events

── Turn 1 · TIME · cancelled by user · 80 ms

User
  Sum up the notes,
  please.

  injected by weather: 20 characters

Assistant · m
  │ First look.

  I look.

  ▸ bash  command: ls  10 ms
    a
    b
    c
    d
    e
    … 2 more lines, 13 characters in all
"""
    )


def test_full_shortens_nothing(play: Play, log: Log) -> None:
    log.start()
    log.say("Context\nof a program", {"kind": "plugin", "plugin": "weather"})
    log.answer(call_block(json.dumps({"script": "one\ntwo", "limit": 5})))
    log.result("c", "\n".join("abcdefg"))
    shown = [line.strip() for line in play("show", log.write(), "--full").lines]
    wanted = ["Injected by weather", "of a program", "script:", "one", "two", "limit: 5", *"abcdefg"]
    assert [line for line in shown if line in wanted] == wanted


def test_a_failed_call_is_told_with_its_retry_and_what_had_come(play: Play, log: Log) -> None:
    place = log.start()
    failure = {"message": "slow down", "code": "RATE_LIMIT", "status": 429}
    for chunk in (
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "half \ud83d"},
        {"type": "text-delta", "index": 0, "text": "\ude00 done"},
        {"type": "finish", "reason": {"kind": "error", "failure": failure}},
    ):
        log.add("assistant/chunk", {**place, "chunk": chunk})
    retry = {**place, "retryId": "r", "retry": 1, "maxRetries": 5, "delayMs": 1500.4, "failure": failure}
    log.add("llm/retry", retry)
    log.end({"kind": "error", "error": failure})
    shown = play("show", log.write()).out.decode()
    assert (
        "model call failed: RATE_LIMIT (HTTP 429): slow down; 11 characters had come\n    half 😀 done\n"
        in shown
    )
    assert "  retry 1 of 5 after 1.5 s; the wait was not over\n" in shown
    assert "  turn failed: RATE_LIMIT (HTTP 429): slow down\n" in shown


def test_what_a_crash_left_open_is_said_and_closed_in_the_repaired_view(play: Play) -> None:
    log = shared_path("cases/16-crash-with-parallel-calls/log.jsonl")
    plain = play("show", log).out.decode()
    assert plain.count("no result") == 1
    assert "never started" in plain
    assert "the turn has no end" in plain
    repaired = play("show", log, "--repaired").out.decode()
    assert repaired.count("TOOL_OUTCOME_UNKNOWN") == repaired.count("TOOL_NOT_STARTED") == 1
    assert "a repair closed the turn" in repaired
    sections = play("show", log, "--repaired", "--json").json["sections"]
    calls = [item for item in sections[0]["items"][0]["items"] if item["type"] == "tool-call"]
    assert [call["resultSeq"] for call in calls] == [9, 8, 10]


def test_the_model_sees_summaries_and_the_person_every_message(play: Play) -> None:
    log = shared_path("cases/20-two-compactions-two-views/log.jsonl")
    model = play("show", log, "--view", "model", "--json").json
    assert [message["seq"] for message in model["messages"]] == [42, 32, 37]
    assert (model["view"], model["replaceGeneration"]) == ("model", 2)
    at = play("show", log, "--view", "model", "--json", "--at", 26).json
    assert [message["seq"] for message in at["messages"]] == [26, 16, 21]
    text = play("show", log).out.decode()
    assert text.count("compaction: ") == 2
    assert text.count("compaction failed: ") == 1
    assert text.index("my name is Robin") < text.index("compaction: ") < text.index("what is my name?")
    told = play("show", log, "--view", "model").out.decode()
    assert "user · injected by demo-compaction · seq 42\n  Robin asked for steps" in told
    assert "## user · injected by demo" in play("show", log, "--view", "model", "-f", "markdown").out.decode()


def test_a_clock_that_goes_back_leaves_the_duration_unknown(play: Play) -> None:
    ran = play("show", shared_path("cases/10-the-clock-goes-back/log.jsonl"))
    first, second = (line for line in ran.lines if line.startswith("── Turn"))
    assert first.endswith("duration unknown: the clock went back")
    assert second.endswith(" ms")


def test_turns_are_chosen_by_number_and_range(play: Play) -> None:
    log = shared_path("cases/20-two-compactions-two-views/log.jsonl")

    def turns(*words: str) -> list[int]:
        found = play("show", log, "--json", *words).json["sections"]
        return [section["number"] for section in found if section["type"] == "turn"]

    assert turns("--turn", "2") == [2]
    assert turns("--turn", "2-") == [2, 3]
    assert turns("--turn", "-1", "--turn", "3") == [1, 3]
    assert turns() == [1, 2, 3]
    assert [line[:9] for line in play("show", log, "--turn", "2").lines if "──" in line] == ["── Turn 2"]
    assert play("show", log, "--turn", "9").err.endswith("its turns are 1 to 3\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--turn", "x"],
        ["--turn", "3-2"],
        ["--turn", "-"],
        ["--turn", "9"],
        ["--at", "33"],
        ["--json", "--format", "markdown"],
        ["--view", "model", "--turn", "1"],
    ],
)
def test_what_makes_no_sense_is_wrong_usage(full: Play, words: list[str]) -> None:
    ran = full("show", "plain-v0", *words)
    assert (ran.code, ran.out) == (2, b"")


def test_at_shows_a_session_as_it_was(full: Play) -> None:
    assert "Two files" not in full("show", "plain-v0", "--at", 5).out.decode()
    assert "the turn has no end" in full("show", "plain-v0", "--at", 5).out.decode()


def test_damage_is_said_first_and_again_where_it_is(full: Play) -> None:
    ran = full("show", "torn-v0")
    assert ran.code == 1
    assert ran.err.startswith("playhead: torn-v0: damaged: ")
    assert "damaged here: " in ran.out.decode()
    assert [finding["kind"] for finding in full("show", "torn-v0", "--json").json["damaged"]] == ["torn-tail"]
    assert "> **Note:** damaged here: " in full("show", "torn-v0", "-f", "markdown").out.decode()
    strict = full("show", "torn-v0", "--strict")
    assert (strict.code, strict.out) == (1, b"")


def test_damage_without_a_number_is_told_between_its_neighbours(play: Play, log: Log) -> None:
    log.start()
    log.lines += [b"", b"no json"]
    log.lines += [json.dumps({"type": "turn/end", "seq": 2, "time": 9, "data": {"turn": 1}}).encode()]
    log.lines += [json.dumps({"type": "turn/start", "seq": 3, "time": 9, "data": {"turn": 2}}).encode()]
    log.lines += [b"neither", json.dumps({"type": "x/new", "seq": 4, "time": 9, "data": {}}).encode()]
    path = log.write()
    for form in ("show", "replay"):
        shown = play(form, path).out.decode()
        marks = ["Turn 1", "an empty line", "the line is not JSON", "Turn 2", "the line is not JSON"]
        places = [shown.find(marks[0])]
        for mark in marks[1:]:
            places.append(shown.find(mark, places[-1] + 1))
        assert places == sorted(places), form
        assert -1 not in places, form
    noted = play("show", path, "-f", "markdown").out.decode()
    assert noted.index("## Turn 1") < noted.index("an empty line") < noted.index("## Turn 2")


def test_of_damage_only_that_in_the_turns_shown_is_told_there(play: Play, log: Log) -> None:
    log.start()
    log.lines.append(b"no json")
    log.end({"kind": "completed"})
    log.add("turn/start", {"turn": 2})
    path = log.write()
    assert "damaged here" in play("show", path, "--turn", 1).out.decode()
    second = play("show", path, "--turn", 2)
    assert "damaged here" not in second.out.decode()
    assert (second.code, second.err.count("damaged: the line is not JSON")) == (1, 1)


def test_a_view_of_an_earlier_moment_tells_no_later_damage(play: Play, log: Log) -> None:
    log.start()
    log.lines.append(b"no json")
    path = log.write()
    earlier = play("show", path, "--at", 0)
    assert "as it was after seq 0" in earlier.out.decode()
    assert "damaged here" not in earlier.out.decode()
    assert "damaged here" in play("show", path).out.decode()


def test_an_unknown_event_makes_it_incomplete_unless_somebody_vouches_for_it(play: Play, log: Log) -> None:
    log.start()
    log.add("x/new", {})
    log.say("hello")
    path = log.write()
    ran = play("show", path)
    assert ran.code == 1
    assert ran.err == "playhead: told: interpretation incomplete: unknown event type x/new, first at seq 2\n"
    assert ran.out.decode().index("not understood: event of unknown type x/new") < ran.out.index(b"hello")
    assert play("show", path, "--json").json["unknown"] == [{"type": "x/new", "seq": 2}]
    assert play("show", path, "--view", "model").code == 1
    assert play("show", path, "--ignorable", "x/new").code == 0
    assert play("show", path, "--strict").code == 1


def test_a_log_that_breaks_a_rule_says_where(play: Play, log: Log) -> None:
    log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    path = log.write()
    ran = play("show", path)
    assert ran.code == 1
    assert ran.err == "playhead: told: seq 0: a turn ends that did not begin (turn-not-open)\n"
    assert play("show", path, "--json").json["breaches"][0]["kind"] == "turn-not-open"
    assert play("show", path, "--strict").out == b""


def test_a_session_that_was_forked_says_what_it_inherited(play: Play, log: Log) -> None:
    log.lines = [
        log.lines[0].replace(b'"delegationDepth"', b'"parentSession":"mum","seedLength":2,"delegationDepth"')
    ]
    log.add("turn/start", {"turn": 1})
    log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    log.add("session/end-seed", {})
    shown = play("show", log.write()).out.decode()
    assert "child of mum" in shown
    assert re.search(r"Turn 1 .* · inherited\n", shown)
    assert "up to here inherited from the parent session" in shown


NASTY = "\x1b[31mred\x07 \u202e # h1\n## no\n<script>x</script> ![p](http://x/y.png) `` ``` ````\n\ud83d"


@pytest.mark.parametrize("form", [[], ["--full"], ["-f", "markdown"], ["-f", "markdown", "--full"]])
@pytest.mark.parametrize("view", [[], ["--view", "model"]])
def test_nothing_in_a_log_reaches_the_terminal_raw(
    play: Play, log: Log, form: list[str], view: list[str]
) -> None:
    place = log.start()
    log.say(NASTY)
    log.say(NASTY, {"kind": "plugin", "plugin": NASTY, "summary": NASTY})
    block = call_block(json.dumps({NASTY: NASTY}), NASTY)
    log.answer(
        text_block(NASTY), {"type": "reasoning", "text": NASTY}, {**block, "name": NASTY}, {"type": NASTY}
    )
    log.add("tool/call", {**place, "callId": NASTY, "name": NASTY, "arguments": NASTY})
    log.result(NASTY, NASTY)
    log.add("llm/retry", {**place, "failure": {"code": NASTY, "message": NASTY}})
    for type, data in (
        ("session/title", {"title": NASTY}),
        ("session/title", {"title": "other"}),
        ("command/run", {"name": NASTY, "args": NASTY}),
        ("goal/change", {"operation": NASTY, "goal": {"objective": NASTY}}),
        ("todo/write", {"todos": [{"content": NASTY, "status": NASTY}]}),
        ("compaction/end", {"error": {"message": NASTY}}),
    ):
        log.add(type, data)
    log.end({"kind": NASTY, "reason": {"kind": NASTY}})
    out = play("show", log.write(), *form, *view).out.decode()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", out)
    if "markdown" in form:
        outside = "".join(outside_of_fences(out))
        assert not re.search(r"(?<!\\)<script|(?<!\\)`|!\[p\]|^## no|https?://", outside, re.MULTILINE)


def outside_of_fences(text: str) -> list[str]:
    """The lines of a Markdown text that are in no fenced block."""
    fence, kept = "", []
    for line in text.splitlines(keepends=True):
        ticks = re.match("`{3,}", line)
        if fence:
            if line.strip() == fence:
                fence = ""
        elif ticks:
            fence = ticks.group()
        else:
            kept.append(line)
    assert not fence
    return kept


def test_what_is_cut_says_how_much_there_is_and_a_program_gets_no_endless_line(play: Play, log: Log) -> None:
    log.start()
    log.answer(call_block(json.dumps({"content": "x" * 5000})))
    log.result("c", "y" * 5000)
    log.say("z" * 5000, {"kind": "plugin", "plugin": "p", "form": "notice", "summary": "s" * 5000})
    path = log.write()
    shown = play("show", path)
    assert max(map(len, shown.lines)) < 600
    assert "    … 5,000 characters in all" in shown.lines
    whole = play("show", path, "--full").out.decode()
    assert "characters in all" not in whole
    assert all(letter * 5000 in whole for letter in "xyz")


def test_a_part_of_a_session_begins_at_once(play: Play, log: Log) -> None:
    log.start()
    log.say("Hello.\n\nAgain.")
    path = log.write()
    assert play("show", path, "--turn", 1).lines[0].startswith("── Turn 1")
    assert play("show", path, "--view", "model").lines == ["user · seq 2", "  Hello.", "", "  Again."]


def test_a_terminal_gets_lines_that_fit(play: Play, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.start()
    log.say("Several words that go on and on. " * 20 + "日本語 " * 40 + "x" * 300)
    log.answer(text_block("word " * 200), call_block(json.dumps({"command": "ls " * 100})))
    log.result("c", "y" * 5000)
    log.add("session/title", {"title": "a long title " * 12, "messageSeqs": [], "source": {"kind": "user"}})
    path = log.write()
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    for columns in (80, 120):
        monkeypatch.setattr("playhead.cli.show._width", lambda columns=columns: columns)
        for words in ([], ["--full"], ["--view", "model"]):
            lines = play("show", path, *words).lines
            assert max(map(cell_len, lines)) <= columns


@given(st.text(), st.integers(20, 60))
def test_wrapping_keeps_every_letter_and_fits(text: str, cells: int) -> None:
    for line in split(text):
        pieces = list(wrap(line, cells))
        assert all(cell_len(piece) <= cells for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(line.split())
    assert cell_len(clipped(text, cells)) <= cells
    assert "\n" not in clipped(text)


@given(st.text(st.sampled_from("`~<# \nab"), max_size=60))
def test_a_fence_is_longer_than_any_run_of_backticks_in_it(text: str) -> None:
    lines = list(fence(text))
    if lines:
        ticks = lines[-1]
        assert set(ticks) == {"`"}
        assert lines[0] == f"{ticks}text"
        assert all(ticks not in line for line in lines[1:-1])
    assert not re.search(r"(?<!\\)[<`#]", inline(text).replace("\\\\", ""))
