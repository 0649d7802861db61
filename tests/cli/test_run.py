"""``playhead run`` by a script: what is said, shown and recorded, and what keeps it from running."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chat_answers import DONE, calls, delta, refused, said
from cli_runner import Play, Ran
from scripted_server import CUT, HANG, Answer, Request, Script, ScriptedServer, scripted_server

from playhead import open_store
from playhead.eventstore.log import NewEvent

Talk = Any

CANCELS = """\
/followup one
/followup two
/cancel
/wait
/followup three
/followup four
/cancel keep
/wait
"""


class Run:
    """``playhead run`` against a scripted endpoint, recorded as session ``s1``."""

    def __init__(self, play: Play, server: ScriptedServer, folder: Path) -> None:
        self.play = play
        self.server = server
        self._folder = folder

    def __call__(self, *words: object, script: str | None = None, id: str | None = "s1") -> Ran:
        named = [] if id is None else ["--id", id]
        if script is not None:
            path = self._folder / "script"
            path.write_text(script)
            words = (*words, "--script", path)
        return self.play("run", "--base-url", self.server.url, "--model", "m1", *named, *words)

    @property
    def asked(self) -> list[list[str]]:
        """What each request held: the roles and texts of its messages."""
        return [
            [text_of(message) for message in request.json["messages"]] for request in self.server.requests
        ]

    def events(self, type: str | None = None, id: str = "s1") -> list[dict[str, Any]]:
        found = self.play("events", id, "--json").json_lines
        return [event for event in found if type is None or event["type"] == type]

    def endings(self, id: str = "s1") -> list[str]:
        return [event["data"]["reason"]["kind"] for event in self.events("turn/end", id)]


def text_of(message: dict[str, Any]) -> str:
    calls = [call["function"]["name"] for call in message.get("tool_calls", ())]
    return " ".join(filter(None, [f"{message['role']}:", message["content"], *calls]))


@pytest.fixture
def running(play: Play, tmp_path: Path) -> Any:
    """Gives a ``Run`` against these answers, or a script of the server."""

    @contextmanager
    def run(*answers: Answer, script: Script | None = None) -> Iterator[Run]:
        with scripted_server(*answers, script=script) as server:
            yield Run(play, server, tmp_path)

    return run


def told(out: bytes) -> str:
    """The text with its times taken out."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", out.decode())


# What is said and shown


def test_a_prompt_is_answered_shown_and_recorded(running: Talk) -> None:
    with running(said("Hel", "lo.")) as run:
        ran = run("Say hello.", "--system", "Be short.")
        assert ran.code == 0
        assert (
            told(ran.out)
            == """\
── Turn 1 · TIME

User
  Say hello.

Assistant · m1
  Hello.
"""
        )
        assert ran.err == "playhead: recorded as s1; `playhead show s1` shows it\n"
        assert run.asked == [["system: Be short.", "user: Say hello."]]
        shown = run.play("show", "s1")
        assert "Hello." in shown.out.decode()
        assert run.play("verify", "s1").code == 0


def test_what_was_shown_is_what_a_replay_shows(running: Talk) -> None:
    answers = [
        refused(429),
        Answer(steps=[delta(reasoning="Hm"), delta(content="Half \ud83d"), CUT]),
        Answer(steps=[delta(content="one \ud83d"), delta(content="\ude00 \x1b[2J"), delta("stop"), DONE]),
        calls(("read-file", {"path": "/nowhere"}), ("list-files", {"folder": "/nowhere"})),
        said("Nothing there."),
        refused(401, "who are you?"),
    ]
    with running(*answers) as run:
        ran = run("--tool", "read-file", "--tool", "list-files", script="first\n/steer second\n\nthird\n")
        assert ran.code == 1
        replayed = run.play("replay", "s1")
        assert ran.out.decode() == replayed.out.decode().split("\n", 3)[3]
        text = told(ran.out)
    assert "one 😀 \\x1b[2J" in text
    assert re.search(r"RATE_LIMIT \(HTTP 429\): busy\n  retry 1 of 5 after \d+ ms\n", text)
    assert "STREAM_CLOSED" in text or "TRANSPORT" in text
    assert text.endswith("  model call failed: AUTH (HTTP 401): who are you?\n  turn failed\n")


def test_prompts_of_a_script_have_a_turn_each_and_wait_for_each_other(running: Talk) -> None:
    with running(said("1"), said("2")) as run:
        assert run(script="# two prompts\none\n\n//two\n").code == 0
        assert run.asked == [["user: one"], ["user: one", "assistant: 1", "user: /two"]]
        assert run.endings() == ["completed", "completed"]


