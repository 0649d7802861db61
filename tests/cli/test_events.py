from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import example_logs
import pytest
from cli_runner import Play

import playhead
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent


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


# Searching, placing, tracing


def test_events_are_found_by_their_text_whatever_its_case_and_blanks(full: Play) -> None:
    whole = full("events", "plain-v0").rows
    found = full("events", "plain-v0", "--text", "PLAN.md").rows
    assert found
    assert all("plan.md" in row[3].lower() for row in found)
    assert not [row for row in found if row[2] == "assistant/chunk"]
    assert len(found) < len(whole)
    assert full("events", "plain-v0", "--text", "no such words").rows == []
    assert full("events", "plain-v0", "--text", "  ").code == 2


def test_the_same_events_are_found_in_every_format(full: Play) -> None:
    def types(name: str) -> list[str]:
        return [row[2] for row in full("events", name, "--text", "plan.md").rows]

    assert types("plain-v0") == types("packed-v0") == types("packed-v1") == types("compressed-v4")


def test_a_person_sees_the_place_of_a_text(full: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playhead.cli.output.on_terminal", lambda: True)
    for line in full("events", "plain-v0", "--text", "plan.md").lines:
        assert "plan.md" in line
        assert len(line) <= 100


def test_every_event_stands_in_one_place(full: Play) -> None:
    places = {place: seqs(full("events", "plain-v0", "--surface", place).rows) for place in PLACES}
    assert sorted(seq for found in places.values() for seq in found) == list(range(33))
    surface = {row[2] for row in full("events", "plain-v0", "--surface", "current").rows}
    assert surface == {"user/message", "assistant/message", "tool/result"}


PLACES = ("current", "shadowed", "log-only")


@pytest.fixture
def replaced(tmp_path: Path) -> Path:
    """A log in which two messages gave way to a third, and that to a fourth."""
    message = {
        "id": "m",
        "role": "user",
        "content": [{"type": "text", "text": "x"}],
        "source": {"kind": "user"},
    }

    def event(seq: int, op: object, sources: list[int] | None = None) -> dict[str, object]:
        told = {"type": "user/message", "seq": seq, "time": 1000 * seq, "data": message, "surfaceOp": op}
        return told if sources is None else told | {"sourceEventSeqs": sources}

    events = [
        event(0, "append"),
        event(1, "append"),
        event(2, {"op": "replace", "start": 0, "end": 1}, [0, 1]),
        event(3, {"op": "replace", "start": 2, "end": 2}, [2]),
    ]
    log = tmp_path / "replaced.jsonl"
    lines = [example_logs.header("replaced").line(), *(json.dumps(told).encode() for told in events)]
    log.write_bytes(b"\n".join(lines) + b"\n")
    return log


def test_replaced_events_are_shadowed(play: Play, replaced: Path) -> None:
    assert seqs(play("events", replaced, "--surface", "shadowed").rows) == [0, 1, 2]
    assert seqs(play("events", replaced, "--surface", "current").rows) == [3]
    assert len(play("events", replaced, "--surface", "current", "--raw").lines) == 1


def test_a_trace_tells_where_an_event_stands_and_why(play: Play, replaced: Path) -> None:
    assert play("events", replaced, "--trace", 0, "--json").json == {
        "seq": 0,
        "type": "user/message",
        "time": 0,
        "surface": "shadowed",
        "replacedBy": 2,
        "replacementChain": [2, 3],
        "replacedEventSeqs": [],
        "sourceEventSeqs": [],
        "derivedEventSeqs": [2],
    }
    lines = play("events", replaced, "--trace", 2).lines
    assert lines[1:] == [
        "placement    shadowed",
        "replaced by  3",
        "replaces     0-1",
        "sources      0-1",
        "cited by     3",
    ]
    assert play("events", replaced, "--trace", 9).code == 2


def test_a_token_delta_is_traced_to_the_message_that_it_became(full: Play) -> None:
    deltas = [int(row[0]) for row in full("events", "packed-v0", "--type", "assistant/chunk").rows]
    trace = full("events", "packed-v0", "--trace", deltas[3], "--json").json
    assert trace["surface"] == "log-only"
    (message,) = trace["derivedEventSeqs"]
    assert (
        full("events", "packed-v0", "--from", message, "--to", message + 1).rows[0][2] == "assistant/message"
    )


def test_times_are_inclusive_and_a_day_counts_to_its_end(play: Play, replaced: Path) -> None:
    def between(*words: str) -> list[int]:
        return seqs(play("events", replaced, *words).rows)

    assert between("--since", "1970-01-01T00:00:01Z", "--until", "1970-01-01T00:00:02+00:00") == [1, 2]
    assert between("--since", "1969-12-30", "--until", "1970-01-02") == [0, 1, 2, 3]
    assert between("--until", "1969-12-30") == []
    assert between("--since", "1780000000000") == []
    assert play("events", replaced, "--since", "yesterday").code == 2


@pytest.mark.parametrize(
    "words", [["--type", "x"], ["--raw"], ["--logical"], ["--text", "x"], ["--from", "1"]]
)
def test_a_trace_is_about_one_event(full: Play, words: list[str]) -> None:
    assert full("events", "plain-v0", "--trace", "1", *words).code == 2


def test_placing_events_of_a_log_with_unknown_ones_says_that_it_may_be_wrong(
    play: Play, unknown_log: Path
) -> None:
    for words in (["--surface", "log-only"], ["--trace", "0"]):
        ran = play("events", unknown_log, *words)
        assert ran.code == 1
        assert "interpretation incomplete" in ran.err


def test_following_shows_what_is_there_and_then_what_comes_until_it_is_stopped(tmp_path: Path) -> None:
    address = tmp_path / "store.sqlite"
    with playhead.open_store(str(address)) as store:
        session = store.create(SessionHeader(SessionId("live"), 1))
        session.append([NewEvent("feedback/record", {"text": "old"}, 1)])
        command = [sys.executable, "-m", "playhead.cli.main", "events", "live", "--follow", "--json"]
        child = subprocess.Popen(
            [*command, "--store", str(address)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["data"] == {"text": "old"}
        session.append([NewEvent("feedback/record", {"text": "new"}, 2)])
        assert json.loads(child.stdout.readline())["data"] == {"text": "new"}
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
        assert child.communicate()[1] == "playhead: stopped\n"


def test_following_goes_with_no_other_selection(full: Play) -> None:
    ran = full("events", "plain-v0", "--follow", "--text", "x")
    assert (ran.code, "--follow goes with" in ran.err) == (2, True)
