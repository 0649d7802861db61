from __future__ import annotations

import json
from pathlib import Path

import example_logs
import pytest
from cli_runner import Play


def ids(play: Play, *words: str) -> list[str]:
    return [row[0] for row in play("sessions", *words).rows]


def test_a_row_tells_id_generation_format_times_counts_state_and_folder(full: Play) -> None:
    rows = {row[0]: row[1:] for row in full("sessions").rows}
    generation, dialect, _created, _latest, events, lines, state, cwd, title = rows["packed-v0"]
    assert (generation, dialect, events, lines, state) == ("1", "dsh-v0", "33", "25", "ok")
    assert (cwd, title) == (example_logs.CWD, "What is in this folder?")
    assert rows["torn-v0"][6] == "damaged"


def test_a_damaged_session_in_the_list_exits_1(full: Play) -> None:
    assert full("sessions").code == 1
    assert full("sessions", "--prefix", "packed").code == 0


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--prefix", "packed"], ["packed-v0", "packed-v1"]),
        (["--cwd", "/nowhere"], []),
        (["--parent", "nobody"], []),
        (["--sort", "id", "--limit", "2"], ["compressed-v2", "compressed-v3"]),
        (["--sort", "events", "--prefix", "compressed"], ["compressed-v3", "compressed-v4", "compressed-v2"]),
    ],
)
def test_the_list_is_filtered_sorted_and_cut(full: Play, words: list[str], found: list[str]) -> None:
    assert ids(full, *words) == found


def test_json_has_one_object_per_session_with_damage_and_head(full: Play) -> None:
    found = {session["id"]: session for session in full("sessions", "--json").json_lines}
    assert len(found) == 9
    assert [finding["kind"] for finding in found["torn-v0"]["damaged"]] == ["torn-tail"]
    assert found["compressed-v4"]["damaged"] == []
    assert len(bytes.fromhex(found["compressed-v4"]["head"])) == 32


def test_generations_are_counted_and_listed_on_request(full: Play, home: Path) -> None:
    rewritten = next(home.rglob("plain-v0/*"))
    rewritten.write_bytes(rewritten.read_bytes().replace(b"plan.md", b"PLAN.md"))
    full("import", rewritten)
    assert [row[:2] for row in full("sessions", "--prefix", "plain-v0").rows] == [["plain-v0", "2/2"]]
    both = full("sessions", "--prefix", "plain-v0", "--all-generations").rows
    assert [row[1] for row in both] == ["1/2", "2/2"]


def test_an_empty_store_says_how_to_fill_it(play: Play, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    play("import", empty)
    ran = play("sessions")
    assert (ran.code, ran.out) == (0, b"")
    assert "`playhead import` adds some" in ran.err


def test_a_missing_store_exits_3_and_names_the_command_that_makes_one(play: Play, store_file: Path) -> None:
    ran = play("sessions")
    assert ran.code == 3
    assert "playhead import" in ran.err
    assert not store_file.exists()


def test_latest_is_the_order_of_the_last_events(full: Play) -> None:
    assert ids(full, "--sort", "latest")[-1] == "torn-v0"
    assert ids(full, "--sort", "latest", "--limit", "1") == ["compressed-v2"]


def test_every_format_of_a_log_has_its_title(full: Play) -> None:
    titles = {row[0]: row[-1] for row in full("sessions").rows}
    assert set(titles.values()) == {"What is in this folder?"}
    assert {session["title"] for session in full("sessions", "--json").json_lines} == {
        "What is in this folder?"
    }


def test_a_person_sees_what_there_is_room_for(full: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playhead.cli.output.on_terminal", lambda: True)
    lines = full("sessions", "--prefix", "packed").lines
    assert lines[0].split() == ["SESSION", "CREATED", "EVENTS", "TITLE"]
    assert all(len(line) <= 100 for line in lines)
    assert "STATE" in full("sessions").lines[0]


def test_sessions_are_found_by_a_text_with_the_event_that_holds_it_best(full: Play) -> None:
    rows = full("sessions", "--text", "PLAN.MD").rows
    assert {row[0] for row in rows} >= {"plain-v0", "packed-v1", "compressed-v4", "database-17"}
    id, _generation, seq, type, events, title, snippet = next(row for row in rows if row[0] == "plain-v0")
    assert title == "What is in this folder?"
    assert "plan.md" in snippet
    matching = full("events", id, "--text", "plan.md").rows
    assert int(events) == len(matching)
    assert (seq, type) in [(row[0], row[2]) for row in matching]


def test_the_best_match_comes_first_unless_another_order_is_asked_for(play: Play, tmp_path: Path) -> None:
    def log(name: str, text: str) -> None:
        data = {
            "id": "m",
            "role": "user",
            "content": [{"type": "text", "text": text}],
            "source": {"kind": "user"},
        }
        line = json.dumps({"type": "user/message", "seq": 0, "time": 5, "data": data, "surfaceOp": "append"})
        (tmp_path / f"{name}.jsonl").write_bytes(example_logs.header(name).line() + f"\n{line}\n".encode())

    log("a", "x is far and wide and long")
    log("b", "x and X")
    log("c", "x is here")
    log("d", "nothing")
    for name in "abcd":
        play("import", tmp_path / f"{name}.jsonl")
    assert ids(play, "--text", "x") == ["b", "c", "a"]
    assert ids(play, "--text", "x", "--sort", "id") == ["a", "b", "c"]
    assert ids(play, "--text", "x", "--limit", "1") == ["b"]
    (found,) = play("sessions", "--text", "x and", "--json").json_lines
    assert found["match"] == {
        "seq": 0,
        "type": "user/message",
        "time": 5,
        "times": 1,
        "events": 1,
        "snippet": "x and X",
    }
    assert play("sessions", "--text", "y").code == 0
    assert play("sessions", "--text", " ").code == 2