def test_a_prompt_goes_before_the_script(running: Talk) -> None:
    with running(said("1"), said("2")) as run:
        assert run("one", script="two\n").code == 0
        assert run.asked[-1] == ["user: one", "assistant: 1", "user: two"]


def test_what_is_steered_joins_the_turn_and_what_follows_up_has_its_own(running: Talk) -> None:
    with running(calls(("list-files", {"folder": "/nowhere"})), said("ok"), said("then")) as run:
        ran = run(
            "--tool", "list-files", script="/followup look\n/steer and be quick\n/followup later\n/wait\n"
        )
        assert ran.code == 0
        assert [len(asked) for asked in run.asked] == [1, 4, 6]
        assert run.asked[1][-1] == "user: and be quick"
        assert run.asked[2][-1] == "user: later"
        assert "  queued for the next step: and be quick\n" in ran.out.decode()
        assert "  queued for a turn of its own: later\n" in ran.out.decode()
        assert run.endings() == ["completed", "completed"]


def test_what_is_parked_wakes_nobody_and_joins_what_comes(running: Talk) -> None:
    with running(said("1"), said("2")) as run:
        script = "/inject by the way\n/send next-turn park later\n/status\nnow\n"
        ran = run(script=script)
        assert "2 messages queued" in ran.out.decode()
        assert run.asked[0] == ["user: by the way", "user: later"]
        assert run.asked[1][-1] == "user: now"


def test_what_is_queued_can_be_listed_changed_and_taken_out(running: Talk) -> None:
    with running(said("1")) as run:
        ran = run(script="/inject one\n/inbox\n", id="s1")
        (id,) = re.findall(r"  (\w{8})  next-step  one\n", ran.out.decode())
        script = f"/inject other\n/inbox edit {id} two\n/inbox\n"
        ran = run("--resume", "s1", script=script, id=None)
        assert re.search(r"next-step  two\n  \w{8}  next-step  other\n", ran.out.decode())
        new, other = re.findall(r"  (\w{8})  next-step", ran.out.decode())[-2:]
        assert new != id
        run("--resume", "s1", script=f"/inbox remove {other}\ngo\n", id=None)
        assert run.asked == [["user: two", "user: go"]]
        ran = run("--resume", "s1", script="/inbox edit ffff no\n", id=None)
        assert (ran.code, "no queued message has an id that begins with ffff" in ran.err) == (2, True)


def test_a_goal_is_worked_on_round_after_round_once_the_prompt_was_answered(running: Talk) -> None:
    with running(said("hello"), said("a"), said("b")) as run:
        ran = run("hi", "--goal", "write a poem", "--goal-rounds", 2, script="/goal\n")
        assert ran.code == 0
        assert [asked[-1].split("\n")[0] for asked in run.asked] == [
            "user: hi",
            'user: <goal_round round="1" of="2">',
            'user: <goal_round round="2" of="2">',
        ]
        assert "goal blocked (all 2 rounds were used" in ran.out.decode()
        assert run("--goal-rounds", 2, id="s2").code == 2


def test_a_model_ends_the_goal_when_it_may(running: Talk) -> None:
    met, stuck = ({"outcome": "met"}, {"outcome": "blocked", "reason": "no key"})
    answers = [said("a"), calls(("end-goal", met)), said("Done.")]
    answers += [calls(("end-goal", {"outcome": "blocked"})), calls(("end-goal", stuck)), said("Help.")]
    answers += [calls(("end-goal", met)), said("No goal.")]
    with running(*answers) as run:
        script = "/goal rhyme\n/wait\n/goal reason\n/wait\n/goal clear\nhi\n"
        assert run("--tool", "end-goal", script=script).code == 0
        goals = [row[1:] for row in run.play("goals", "s1").rows]
        assert [(row[0], row[4]) for row in goals if row[0] != "round"] == [
            ("create", "active"),
            ("complete", "complete"),
            ("create", "active"),
            ("block", "blocked"),
            ("clear", "cleared"),
        ]
        results = [text for asked in run.asked for text in asked[-1:] if text.startswith("tool:")]
    assert results == [
        "tool: the goal is met",
        "tool: Error: say for what reason it is blocked",
        "tool: the goal is blocked",
        "tool: Error: no goal is being worked towards",
    ]


