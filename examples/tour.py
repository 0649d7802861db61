"""Records the sessions of the tour: one crashes twice, one is steered, one works on a goal, and one is had again.

    python examples/tour.py [FOLDER]

FOLDER is ``examples/tour`` by default, where the files lie in the repository, as Playhead itself writes them. The same
program gives the same bytes. ``docs/make_tour.py`` shows them with the commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from playhead import Session, SessionHeader
from playhead.cli.run_tools import tools
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog
from script import BASH, MODEL, Json, Script

FOLDER = Path(__file__).parent / "tour"
_FIRST_MS = 1_780_646_400_000
_HOUR_MS = 3_600_000
_TICK_MS = 35
_DONE = {"kind": "completed"}
_BY_USER = {"kind": "aborted", "reason": {"kind": "user"}}
_LIST = "examples/shopping-list.txt"


class _Agent(Script):
    """A script with the few things that happen again and again in the tour."""

    _calls = 0

    def ask(self, messages: list[Json], title: str, system: str) -> None:
        """The first turn begins with ``messages``, and gives the session its name."""
        seqs = self.begin_turn("next-turn", messages)
        self.title(title, seqs)
        self.header(system, [BASH])
        self.add("request/context", {**MODEL, "contextWindow": 65536})
        self.wait(600)
        self.keep()

    def say(self, text: str, usage: tuple[int, int], *, thinks: str = "") -> None:
        """The model answers, and calls no tool."""
        call = self.call()
        if thinks:
            call.block("reasoning", _pieces(thinks))
        call.block("text", _pieces(text))
        call.finish("stop", _usage(*usage))
        self.end_step()

    def want(
        self, text: str, commands: Iterable[str], usage: tuple[int, int], *, thinks: str = ""
    ) -> list[Json]:
        """The model answers with calls of the tool; the blocks of the calls."""
        call, wanted = self.call(), []
        if thinks:
            call.block("reasoning", _pieces(thinks))
        if text:
            call.block("text", _pieces(text))
        for command in commands:
            self._calls += 1
            arguments = json.dumps({"command": command})
            id = f"call-{self._calls}"
            call.tool_call(id, "bash", [arguments[:12], arguments[12:]])
            wanted.append({"id": id, "arguments": arguments})
        call.finish("tool-calls", _usage(*usage))
        return wanted

    def todos(self, *items: tuple[str, str]) -> None:
        """The agent writes its list down anew."""
        self.add(
            "todo/write", {"todos": [{"content": content, "status": status} for content, status in items]}
        )

    def start(self, wanted: Json) -> int:
        """A tool begins to run; the seq of its call."""
        seq = self.tool_call(wanted["id"], "bash", wanted["arguments"])
        self.keep()
        return seq

    def run(self, wanted: Json, result: str, took_ms: int) -> None:
        """A tool runs for a while and comes back."""
        seq = self.start(wanted)
        self.wait(took_ms)
        self.tool_result(wanted["id"], result, seq)


def _pieces(text: str) -> list[str]:
    """The text as a model streams it: word by word."""
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]


def _usage(uncached: int, output: int) -> Json:
    return {"inputTokens": uncached, "outputTokens": output, "cacheReadTokens": 4 * uncached}


def crash_and_resume(session: Session, start_ms: int) -> None:
    """The process dies while a tool runs, and again when it has just taken a prompt from the queue."""
    script = _Agent(session, start_ms, _TICK_MS)
    prompt = script.queue("next-turn", "Rename the holiday photos by the day they were taken.")
    script.ask([prompt], "Rename the holiday photos", "You look after files. Be careful.")
    (count,) = script.want("I look how many there are.", ["ls | wc -l"], (310, 24))
    script.run(count, "214\n", 40)
    script.end_step()

    script.begin_step("next-step", [])
    script.wait(700)
    command = "exiftool '-FileName<DateTimeOriginal' -d %Y-%m-%d-%%f.%%e ."
    (rename,) = script.want("214 photos. I rename them now.", [command], (96, 41))
    script.start(rename)
    script.wait(9_000)
    sheet = script.queue("next-turn", "Then make a contact sheet of them.")
    script.keep()

    script.wait(65_000)
    script.resume()
    check = script.queue("next-step", "Look first how many have their new name.")
    script.open_turn()
    script.claim("next-step", 1)
    script.begin_step("next-turn", [sheet], [check])
    script.header("You look after files. Be careful.", [BASH], "resume")
    script.wait(800)
    (look,) = script.want(
        "",
        ["ls 2026-* | wc -l"],
        (420, 38),
        thinks="The renaming may be half done. Counting changes nothing.",
    )
    script.run(look, "214\n", 30)
    script.end_step()
    script.begin_step("next-step", [])
    script.wait(500)
    (montage,) = script.want("All 214 are renamed.", ["montage 2026-* -tile 12x contact.jpg"], (88, 36))
    script.run(montage, "", 21_400)
    script.end_step()
    script.begin_step("next-step", [])
    script.wait(500)
    script.say("The contact sheet is contact.jpg, 12 photos in a row.", (71, 19))
    script.end_turn(_DONE)

    script.wait(30_000)
    script.queue("next-turn", "Now the same for the videos.")
    script.open_turn()
    script.claim("next-turn", 1)
    script.keep()
    script.wait(120_000)
    script.resume()
    again = script.queue("next-turn", "Did you get that? The videos, please.")
    script.begin_turn("next-turn", [again])
    script.header("You look after files. Be careful.", [BASH], "resume")
    script.wait(500)
    script.say("There are no videos in this folder.", (130, 12))
    script.end_turn(_DONE)
    script.keep()


def steering(session: Session, start_ms: int) -> None:
    """A person joins in while the model works, queues, rewrites, takes back, and stops it."""
    script = _Agent(session, start_ms, _TICK_MS)
    prompt = script.queue("next-turn", "Write the page about sourdough.")
    script.ask([prompt], "The page about sourdough", "You write for a bakery. Keep to the facts.")
    recipe, style = script.want(
        "I read the recipe and the style guide.", ["cat sourdough.txt", "cat style.md"], (280, 52)
    )
    first = script.start(recipe)
    second = script.start(style)
    script.wait(300)
    steer = script.queue("next-step", "Grams, not cups, please.")
    rye = script.queue("next-turn", "And a page about rye bread.")
    both = script.queue("next-turn", "Put both pages on the front page.")
    script.wait(2_000)
    shorter = script.replace(rye, "And a page about rye bread, half as long.")
    script.tool_result(recipe["id"], "4 cups of flour\n1.5 cups of water\n", first)
    script.tool_result(style["id"], "Short sentences. No exclamation marks.\n", second)
    script.cancel(both)
    script.end_step()

    notice = {
        "kind": "plugin",
        "plugin": "tool-jobs",
        "form": "notice",
        "summary": "The spell checker is ready",
    }
    job = script.queue("next-step", "Background job finished: the spell checker is ready.", notice)
    script.begin_step("next-step", [steer, job])
    script.wait(600)
    script.say(
        "Sourdough needs time more than work. Mix 500 g of flour with 350 g of water and let it rest.",
        (190, 44),
        thinks="A cup of flour is about 125 g.",
    )
    script.end_turn(_DONE)

    script.begin_turn("next-turn", [shorter])
    script.wait(600)
    call = script.call()
    call.block("text", _pieces("Rye bread is sour, dark and"), whole=False)
    call.stop()
    script.end_step()
    script.end_turn(_BY_USER)

    script.wait(8_000)
    script.queue("next-turn", "Delete the old pages.")
    script.open_turn()
    script.claim("next-turn", 1)
    script.end_turn({"kind": "blocked"})
    script.queue("next-turn", "Tomorrow: the index of all pages.")
    script.title("Bread pages")
    script.keep()


def goal(session: Session, start_ms: int) -> None:
    """A goal is worked on in rounds, paused, rewritten, taken up again, and reached."""
    script = _Agent(session, start_ms, _TICK_MS)
    work = _Goal(script, "goal-tests", "All tests pass", 5)
    prompt = script.queue("next-turn", "Get the tests to pass, in at most five rounds.")
    script.ask([prompt], "Get the tests to pass", "You repair programs. Change as little as you can.")
    work.change("create")
    script.say("I begin.", (240, 6))
    script.end_turn(_DONE)

    work.round("Round 1 of 5. Run the tests and repair what fails.")
    (first,) = script.want("", ["make test"], (180, 20), thinks="First I see what fails.")
    script.run(first, "3 failed, 120 passed\n", 8_300)
    script.todos(
        ("the date of invoices", "in_progress"), ("the sum of taxes", "pending"), ("the slow test", "pending")
    )
    script.end_step()
    script.begin_step("next-step", [])
    script.wait(600)
    broken = script.call()
    broken.block("text", _pieces("The date of"), whole=False)
    broken.fail("the connection broke", "TRANSPORT")
    script.say("The date of invoices was off by a day; that is repaired.", (150, 48))
    script.end_turn(_DONE)

    work.round("Round 2 of 5. Two tests fail.")
    (second,) = script.want("The sum of taxes now.", ["make test"], (160, 33))
    seq = script.start(second)
    script.wait(5_000)
    hint = script.queue("next-step", "Wait. Leave the slow test alone.")
    work.change("pause")
    script.wait(3_000)
    script.tool_result(second["id"], "1 failed, 122 passed\n", seq)
    script.end_step()
    script.begin_step("next-step", [hint])
    script.wait(500)
    script.say("Understood. I stop here.", (120, 8))
    script.end_turn(_DONE)

    script.wait(40_000)
    work.change("edit", objective="All tests pass but the slow one", maxGoalRounds=4)
    work.change("resume")
    work.round("Round 3 of 4. One test fails; leave it alone.")
    (third,) = script.want("", ["make test SKIP=slow"], (110, 18))
    script.run(third, "122 passed\n", 6_100)
    script.todos(("the date of invoices", "completed"), ("the sum of taxes", "completed"))
    work.change("complete")
    script.end_step()
    script.begin_step("next-step", [])
    script.wait(500)
    script.say("All tests pass but the slow one.", (90, 9))
    script.end_turn(_DONE)
    script.keep()


def shopping(session: Session, start_ms: int) -> None:
    """Two short questions, and a look into a file: exactly what ``playhead run --tool read-file`` records."""
    script = _Agent(session, start_ms, _TICK_MS, {"provider": "openai-chat", "model": "example-1"})
    script.begin_turn("next-turn", [script.queue("next-turn", "What do I still need for pancakes?")])
    script.header("", [each.model_dump() for each in tools(["read-file"]).tools])
    script.add("request/context", script.model)
    script.wait(600)
    call, path = script.call(), json.dumps({"path": _LIST})
    call.block("reasoning", _pieces("The list will tell me."), whole=False)
    call.block("text", _pieces("I look at your list."), whole=False)
    call.tool_call("call-1", "read-file", [path[:12], path[12:]], whole=False)
    call.end_blocks()
    call.finish("tool-calls", _usage(220, 31))
    called = script.tool_call("call-1", "read-file", path)
    script.tool_result("call-1", (FOLDER.parents[1] / _LIST).read_text(encoding="utf-8"), called)
    script.end_step()
    script.begin_step("next-step", [])
    script.wait(500)
    script.say("Eggs, flour and milk.", (64, 7))
    script.end_turn(_DONE)

    script.wait(20_000)
    script.begin_turn("next-turn", [script.queue("next-turn", "I still have eggs.")])
    script.wait(500)
    script.say("Then flour and milk will do.", (80, 8))
    script.end_turn(_DONE)
    script.keep()


class _Goal:
    """A goal of a session, and its revisions."""

    def __init__(self, script: _Agent, id: str, objective: str, most: int) -> None:
        self._script = script
        self._goal: Json = {
            "id": id,
            "revision": 0,
            "objective": objective,
            "phase": "active",
            "maxGoalRounds": most,
        }
        self._rounds = 0
        self._created_ms = 0

    def change(self, operation: str, **values: Any) -> None:
        """The next revision, with other ``values`` where an edit has some."""
        phases = {"pause": "paused", "resume": "active", "complete": "complete"}
        phase = phases.get(operation, self._goal["phase"])
        self._goal = {**self._goal, "revision": self._goal["revision"] + 1, "phase": phase, **values}
        self._created_ms = self._created_ms or self._script.time_ms
        change = {"kind": "goal/change", "version": 1, "operation": operation, "goal": self._goal}
        times = {"createdAt": self._created_ms, "updatedAt": self._script.time_ms}
        self._script.add("goal/change", {**change, "roundsStarted": self._rounds, **times})

    def round(self, text: str) -> None:
        """The next round: a prompt that is queued and has a turn of its own."""
        self._rounds += 1
        named = {"goalId": self._goal["id"], "revision": self._goal["revision"], "round": self._rounds}
        prompt = self._script.queue("next-turn", text, {"kind": "goal", **named})
        self._script.begin_turn("next-turn", [prompt])
        self._script.wait(600)


SESSIONS: dict[str, Callable[[Session, int], None]] = {
    "crash-and-resume": crash_and_resume,
    "steering": steering,
    "goal": goal,
    "shopping": shopping,
}
"""Session id -> what happens in it."""

_CWDS = {
    "crash-and-resume": "/home/ada/photos",
    "steering": "/home/ada/bakery",
    "goal": "/home/ada/invoices",
    "shopping": "/home/ada/kitchen",
}


def files() -> Iterator[tuple[str, bytes]]:
    """Every file as its name and its content."""
    for number, (name, play) in enumerate(SESSIONS.items()):
        start_ms = _FIRST_MS + number * _HOUR_MS
        header = SessionHeader(SessionId(name), start_ms, cwd=_CWDS[name])
        with MemoryLog(clock=lambda start_ms=start_ms: start_ms) as log:
            session = log.create(header)
            play(session, start_ms)
            yield f"{name}.jsonl", b"".join(line + b"\n" for line in (header.line(), *session.lines()))


def main(folder: Path) -> None:
    """Write the files into ``folder``; older ones of the same name are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files():
        (folder / name).write_bytes(content)
        print(f"{len(content):>6} bytes  {folder / name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
