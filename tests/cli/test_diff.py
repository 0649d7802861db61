from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play
from reference import shared_path

from playhead.cli import colour, output
from playhead.eventstore import json_text

Json = dict[str, Any]
Write = Callable[..., Path]


def answer(text: str) -> list[tuple[str, Json]]:
    place = {"turn": 1, "step": 1}
    content = [{"type": "text", "text": text}]
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"id": "a1", "role": "assistant", "content": content, "source": source}
    chunk = {"type": "text-delta", "index": 0, "text": text}
    return [
        ("assistant/chunk", {**place, "chunk": chunk}),
        ("assistant/message", {**place, "message": message}),
    ]


def session(text: str = "The answer is 42.", *more: tuple[str, Json]) -> list[tuple[str, Json]]:
    """One turn with a prompt and an answer."""
    prompt = {
        "id": "p1",
        "role": "user",
        "content": [{"type": "text", "text": "What is it?"}],
        "source": {"kind": "user"},
    }
    return [
        ("turn/start", {"turn": 1}),
        ("step/start", {"turn": 1, "step": 1}),
        ("user/message", prompt),
        *answer(text),
        *more,
        ("step/end", {"turn": 1, "step": 1}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    ]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a log file of these events."""

    def to_file(name: str, events: list[tuple[str, Json]], *, cwd: str = "/w", tail: bytes = b"") -> Path:
        header = {
            "type": "session",
            "version": 0,
            "id": name,
            "createdAt": 0,
            "cwd": cwd,
            "delegationDepth": 0,
        }
        lines: list[Json] = [header]
        for seq, (type, data) in enumerate(events):
            line: Json = {"type": type, "seq": seq, "time": 10 * seq, "data": data}
            if type.endswith("/message"):
                line["surfaceOp"] = "append"
            lines.append(line)
        file = tmp_path / f"{name}.jsonl"
        file.write_bytes(b"".join(json_text.dumps(line) + b"\n" for line in lines) + tail)
        return file

    return to_file


def test_sessions_that_differ_in_ids_only_are_equal(play: Play, write: Write) -> None:
    events = json_text.parse(json_text.dumps(session()).replace(b'"a1"', b'"other"'))
    ran = play("diff", write("a", session()), write("b", [tuple(event) for event in events]))
    assert (ran.code, ran.lines, ran.err) == (0, ["no difference in 7 events"], "")


def test_the_first_difference_is_shown_with_its_neighbours(play: Play, write: Write) -> None:
    ran = play("diff", write("a", session("The answer is 41.")), write("b", session()))
    assert ran.code == 1
    assert [line.rstrip() for line in ran.lines[2:]] == [
        "",
        "turn 1, before its first step",
        "  0 0  turn/start",
        "",
        "turn 1, step 1",
        "  1 1  step/start",
        "  2 2  user/message  What is it?",
        "! 4 4  assistant/message  The answer is 41.",
        "       message.content[0].text  The answer is [-41-]{+42+}.",
        "  5 5  step/end",
        "",
        "turn 1, its end and what follows",
        '  6 6  turn/end  {"reason":{"kind":"completed"}}',
        "",
        "1 difference in 7 events",
    ]
    assert ran.lines[0].startswith("--- A  a · dsh-v0 · 7 events")


def test_where_more_may_differ_it_is_said_how_to_see_it(play: Play, write: Write) -> None:
    remarks = [("feedback/record", {"text": f"{number}"}) for number in range(9)]
    ran = play("diff", write("a", session("No.", *remarks)), write("b", session("Yes.", *remarks)))
    assert ran.code == 1
    assert ran.lines[-1].endswith('feedback/record  {"text":"2"}')
    assert "--all shows all" in ran.err


def test_events_that_one_side_has_are_signed_and_counted(play: Play, write: Write) -> None:
    remark = ("feedback/record", {"text": "fine"})
    one, other = write("a", session()), write("b", session("No.", remark))
    ran = play("diff", one, other, "--all")
    assert ran.code == 1
    assert '+   5  feedback/record  {"text":"fine"}' in ran.lines
    assert ran.lines[-1] == "2 differences in 8 events"
    assert (
        '-   5  feedback/record  {"text":"fine"}'.replace("-   5", "- 5  ")
        in play("diff", other, one, "--all").lines
    )
    ignored = play("diff", one, other, "--ignore", "feedback/record", "--ignore", "assistant/message")
    assert (ignored.code, ignored.lines) == (0, ["no difference in 6 events"])


def test_what_comes_behind_the_first_difference_is_told_in_short(play: Play, write: Write) -> None:
    other = session("No.", ("feedback/record", {"text": "fine"}))
    ran = play("diff", write("a", session()), write("b", other))
    assert '+   5  feedback/record  {"text":"fine"}' in ran.lines
    assert sum("message.content" in line for line in ran.lines) == 1


def test_json_tells_the_difference(play: Play, write: Write) -> None:
    moved = session("The answer is 42.")
    ran = play("diff", write("a", session("The answer is 41.")), write("b", moved), "--json")
    assert ran.code == 1
    told = ran.json
    (difference,) = told.pop("differences")
    assert told == {
        "a": {"session": "a", "generation": 1, "dialect": "dsh-v0", "damaged": []},
        "b": {"session": "b", "generation": 1, "dialect": "dsh-v0", "damaged": []},
        "equal": False,
        "compared": 5,
        "complete": False,
    }
    assert difference == {
        "kind": "changed",
        "moved": False,
        "type": "assistant/message",
        "turn": 1,
        "step": 1,
        "a": {"seq": 4},
        "b": {"seq": 4},
        "changes": [
            {
                "path": ["message", "content", 0, "text"],
                "kind": "text",
                "a": "The answer is 41.",
                "b": "The answer is 42.",
                "words": [{"a": "41", "b": "42", "aAt": 14, "bAt": 14}],
            }
        ],
    }


def test_json_of_all_differences_holds_what_one_side_says(play: Play, write: Write) -> None:
    one, other = write("a", session()), write("b", session("No.", ("x/odd", {"turn": 1, "n": [1]})), cwd="/v")
    told = play("diff", one, other, "--all", "--json").json
    assert [(each["kind"], each["type"], each["turn"]) for each in told["differences"]] == [
        ("changed", "session", None),
        ("changed", "assistant/message", 1),
        ("only-b", "x/odd", 1),
    ]
    assert told["differences"][2]["a"] is None
    assert told["differences"][2]["b"] == {"seq": 5, "data": {"turn": 1, "n": [1]}}
    assert (told["equal"], told["complete"], told["compared"]) == (False, True, 8)
    equal = play("diff", one, one, "--json").json
    assert (equal["equal"], equal["differences"], equal["complete"]) == (True, [], True)


def test_an_id_in_the_wrong_place_is_shown_with_the_right_one(play: Play, write: Write) -> None:
    def called(*ids: str) -> list[tuple[str, Json]]:
        return session(
            "Yes.", *(("tool/call", {"turn": 1, "step": 1, "callId": id, "name": "t"}) for id in ids)
        )

    ran = play("diff", write("a", called("c1", "c1")), write("b", called("d1", "d2")))
    assert 'callId  [-"c1"-]{+"d2"+}  (c1 of A is d1 in B)' in "\n".join(ran.lines)


def test_only_the_turns_and_events_asked_for_are_compared(play: Play, write: Write) -> None:
    second = [
        (type, {**data, "turn": 2}) if "turn" in data else (type, data) for type, data in session("No.")
    ]
    changed = copy.deepcopy(second)
    changed[2][1]["content"][0]["text"] = "Why?"
    one, other = write("a", session() + second), write("b", session() + changed)
    assert play("diff", one, other).code == 1
    assert play("diff", one, other, "--turn", "1").code == 0
    assert play("diff", one, other, "--turn", "2-").code == 1
    assert play("diff", one, other, "--at", "6").code == 0
    assert play("diff", one, other, "--at-a", "6").code == 1
    assert play("diff", one, other, "--at", "9", "--at-a", "6", "--at-b", "6").code == 0


def test_chunks_are_compared_when_asked_for(play: Play, write: Write) -> None:
    cut = session()
    place = {"turn": 1, "step": 1}
    deltas = [("assistant/chunk", {**place, "chunk": {"type": "text-delta", "index": 0, "text": text}})
              for text in ("The answer ", "is 42.")]  # fmt: skip
    cut[3:4] = deltas
    one, other = write("a", session()), write("b", cut)
    assert play("diff", one, other).code == 0
    ran = play("diff", one, other, "--chunks")
    assert ran.code == 1
    assert "stream.chunks" in "\n".join(ran.lines)


def test_a_crashed_session_equals_its_repaired_form(play: Play, write: Write) -> None:
    whole = [*session()[:-1], ("turn/end", {"turn": 1, "reason": {"kind": "interrupted"}})]
    crashed, repaired = write("a", session()[:-2]), write("b", whole)
    assert play("diff", crashed, repaired).code == 1
    assert play("diff", crashed, repaired, "--repaired").code == 0


def test_damage_is_said_first_and_makes_equal_sessions_a_problem(play: Play, write: Write) -> None:
    damaged = write("b", session(), tail=b'{"type":"x')
    ran = play("diff", write("a", session()), damaged)
    assert (ran.code, ran.lines) == (1, ["no difference in 7 events"])
    assert ran.err.startswith("playhead: B: b: damaged: torn tail")
    (finding,) = play("diff", damaged, damaged, "--json").json["a"]["damaged"]
    assert finding["kind"] == "torn-tail"


def test_sessions_of_a_store_and_generations_are_compared(play: Play, write: Write) -> None:
    play("import", write("a", session()))
    file = write("a", session("Something else."))
    play("import", file)
    assert play("diff", "a", "a").code == 0
    ran = play("diff", "a", "a", "--generation-a", "1", "--generation-b", "2")
    assert ran.code == 1
    assert "generation 1 of 2" in ran.lines[0]
    assert play("diff", "a", file, "--generation-a", "2").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Missing argument"),
        (["a"], 2, "Missing argument"),
        (["a", "b", "--at", "7"], 2, "session A, a, has 7 seqs"),
        (["a", "b", "--at-b", "7"], 2, "session B, b, has 7 seqs"),
        (["a", "b", "--turn", "x"], 2, "--turn x"),
        (["a", "nobody"], 2, "nobody"),
        (["a", "./no.jsonl"], 2, "no such file"),
    ],
)
def test_wrong_usage_is_said(play: Play, write: Write, words: list[str], code: int, said: str) -> None:
    play("import", write("a", session()), write("b", session()))
    ran = play("diff", *words)
    assert (ran.code, ran.out) == (code, b"")
    assert said in ran.err


def test_text_of_a_log_cannot_move_the_cursor(play: Play, write: Write) -> None:
    hostile = "\x1b[2J\u202e\ud83d\r"
    odd = ("x/\x1bodd", {"key \x1b": hostile, "other": 1})
    one, other = (
        write("a", session(hostile, odd)),
        write("b", session("fine", ("x/\x1bodd", {"key \x1b": "fine"}))),
    )
    for words in ([], ["--all"], ["--all", "--full"]):
        ran = play("diff", one, other, *words)
        assert ran.code == 1
        assert not any(unit in ran.out.decode() for unit in "\x1b\u202e\r")
    assert play("diff", one, other, "--all", "--json").json["differences"][0]["changes"][0]["a"] == hostile


def test_numbers_that_no_json_holds_are_shown(play: Play, write: Write) -> None:
    file = write("a", session("x", ("x/odd", {"n": 1})))
    large = file.with_name("b.jsonl")
    large.write_bytes(file.read_bytes().replace(b'"n":1', b'"n":1' + b"0" * 5000))
    assert "Infinity" in play("diff", file, large).out.decode()
    assert play("diff", file, large, "--json").json["differences"][0]["changes"][0]["b"] == "Infinity"


def test_long_texts_and_many_differences_are_shortened_unless_asked_for(play: Play, write: Write) -> None:
    def listed(changed: int) -> list[tuple[str, Json]]:
        members = {f"m{at}": at + changed for at in range(30)}
        return session("word " * 500 + ("old" if changed else "new") + " word" * 500, ("x/many", members))

    one, other = write("a", listed(0)), write("b", listed(1))
    short = play("diff", one, other, "--all")
    assert "18 more differences in this event; --full shows all" in short.out.decode()
    assert max(map(len, short.lines)) < 300
    full = play("diff", one, other, "--all", "--full")
    assert "more differences" not in full.out.decode()
    assert max(map(len, full.lines)) > 5000


def test_what_stands_around_a_change_begins_and_ends_with_whole_words(play: Play, write: Write) -> None:
    texts = ["abcdefg " * 40 + word + " hijklmn" * 40 for word in ("old", "new")]
    ran = play("diff", *(write(name, session(text)) for name, text in zip("ab", texts, strict=True)))
    (shown,) = (line.strip() for line in ran.lines if "[-old-]{+new+}" in line)
    around = re.search(r"  … (?:abcdefg )+\[-old-\]\{\+new\+\} (?:hijklmn )+…$", shown)
    assert around is not None
    long = ["a" * 400 + f" {word} " + "b" * 400 for word in "xy"]
    ran = play("diff", *(write(name, session(text)) for name, text in zip("ab", long, strict=True)))
    assert any(f"  …{'a' * 59} [-x-]{{+y+}} {'b' * 59}…" in line for line in ran.lines)


def test_colour_takes_the_place_of_brackets(
    play: Play, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(colour, "wanted", lambda: True)
    ran = play("diff", write("a", session("The answer is 41.")), write("b", session()))
    text = ran.out.decode()
    assert "The answer is \x1b[31m41\x1b[0m\x1b[32m42\x1b[0m." in text
    assert "[-" not in text


def test_lines_fit_a_terminal_and_texts_of_several_lines_stay_lines(
    play: Play, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    one, other = write("a", session("one\ntwo\n" + "x" * 200)), write("b", session("one\nzwei\n" + "x" * 200))
    ran = play("diff", one, other)
    lines = [line.strip() for line in ran.lines]
    at = lines.index("message.content[0].text")
    assert lines[at + 1 : at + 3] == ["one", "[-two-]{+zwei+}"]
    heads = [line for line in ran.lines if line[:1] in "!-+> " and "message.content" not in line][2:]
    assert all(len(line) <= 100 for line in heads)


@pytest.mark.heavy
def test_a_migrated_log_of_the_corpus_equals_its_source(play: Play) -> None:
    folder = shared_path("corpus/dsh/0.2.1rc2/migrate-from-0.1.1rc1-crash-tool-before")
    (older,) = folder.glob("before/sessions/*/*/session.jsonl*")
    (newer,) = folder.glob("after-resume/sessions/*/*/session.v4.jsonl*")
    assert play("diff", older, newer, "--repaired").code == 0
    assert play("diff", older, newer).code == 1


def test_a_turn_that_neither_session_has_is_wrong_usage_and_no_equality(play: Play, write: Write) -> None:
    one, other = write("a", session()), write("b", session())
    assert play("diff", one, other, "--turn", "1").code == 0
    for form in ([], ["--json"]):
        ran = play("diff", one, other, "--turn", "2", "--turn", "4-", *form)
        assert (ran.code, ran.out) == (2, b"")
        assert "--turn 2, 4-: neither session has anything there to compare" in ran.err