def test_a_goal_is_set_paused_edited_resumed_completed_and_cleared(running: Talk) -> None:
    script = "/goal\n/inject x\n/goal rhyme\n/goal pause\n/goal edit rhyme well\n/goal complete\n/goal clear\n/goal\n"
    with running(script=lambda _: said("x")) as run:
        ran = run(script=script + "/quit\n")
        lines = [line.strip() for line in ran.out.decode().splitlines() if "goal" in line]
    assert lines[0] == "there is no goal; /goal TEXT sets one"
    assert "goal active, round 0 of 256: rhyme" in lines
    assert "goal paused, round 0 of 256: rhyme well" in lines
    assert "goal complete, round 0 of 256: rhyme well" in lines
    assert lines[-2:] == ["the goal is gone", "there is no goal; /goal TEXT sets one"]


def test_a_cancelled_turn_discards_what_is_queued_unless_it_is_kept(running: Talk) -> None:
    with running(said("1"), said("2")) as run:
        ran = run(script=CANCELS)
        assert ran.code == 0
        assert "1 message discarded" in ran.out.decode()
        assert "1 message still queued" in ran.out.decode()
        assert run.endings() == ["aborted", "aborted"]
        assert run("--resume", "s1", "go", id=None).code == 0
        assert [asked[-1] for asked in run.asked] == ["user: four", "user: go"]


# JSON


def test_json_gives_every_event_as_it_was_recorded(running: Talk) -> None:
    with running(calls(("list-files", {})), said("don", "e")) as run:
        ran = run("hi", "--json", "--tool", "list-files", script="/status\n")
        assert ran.code == 0
        recorded = run.events()
        for event in recorded:
            del event["position"]
        assert ran.json_lines == recorded
        assert "playhead: session s1" in ran.err


# Headers


def test_what_is_asked_for_is_in_the_request_and_in_the_log(running: Talk, tmp_path: Path) -> None:
    (tmp_path / "system").write_text("Be kind.\n")
    options = ["--max-tokens", 7, "--effort", "low", "--temperature", 0.5, "--context-window", 4096]
    with running(said("1"), said("2")) as run:
        run("hi", *options, "--system-file", tmp_path / "system", "--tool", "shell")
        body = run.server.requests[0].json
        assert (body["model"], body["temperature"], body["reasoning_effort"]) == ("m1", 0.5, "low")
        assert [tool["function"]["name"] for tool in body["tools"]] == ["shell"]
        (header,) = run.events("request/header")
        assert header["data"]["header"]["config"] == {
            "provider": "openai-chat",
            "model": "m1",
            "reasoningEffort": "low",
            "temperature": 0.5,
            "maxTokens": 7,
        }
        assert run.events("request/context")[0]["data"]["contextWindow"] == 4096
        assert run.events()[0]["type"] == "agent/inbox/spliced"
        again = run.play("run", "--base-url", run.server.url, "--resume", "s1", "--temperature", 1, "more")
        assert again.code == 0
        body = run.server.requests[1].json
        assert (body["model"], body["temperature"], body["reasoning_effort"]) == ("m1", 1, "low")
        assert run.asked[1][0] == "system: Be kind.\n"
        assert "tools" not in body


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai-chat", "/chat/completions"),
        ("deepseek-chat", "/chat/completions"),
        ("anthropic-messages", "/v1/messages"),
        ("deepseek-messages", "/v1/messages"),
    ],
)
def test_the_log_names_the_dialect_as_the_provider(running: Talk, dialect: str, path: str) -> None:
    with running(refused(400)) as run:
        assert run("hi", "--dialect", dialect).code == 1
        assert run.server.requests[0].path == path
        assert run.events("request/header")[0]["data"]["header"]["config"]["provider"] == dialect


