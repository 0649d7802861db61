from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import example_logs
import pytest
from cli_runner import Play

import playhead


@pytest.fixture
def clean(play: Play, tmp_path: Path) -> Play:
    """``play`` on a store of two sound sessions."""
    for name in ("one", "two"):
        assert play("import", example_logs.write_file(tmp_path / "home", name, 4, compressed=True)).code == 0
    return play


def change(store_file: Path, statement: str) -> None:
    with closing(sqlite3.connect(store_file)) as database, database:
        assert database.execute(statement).rowcount > 0


def test_a_sound_store_exits_0_and_says_what_was_verified(clean: Play) -> None:
    ran = clean("verify")
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == "playhead: 2 sessions, 32 events verified; 0 errors; 0 warnings\n"


def test_a_change_in_the_store_exits_1_and_names_the_session(clean: Play, store_file: Path) -> None:
    zeroed = "UPDATE segment SET body = zeroblob(length(body)) WHERE session_id = 1"
    change(store_file, zeroed)
    ran = clean("verify")
    assert ran.code == 1
    assert ran.lines
    assert all(line.startswith("error: session one") for line in ran.lines)
    assert clean("verify", "two").code == 0


def test_lines_that_were_edited_by_hand_are_named_and_it_is_said_what_to_do(
    play: Play, store_file: Path
) -> None:
    """In SQLite ``replace`` makes text of bytes."""
    with playhead.open_store(str(store_file)) as store:
        session = store.create(playhead.SessionHeader(playhead.SessionId("mine"), 1))
        session.append([playhead.NewEvent("feedback/record", {"text": text}) for text in "abc"])
    change(store_file, "UPDATE event SET line = replace(line, '\"b\"', '\"x\"') WHERE line_no = 1")
    ran = play("verify")
    assert ran.code == 1
    assert [line.split(": ")[:3] for line in ran.lines] == [["error", "session mine, line 3", "cell-type"]]
    assert "nothing else was looked at" in ran.err
    assert "take it from a copy of the store, or import the file into a new one" in ran.err
    (error,) = play("verify", "--json").json["errors"]
    assert (error["session"], error["fromLine"], error["toLine"]) == ("mine", 3, 4)
    ran = play("replay", "mine", "--as", "lines")
    assert (ran.code, "line 3 was changed in the store; run `playhead verify`" in ran.err) == (1, True)


def test_a_header_that_cannot_be_read_is_an_error_of_its_session_and_hides_no_other(
    clean: Play, store_file: Path
) -> None:
    change(store_file, "UPDATE session SET header = substr(header, 2) WHERE key = 'one'")
    ran = clean("verify")
    assert ran.code == 1
    assert {line.split(",")[0].split(":")[1] for line in ran.lines} == {" session one"}
    assert any("header: the header cannot be read" in line for line in ran.lines)
    assert "damaged before the import" not in ran.err
    assert clean("verify", "two").code == 0
    listed = clean("sessions", "--json")
    assert listed.code == 1
    assert {line["id"]: [found["kind"] for found in line["damaged"]] for line in listed.json_lines} == {
        "one": ["changed-in-store"],
        "two": [],
    }
    ran = clean("show", "one")
    assert (ran.code, "header was changed in the store" in ran.err) == (1, True)


def test_json_keeps_errors_warnings_and_damage_apart(full: Play, store_file: Path) -> None:
    found = full("verify", "--json").json
    assert found["errors"] == []
    assert [(entry["session"], entry["kind"]) for entry in found["damaged"]] == [("torn-v0", "torn-tail")]
    change(store_file, "UPDATE session SET cwd = '/elsewhere' WHERE key = 'plain-v0'")
    found = full("verify", "--json").json
    assert {entry["session"] for entry in found["errors"]} == {"plain-v0"}


def test_a_log_damaged_before_the_import_exits_1_and_is_no_error(full: Play) -> None:
    ran = full("verify", "torn-v0")
    assert ran.code == 1
    assert "torn-v0: damaged: torn tail" in ran.err
    assert "0 errors" in ran.err


