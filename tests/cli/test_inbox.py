from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play
from rich.cells import cell_len
from typer.testing import CliRunner

from playhead.cli import output
from playhead.cli.app import app
from playhead.eventstore import json_text

HEADER = {"type": "session", "version": 0, "id": "queue", "createdAt": 0, "delegationDepth": 0}
Json = dict[str, Any]


def message(id: str, text: str, kind: str = "user") -> Json:
    return {"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": kind}}


def splice(target: str, start: int, *inserted: Json, **more: Any) -> tuple[str, Json]:
    return "agent/inbox/spliced", {"target": target, "start": start, "inserted": list(inserted), **more}


def turn(number: int, **reason: Any) -> tuple[str, Json]:
    if reason:
        return "turn/end", {"turn": number, "reason": reason}
    return "turn/start", {"turn": number}


EVENTS = [
    splice("next-turn", 0, message("prompt-1", "build it")),
    turn(1),
    splice("next-turn", 0, removedCount=1),
    ("step/start", {"turn": 1, "step": 1}),
    ("user/message", message("prompt-1", "build it")),
    ("user/message", message("snapshot", "the folder", "runtime-context")),
    splice("next-step", 0, message("steer-1", "stop after\nthe first error")),
    splice("next-turn", 0, message("later-1", "update the docs")),
    splice("next-turn", 0, message("later-2", "first the notes")),
    splice("next-turn", 1, message("later-3", "all the docs"), removedCount=1, outcome="canceled"),
    ("step/end", {"turn": 1, "step": 1}),
    splice("next-step", 0, removedCount=1),
    turn(1, kind="aborted", reason={"kind": "user"}),
    splice("next-turn", 0, removedCount=1, outcome="canceled"),
]

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a log file of these events, 10 ms apart."""

    def to_file(*events: tuple[str, Json], tail: bytes = b"") -> Path:
        lines = [HEADER]
        for seq, (type, data) in enumerate(events):
            line: Json = {"type": type, "seq": seq, "time": 10 * seq, "data": data}
            if type == "user/message":
                line["surfaceOp"] = "append"
            lines.append(line)
        file = tmp_path / "queue.jsonl"
        file.write_bytes(b"".join(json_text.dumps(line) + b"\n" for line in lines) + tail)
        return file

    return to_file


@pytest.fixture
def log(write: Write) -> Path:
    """A session in which each of four messages met another fate."""
    return write(*EVENTS)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)


def test_every_message_has_a_row_with_its_verdict_and_the_reason(play: Play, log: Path) -> None:
    ran = play("inbox", log)
    lost = "claimed at seq 11 and never delivered: turn 1 was stopped by the user"
    assert ran.rows == [
        ["admitted", "prompt-1", "user", "next-turn", "20 ms", "1", "-", "build it"],
        ["lost", "steer-1", "user", "next-step", "50 ms", "1, step 2", lost, "stop after the first error"],
        [
            "replaced",
            "later-1",
            "user",
            "next-turn",
            "-",
            "-",
            "replaced by later-3 at seq 9",
            "update the docs",
        ],
        [
            "cancelled",
            "later-2",
            "user",
            "next-turn",
            "-",
            "-",
            "taken out of next-turn at seq 13",
            "first the notes",
        ],
        ["pending", "later-3", "user", "next-turn", "-", "-", "-", "all the docs"],
    ]


def test_a_lost_message_is_a_problem_and_a_pending_one_is_none(play: Play, log: Path, write: Write) -> None:
    ran = play("inbox", log)
    assert ran.code == 1
    assert "queue: 1 message lost: claimed and never delivered" in ran.err
    ran = play("inbox", write(EVENTS[0]))
    assert (ran.code, ran.err) == (0, "")
    assert ran.rows[0][0] == "pending"


def test_a_refused_message_is_a_problem(play: Play, write: Write) -> None:
    ran = play("inbox", write(*EVENTS[:3], turn(1, kind="blocked")))
    assert ran.code == 1
    assert "1 message refused" in ran.err
    assert "a pre-step decision rejected the step" in ran.rows[0][6]


def test_verdicts_can_be_asked_for(play: Play, log: Path) -> None:
    assert [row[1] for row in play("inbox", log, "--lost").rows] == ["steer-1"]
    chosen = play("inbox", log, "--verdict", "pending", "--verdict", "replaced").rows
    assert [row[1] for row in chosen] == ["later-1", "later-3"]
    assert play("inbox", log, "--verdict", "open").rows == []
    assert play("inbox", log, "--verdict", "forgotten").code == 2


def test_both_lists_are_shown_as_they_stood(play: Play, log: Path) -> None:
    assert play("inbox", log, "--at", 9).rows == [
        ["next-turn", "1", "later-2", "user", "8", "first the notes"],
        ["next-turn", "2", "later-3", "user", "9", "all the docs"],
        ["next-step", "1", "steer-1", "user", "6", "stop after the first error"],
    ]
    ran = play("inbox", log, "--at", 2)
    assert (ran.code, ran.rows) == (0, [])
    assert "both lists are empty" in ran.err


def test_at_goes_with_what_else_is_asked(play: Play, log: Path) -> None:
    assert [row[:2] for row in play("inbox", log, "--at", 7, "--verdict", "pending").rows] == [
        ["pending", "steer-1"],
        ["pending", "later-1"],
    ]
    assert len(play("inbox", log, "--at", 2, "--events").rows) == 2
    ran = play("inbox", log, "--at", 99)
    assert ran.code == 2
    assert "14 seqs, from 0" in ran.err


def test_a_crash_leaves_a_message_open_and_the_repaired_view_loses_it(play: Play, write: Write) -> None:
    file = write(*EVENTS[:3])
    ran = play("inbox", file)
    assert (ran.code, ran.rows[0][0]) == (0, "open")
    ran = play("inbox", file, "--repaired")
    assert (ran.code, ran.rows[0][0]) == (1, "lost")
    assert "turn 1 was cut off by a crash" in ran.rows[0][6]


def test_the_story_of_a_message_names_every_link_and_every_change_of_its_place(play: Play, log: Path) -> None:
    lines = play("inbox", log, "--message", "later-1").lines
    assert [line[:5] + line[30:] for line in lines if line.startswith("seq ")] == [
        "seq 7  queued, first in next-turn",
        "seq 8  now at place 2 of 2 in next-turn, 1 in front",
        "seq 9  replaced by later-3",
    ]
    assert lines[-2:] == ["Replaced by later-3 at seq 9.", "Another message took its place."]


def test_the_story_of_a_lost_message_says_what_that_means(play: Play, log: Path) -> None:
    ran = play("inbox", log, "--message", "steer")
    assert ran.code == 1
    assert ran.lines[0] == "lost  steer-1"
    assert "    stop after" in ran.lines
    assert "claimed from next-step before step 2 of turn 1, after 50 ms" in ran.out.decode()
    assert ran.lines[-1].startswith("It is in no list and not in the conversation")


@pytest.mark.parametrize(
    ("name", "says"), [("later", "fits 3 messages: later-1, later-2, later-3"), ("none", "was ever queued")]
)
def test_a_name_that_fits_none_or_several_is_wrong_usage(play: Play, log: Path, name: str, says: str) -> None:
    ran = play("inbox", log, "--message", name)
    assert ran.code == 2
    assert says in ran.err


def test_an_exact_id_wins_over_ids_that_begin_with_it(play: Play, write: Write) -> None:
    file = write(splice("next-turn", 0, message("a", "one"), message("ab", "two")))
    assert play("inbox", file, "--message", "a").lines[0] == "pending  a"


def test_events_are_all_links_in_order(play: Play, log: Path) -> None:
    rows = play("inbox", log, "--events").rows
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("0", "inserted", "prompt-1"),
        ("2", "claimed", "prompt-1"),
        ("4", "admitted", "prompt-1"),
        ("6", "inserted", "steer-1"),
        ("7", "inserted", "later-1"),
        ("8", "inserted", "later-2"),
        ("9", "replaced", "later-1"),
        ("9", "inserted", "later-3"),
        ("11", "claimed", "steer-1"),
        ("12", "lost", "steer-1"),
        ("13", "cancelled", "later-2"),
    ]
    assert rows[7][-1] == "in the place of later-1: all the docs"


def test_json_has_the_whole_audit(play: Play, log: Path) -> None:
    found = play("inbox", log, "--json").json
    assert found["session"] == "queue"
    assert found["verdicts"] == {"lost": 1, "cancelled": 1, "replaced": 1, "pending": 1, "admitted": 1}
    assert found["lists"] == {"next-turn": ["later-3"], "next-step": []}
    assert found["outside"] == {"runtime context": 1}
    assert [each["id"] for each in found["messages"]] == [
        "prompt-1",
        "steer-1",
        "later-1",
        "later-2",
        "later-3",
    ]
    lost = play("inbox", log, "--json", "--lost").json["messages"]
    assert [(each["verdict"], each["reason"], each["detail"]) for each in lost] == [
        ("lost", "aborted", "user")
    ]


def test_json_of_one_message_has_its_chain_and_its_places(play: Play, log: Path) -> None:
    found = play("inbox", log, "--json", "--message", "later-1").json
    assert found["message"]["replacedBy"] == "later-3"
    assert [link["kind"] for link in found["chain"]] == ["inserted", "replaced"]
    assert [(place["seq"], place["place"], place["of"]) for place in found["places"]] == [
        (7, 0, 1),
        (8, 1, 2),
    ]


def test_options_that_exclude_each_other_are_refused(play: Play, log: Path) -> None:
    assert play("inbox", log, "--message", "a", "--lost").code == 2
    assert play("inbox", log, "--events", "--json").code == 2
    assert play("inbox", log, "--events", "--verdict", "lost").code == 2


def test_an_impossible_splice_is_said_and_strict_shows_nothing(play: Play, write: Write) -> None:
    file = write(EVENTS[0], splice("next-turn", 3, removedCount=1))
    ran = play("inbox", file)
    assert ran.code == 1
    assert "queue: seq 1: messages are removed at place 3 of next-turn" in ran.err
    assert "(invalid-splice)" in ran.err
    assert ran.rows[0][0] == "pending"
    ran = play("inbox", file, "--strict")
    assert (ran.code, ran.out) == (1, b"")
    assert "seq 1" in ran.err


def test_damage_is_said_first_and_the_rest_is_shown(play: Play, write: Write) -> None:
    file = write(EVENTS[0], tail=b'{"type":"turn/st')
    ran = play("inbox", file)
    assert ran.code == 1
    assert "damaged: torn tail" in ran.err
    assert ran.rows[0][0] == "pending"
    assert play("inbox", file, "--strict").out == b""
    assert play("inbox", file, "--json").json["damaged"][0]["kind"] == "torn-tail"


def test_an_unknown_event_makes_the_audit_incomplete_unless_it_is_ignorable(play: Play, write: Write) -> None:
    file = write(EVENTS[0], ("inbox/teleport", {}))
    ran = play("inbox", file)
    assert ran.code == 1
    assert "interpretation incomplete: unknown event type inbox/teleport, first at seq 1" in ran.err
    assert play("inbox", file, "--ignorable", "inbox/teleport").code == 0
    assert play("inbox", file, "--strict").out == b""


def test_texts_and_ids_cannot_forge_the_screen(play: Play, write: Write) -> None:
    ran = play("inbox", write(splice("next-turn", 0, message("a\x1b[31m", "b\x1b[2J"))))
    assert b"\x1b" not in ran.out
    assert b"a\\x1b[31m" in ran.out
    shown = play("inbox", write(splice("next-turn", 0, message("a\x1b[31m", "b\x1b[2J"))), "--message", "a")
    assert b"\x1b" not in shown.out


@pytest.mark.usefixtures("terminal")
def test_a_person_sees_short_ids_the_reason_below_and_the_sum(play: Play, log: Path) -> None:
    lines = play("inbox", log).lines
    assert lines[0].split() == ["VERDICT", "ID", "SOURCE", "FOR", "WAITED", "TURN", "TEXT"]
    assert lines[2].split("  ")[0] == "lost"
    assert lines[3].strip() == "└ claimed at seq 11 and never delivered: turn 1 was stopped by the user"
    assert lines[-2] == "5 messages: 1 admitted, 1 cancelled, 1 lost, 1 pending, 1 replaced"
    assert lines[-1] == "1 more message entered the conversation without passing the inbox: 1 runtime context"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("options", [[], ["--events"], ["--at", "0"], ["--message", "b2a9"]])
def test_no_line_is_wider_than_the_terminal(write: Write, columns: int, options: list[str]) -> None:
    long = message("b2a9f9c0-1111-4222-8333-444455556666", "漢字 " * 60, "subagent-settled")
    file = write(splice("next-turn", 0, long), *EVENTS[1:3], turn(1, kind="error", error={"code": "X" * 90}))
    env = {"TERM": "dumb", "COLUMNS": str(columns), "PLAYHEAD_STORE": "none.sqlite"}
    ran = CliRunner().invoke(app, ["inbox", str(file), *options], env=env)
    assert "b2a9f9c0" in ran.stdout
    assert max(cell_len(line) for line in ran.stdout.splitlines()) <= columns


@pytest.mark.usefixtures("terminal")
def test_verdicts_are_coloured_for_a_person_who_wants_it(log: Path, tmp_path: Path) -> None:
    env = {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": "100", "PLAYHEAD_STORE": str(tmp_path / "none.sqlite")}
    ran = CliRunner().invoke(app, ["inbox", str(log)], env=env)
    assert "\x1b[1;31mlost\x1b[0m" in ran.stdout
    plain = CliRunner().invoke(app, ["inbox", str(log)], env=env | {"NO_COLOR": "1"})
    assert "\x1b" not in plain.stdout


def test_an_empty_session_has_nothing_to_tell(play: Play, write: Write) -> None:
    ran = play("inbox", write())
    assert (ran.code, ran.out) == (0, b"")
