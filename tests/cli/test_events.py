from __future__ import annotations

import json
from pathlib import Path

import example_logs
import pytest
from cli_runner import Play


def seqs(rows: list[list[str]]) -> list[int]:
    return [int(row[0]) for row in rows]


@pytest.mark.parametrize("name", ["plain-v0", "packed-v0", "packed-v1", "database-15", "database-17"])
def test_every_event_is_shown_once_however_it_was_packed(full: Play, name: str) -> None:
    ran = full("events", name)
    assert ran.code == 0
    assert seqs(ran.rows) == list(range(33))


def test_a_row_tells_seq_time_type_and_data(full: Play) -> None:
    seq, _time, type, data = full("events", "packed-v0", "--type", "turn/end").rows[0]
    assert (seq, type, json.loads(data)) == ("32", "turn/end", {"turn": 1, "reason": {"kind": "completed"}})


def test_a_range_is_half_open_and_types_can_be_repeated(full: Play) -> None:
    assert seqs(full("events", "packed-v0", "--from", 3, "--to", 6).rows) == [3, 4, 5]
    chosen = full("events", "packed-v0", "--type", "turn/start", "--type", "turn/end").rows
    assert [row[2] for row in chosen] == ["turn/start", "turn/end"]


def test_raw_gives_the_stored_lines_verbatim(full: Play, home: Path) -> None:
    file = next(home.rglob("packed-v1/*")).read_bytes()
    assert full("events", "packed-v1", "--raw").out == file.partition(b"\n")[2]


def test_raw_gives_the_whole_row_that_a_range_touches(full: Play) -> None:
    lines = full("events", "packed-v0", "--raw", "--from", 21, "--to", 22).json_lines
    assert [line["type"] for line in lines] == ["text-chunks"]
    assert full("events", "packed-v0", "--raw", "--type", "tool/call").json_lines[0]["type"] == "tool/call"


def test_json_gives_the_whole_envelope(full: Play) -> None:
    found = full("events", "plain-v0", "--json", "--type", "tool/result").json_lines
    (written,) = [fact for batch in example_logs.batches() for fact in batch if fact.type == "tool/result"]
    assert isinstance(found[0].pop("position"), int)
    assert found == [written.envelope()]


def test_json_keeps_the_stored_spelling_of_numbers(play: Play, tmp_path: Path) -> None:
    log = tmp_path / "numbers.jsonl"
    head = example_logs.header("numbers").line()
    log.write_bytes(head + b'\n{"type":"x/y","seq":0,"time":1,"data":[1e400,1.0,12345678901234567890]}\n')
    assert b'"data":[1e400,1.0,12345678901234567890]}' in play("events", log, "--json").out


def test_logical_events_have_the_present_vocabulary(full: Play) -> None:
    (stored,) = full("events", "compressed-v4", "--json", "--type", "tool/result").json_lines
    (logical,) = full("events", "compressed-v4", "--json", "--logical", "--type", "tool/result").json_lines
    assert stored["data"]["message"]["role"] == "tool"
    assert logical["data"]["message"]["role"] == "user"
    assert logical["seq"] == stored["seq"]


def test_damage_is_told_first_then_everything_that_can_be_read_is_shown(full: Play) -> None:
    ran = full("events", "torn-v0")
    assert ran.code == 1
    assert ran.err.startswith("playhead: torn-v0: damaged: ")
    assert seqs(ran.rows) == list(range(32))
    first, *events = full("events", "torn-v0", "--json").json_lines
    assert [finding["kind"] for finding in first["damaged"]] == ["torn-tail"]
    assert len(events) == 32


@pytest.mark.parametrize("form", [[], ["--raw"], ["--json"], ["--logical"]])
def test_strict_shows_nothing_of_a_damaged_log(full: Play, form: list[str]) -> None:
    ran = full("events", "torn-v0", "--strict", *form)
    assert (ran.code, ran.out) == (1, b"")
    assert "line 26" in ran.err


def test_strict_shows_a_sound_log(full: Play) -> None:
    assert full("events", "plain-v0", "--strict").code == 0