def test_a_log_file_is_verified_without_a_store(play: Play, home: Path, store_file: Path) -> None:
    assert play("verify", next(home.rglob("compressed-v3/*"))).code == 0
    assert not store_file.exists()


def test_kept_heads_allow_growth_and_show_a_consistent_change(clean: Play, tmp_path: Path) -> None:
    heads = tmp_path / "heads"
    assert clean("verify", "--write-heads", heads).code == 0
    assert len(heads.read_text().splitlines()) == 2
    clean("import", example_logs.write_file(tmp_path / "home", "three", 0))
    assert clean("verify", "--heads", heads).code == 0

    kept = [json.loads(line) for line in heads.read_text().splitlines()]
    kept[0]["head"] = "00" * 32
    heads.write_text("".join(json.dumps(head) + "\n" for head in kept))
    ran = clean("verify", "--heads", heads)
    assert ran.code == 1
    assert "rewritten" in ran.lines[0]
    assert clean("verify", kept[1]["session"], "--heads", heads).code == 0


def test_heads_of_a_store_with_errors_are_not_written(clean: Play, tmp_path: Path, store_file: Path) -> None:
    change(store_file, "DELETE FROM segment WHERE session_id = 1")
    heads = tmp_path / "heads"
    ran = clean("verify", "--write-heads", heads)
    assert ran.code == 1
    assert not heads.exists()
    assert "not written" in ran.err


def test_a_file_that_holds_no_heads_is_wrong_usage(clean: Play, tmp_path: Path) -> None:
    (tmp_path / "heads").write_text("nonsense\n")
    assert clean("verify", "--heads", tmp_path / "heads").code == 2
    assert clean("verify", "--generation", 1).code == 2


def contradicting(folder: Path) -> Path:
    """A log in whose last answer somebody added a word, and nothing else."""
    path = example_logs.write_file(folder, "liar", 4)
    text = path.read_bytes()
    answer = [line for line in text.splitlines() if b'"type":"assistant/message"' in line][-1]
    block = json.loads(answer)["data"]["message"]["content"][0]
    said = json.dumps(block["text"], ensure_ascii=False).encode()
    changed = answer.replace(said, said[:-1] + b' now"', 1)
    path.write_bytes(text.replace(answer, changed, 1))
    return path


def test_a_message_that_its_chunks_do_not_give_exits_1_and_is_shown_from_both_sides(
    clean: Play, tmp_path: Path
) -> None:
    assert clean("import", contradicting(tmp_path / "home")).code == 0
    ran = clean("verify")
    assert ran.code == 1
    (line,) = ran.lines
    assert line.startswith("discrepancy: session liar, seq ")
    assert ": content: the message has …" in line
    assert 'now"' in line.split("its chunks give")[0]
    assert 'now"' not in line.split("its chunks give")[1]
    assert ran.err.endswith("0 errors; 0 warnings; 1 discrepancy\n")
    (found,) = clean("verify", "liar", "--json").json["discrepancies"]
    assert (found["session"], found["generation"], found["kind"]) == ("liar", 1, "content")
    assert found["recorded"] != found["derived"]
    assert clean("verify", "one").code == 0


def test_a_session_with_errors_is_not_looked_at_for_discrepancies(
    clean: Play, tmp_path: Path, store_file: Path
) -> None:
    clean("import", contradicting(tmp_path / "home"))
    change(store_file, "UPDATE segment SET body = zeroblob(length(body)) WHERE session_id = 3")
    found = clean("verify", "--json").json
    assert {entry["session"] for entry in found["errors"]} == {"liar"}
    assert found["discrepancies"] == []


def test_heads_are_written_of_a_log_that_contradicts_itself(clean: Play, tmp_path: Path) -> None:
    clean("import", contradicting(tmp_path / "home"))
    assert clean("verify", "--write-heads", tmp_path / "heads").code == 1
    assert len((tmp_path / "heads").read_text().splitlines()) == 3