def test_the_key_is_that_of_the_variable_and_stands_in_no_log(
    running: Talk, monkeypatch: pytest.MonkeyPatch, store_file: Path
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-this-machine")
    asks_for_it = calls(("shell", {"command": "echo [$SOME_KEY]"}))
    with running(asks_for_it, said("1"), said("2")) as run:
        run("hi", "--key-env", "SOME_KEY", "--tool", "shell")
        run("hi", id="s2")
        assert [request.headers["authorization"] for request in run.server.requests] == [
            "Bearer sk-very-secret",
            "Bearer sk-very-secret",
            "Bearer no-key",
        ]
        assert run.asked[1][-1] == "tool: []\n"
    content = b"".join(path.read_bytes() for path in store_file.parent.glob(store_file.name + "*"))
    assert b"very-secret" not in content


# The wire


def test_the_bytes_of_every_call_are_kept_unless_nobody_wants_them(running: Talk, store_file: Path) -> None:
    answers = [refused(503), calls(("list-files", {"folder": "/"})), said("ok"), said("again")]
    with running(*answers) as run:
        run("hi", "--tool", "list-files")
        run("hi", "--no-wire", id="s2")
    with open_store(str(store_file)) as store:
        kept = list(store.session("s1").exchanges())
        assert [(one.turn, one.step, one.number, one.status, one.end) for one in kept] == [
            (1, 1, 1, 503, "complete"),
            (1, 1, 2, 200, "complete"),
            (1, 2, 1, 200, "complete"),
        ]
        assert b"[DONE]" in kept[1].body
        assert json.loads(kept[2].request)["messages"][-1]["role"] == "tool"
        assert list(store.session("s2").exchanges()) == []
        assert [problem for problem in store.verify() if problem.severity == "error"] == []


# What goes wrong


def test_a_provider_that_cannot_be_reached_is_a_failed_turn(play: Play) -> None:
    ran = play("run", "--base-url", "http://127.0.0.1:9", "--model", "m", "--retries", 0, "hi", "--id", "s1")
    assert ran.code == 1
    assert "model call failed: TRANSPORT: the request to http://127.0.0.1:9/" in ran.out.decode()
    assert play("events", "s1", "--type", "turn/end").code == 0


def test_a_later_turn_that_works_makes_up_for_one_that_failed(running: Talk) -> None:
    with running(refused(400), said("ok")) as run:
        assert run(script="one\ntwo\n").code == 0
        assert run.endings() == ["error", "completed"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["hi"], 2, "which provider? Give --base-url URL, or --dialect NAME"),
        (["--base-url", "http://127.0.0.1:9"], 2, "which model? Give --model NAME"),
        (["--base-url", "ftp://x", "--model", "m"], 2, "begins with http:// or https://"),
        (["--base-url", "http://u:p@x", "--model", "m"], 2, "no user and no password"),
        (["--dialect", "nope", "--model", "m"], 2, "no dialect is named 'nope'; there are openai-chat"),
        (
            ["--dialect", "deepseek-chat", "--model", "m"],
            2,
            "DEEPSEEK_API_KEY holds no key for https://api.deep",
        ),
        (["--dialect", "openai-chat", "--model", "m", "--key-env", "NO_SUCH"], 2, "NO_SUCH holds no key"),
        (["--base-url", "http://x", "--model", "m"], 2, "OPENAI_API_KEY holds no key for http://x"),
        (["--base-url", "http://x", "--key-env", "A", "--no-key"], 2, "choose one"),
        (["--base-url", "http://127.0.0.1:9", "--model", "m", "--tool", "rm"], 2, "no tool is named 'rm'"),
        (
            ["--base-url", "http://127.0.0.1:9", "--model", "m", "--temperature", "nan"],
            2,
            "--temperature nan",
        ),
        (["--base-url", "http://127.0.0.1:9", "--model", "m", " "], 2, "a prompt needs some text"),
        (["--base-url", "http://127.0.0.1:9", "--model", "m", "--id", " "], 2, "a session needs an id"),
        (["--base-url", "http://127.0.0.1:9", "--model", "m", "--goal", " "], 2, "a goal needs some text"),
        (["--base-url", "http://127.0.0.1:9", "--resume", "a", "--id", "b"], 2, "choose one"),
        (["--base-url", "http://127.0.0.1:9", "--system", "a", "--system-file", "b"], 2, "choose one"),
        (
            ["--base-url", "http://127.0.0.1:9", "--model", "m", "--script", "/nowhere"],
            2,
            "/nowhere: No such file",
        ),
        (["--base-url", "http://127.0.0.1:9", "--model", "m", "--system-file", "/"], 2, "/: Is a directory"),
        (["--base-url", "http://127.0.0.1:9", "--resume", "s1"], 3, "there is no store at"),
        (
            ["--base-url", "http://127.0.0.1:9", "--model", "m", "--store", "/proc/x.sqlite", "hi"],
            3,
            "/proc/x.sqlite",
        ),
    ],
)
def test_what_keeps_it_from_running_is_one_line_and_makes_no_store(
    play: Play,
    store_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[object],
    code: int,
    told: str,
) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    ran = play("run", *words)
    assert (ran.code, ran.out) == (code, b"")
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert not store_file.exists()


def test_a_script_that_makes_no_sense_is_said_before_anything_is_done(
    running: Talk, store_file: Path
) -> None:
    with running() as run:
        ran = run(script="hi\n\n/fly\n")
        assert (ran.code, ran.out, run.asked) == (2, b"", [])
        assert "script:3: there is no command /fly" in ran.err
        assert not store_file.exists()


def test_an_id_that_is_taken_is_refused(running: Talk) -> None:
    with running(said("1")) as run:
        run("hi")
        ran = run("hi")
        assert ran.code == 2
        assert "there is a session 's1': --resume goes on with it" in ran.err