def test_a_unique_prefix_is_enough(full: Play) -> None:
    assert full("events", "torn").out == full("events", "torn-v0").out


def test_an_ambiguous_prefix_names_the_candidates(full: Play) -> None:
    ran = full("events", "packed")
    assert ran.code == 2
    assert "packed-v0, packed-v1" in ran.err


def test_an_unknown_session_is_wrong_usage(full: Play) -> None:
    ran = full("events", "nobody")
    assert ran.code == 2
    assert "nobody" in ran.err


def test_a_log_file_needs_no_store(play: Play, home: Path, store_file: Path) -> None:
    ran = play("events", next(home.rglob("compressed-v4/*")))
    assert ran.code == 0
    assert seqs(ran.rows) == list(range(16))
    assert not store_file.exists()


def test_a_file_that_is_no_log_exits_1_with_its_reason(play: Play, tmp_path: Path) -> None:
    noise = tmp_path / "noise.jsonl"
    noise.write_bytes(b"no log\n")
    ran = play("events", noise)
    assert ran.code == 1
    assert f"{noise}: the first line is not a session header" in ran.err


def test_a_missing_file_says_so(full: Play) -> None:
    ran = full("events", "./nowhere.jsonl")
    assert ran.code == 2
    assert "no such file" in ran.err


def test_a_generation_can_be_named(full: Play, home: Path) -> None:
    rewritten = next(home.rglob("plain-v0/*"))
    rewritten.write_bytes(rewritten.read_bytes().replace(b"plan.md", b"PLAN.md"))
    full("import", rewritten)
    assert b"PLAN.md" in full("events", "plain-v0").out
    assert b"PLAN.md" not in full("events", "plain-v0", "--generation", 1).out
    assert full("events", "plain-v0", "--generation", 3).code == 2


@pytest.mark.parametrize(
    "words", [["--raw", "--json"], ["--raw", "--logical"], ["--from", "5", "--to", "4"], ["--from", "-1"]]
)
def test_options_that_contradict_each_other_are_wrong_usage(full: Play, words: list[str]) -> None:
    ran = full("events", "plain-v0", *words)
    assert (ran.code, ran.out) == (2, b"")


@pytest.fixture
def unknown_log(tmp_path: Path) -> Path:
    """A log with an unknown event at seq 1 that is not marked ignorable, and one at seq 2 that is."""
    log = tmp_path / "unknown.jsonl"
    lines = (
        example_logs.header("unknown").line(),
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}',
        b'{"type":"x/required","seq":1,"time":1,"data":{}}',
        b'{"type":"x/note","seq":2,"time":1,"data":{},"ignorable":true}',
    )
    log.write_bytes(b"\n".join(lines) + b"\n")
    return log


def test_an_unknown_required_event_makes_an_interpretation_incomplete(play: Play, unknown_log: Path) -> None:
    ran = play("events", unknown_log, "--logical")
    assert ran.code == 1
    assert ran.err == (
        "playhead: unknown: interpretation incomplete: unknown event type x/required, first at seq 1\n"
    )
    assert seqs(ran.rows) == [0, 1, 2]


def test_strict_refuses_to_interpret_an_unknown_required_event(play: Play, unknown_log: Path) -> None:
    ran = play("events", unknown_log, "--logical", "--strict")
    assert (ran.code, ran.out) == (1, b"")
    assert "x/required" in ran.err


def test_an_unknown_event_that_the_user_vouches_for_is_passed_over(play: Play, unknown_log: Path) -> None:
    ran = play("events", unknown_log, "--logical", "--strict", "--ignorable", "x/required")
    assert (ran.code, ran.err) == (0, "")
    assert seqs(ran.rows) == [0, 1, 2]


def test_stored_lines_are_shown_whatever_their_types(play: Play, unknown_log: Path) -> None:
    for form in ([], ["--json"], ["--raw"], ["--strict"]):
        assert play("events", unknown_log, *form).code == 0
    assert play("events", unknown_log, "--ignorable", "x/required").code == 2