def test_an_imported_session_is_forked_and_then_resumed(running: Talk, home: Path) -> None:
    with running(said("more")) as run:
        run.play("import", home)
        ran = run("go on", "--resume", "plain-v0", id=None)
        assert ran.code == 2
        assert "`playhead fork plain-v0` makes one that goes on" in ran.err
        assert run.play("fork", "plain-v0", "--id", "child").code == 0
        assert run("go on", "--resume", "child", id=None).code == 0
        assert run.asked[0][-1] == "user: go on"
        assert any("What is in this folder?" in text for text in run.asked[0])
        assert run.play("verify", "child").code == 0


def test_a_session_that_somebody_else_writes_to_ends_with_what_happened(
    running: Talk, store_file: Path
) -> None:
    def meddle(_request: Request) -> Answer:
        with open_store(str(store_file)) as other:
            other.session("s1").append([NewEvent("x/other", {})])
        return said("too late")

    with running(script=meddle) as run:
        ran = run("hi")
        assert ran.code == 3
        assert re.search(
            r"session 's1': everything from seq \d+ on was not stored: somebody else wrote", ran.err
        )
        assert "Traceback" not in ran.err
        assert "x/other" in [event["type"] for event in run.events()]
        assert run.play("verify", "s1").code == 0


def test_who_stops_reading_stops_the_turn(play: Play) -> None:
    def gone(_block: bytes) -> None:
        raise BrokenPipeError

    with scripted_server(Answer(steps=[delta(content="so far"), HANG])) as server:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("playhead.cli.output.data", gone)
            ran = play("run", "--base-url", server.url, "--model", "m", "--id", "s1", "hi")
        assert (ran.code, ran.err.count("Traceback")) == (141, 0)
        (end,) = play("events", "s1", "--json", "--type", "turn/end").json_lines
        assert end["data"]["reason"]["kind"] == "aborted"


# Going on


def test_a_session_is_resumed_with_its_queue(running: Talk) -> None:
    with running(said("1"), said("2"), said("3")) as run:
        run(script="one\n/inject context\n/send next-turn park later\n")
        ran = run("--resume", "s1", script="/inbox\nnow\n", id=None)
        assert re.findall(r"\w{8}  (next-\w+)  (\w+)", ran.out.decode()) == [
            ("next-step", "context"),
            ("next-turn", "later"),
        ]
        assert [text for text in run.asked[-1] if text.startswith("user")] == [
            "user: one",
            "user: context",
            "user: later",
            "user: now",
        ]
        assert run.play("verify", "s1").code == 0


def test_what_is_queued_goes_on_when_it_is_woken(running: Talk) -> None:
    with running(said("1"), said("2")) as run:
        run(script="/send next-turn park one\n/inject context\n", id="a b")
        ran = run("--resume", "a b", script="/wake\n/wait\n/wake\n", id=None)
        assert run.asked == [["user: context", "user: one"]]
        assert "  nothing is queued\n" in ran.out.decode()
        assert ran.err == "playhead: recorded as a b; `playhead show 'a b'` shows it\n"


def test_a_live_session_folds_and_replays_like_its_import(running: Talk, tmp_path: Path, play: Play) -> None:
    answers = [
        refused(503),
        calls(("list-files", {"folder": "/nowhere"})),
        said("done"),
        said("more"),
        refused(400),
    ]
    with running(*answers) as run:
        run("hi", "--tool", "list-files", script="/inject x\nmore\nfail\n")
    exported = tmp_path / "s1.jsonl"
    assert play("export", "s1", "-o", exported).code == 0
    other = tmp_path / "other.sqlite"
    assert play("import", exported, "--store", other).code == 0
    for words in (
        ["replay", "s1", "--as", "chunks"],
        ["stats", "s1", "--json"],
        ["inbox", "s1", "--json"],
        ["goals", "s1", "--json"],
        ["show", "s1", "--format", "json"],
        ["events", "s1", "--logical", "--json"],
    ):
        live, imported = play(*words), play(*words, "--store", other)
        assert (live.code, imported.code) == (0, 0), live.err + imported.err
        assert live.out
        assert plain(imported) == plain(live), words
    assert play("verify", "s1").code == play("verify", "s1", "--store", other).code == 0


def plain(ran: Ran) -> list[Any]:
    """JSON lines, without what tells the two stores apart."""
    text = re.sub(rb'"(?:position|dialect|origin|format)":[^,}]*,?', b"", ran.out)
    return text.decode().splitlines()
