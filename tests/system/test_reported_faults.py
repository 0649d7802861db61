"""Faults that people reported of other tools: each reproduced from its files, each handled as it must be."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from reference import needs_shared, shared_path

import playhead
from playhead.adapters.dsh.importer import Report, import_paths
from playhead.adapters.dsh.strict import read_strict
from playhead.eventstore import chunk_rows, envelope, json_text, repair, zstd_frames
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.chunks import decode_chunk
from playhead.eventstore.errors import CorruptLog, NotLosslessJson, ReadOnlySession, UnknownEventType
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import SqlStore
from playhead.eventstore.sql.sql_session import SqlSession

pytestmark = needs_shared


def case(name: str, file: str) -> Path:
    return shared_path(f"cases/{name}/{file}")


def expected(name: str) -> dict[str, Any]:
    return json_text.parse(case(name, "expected.json").read_bytes())


@contextmanager
def imported(*paths: Path) -> Iterator[tuple[SqlStore, Report]]:
    with playhead.open_store("sqlite://") as store:
        yield store, import_paths(store, paths)


@contextmanager
def session_of(path: Path) -> Iterator[SqlSession]:
    with imported(path) as (store, _):
        yield store.session(store.sessions()[0].id)


def exported(store: SqlStore, session: SqlSession) -> bytes:
    out = io.BytesIO()
    assert store.export(session, out).same
    return out.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_events(lines: list[bytes]) -> list[NewEvent]:
    return [
        NewEvent(fact.type, fact.json, fact.time_ms, fact.surface_op, fact.source_seqs, fact.ignorable)
        for line in lines
        for fact in envelope.facts(line, SessionId("copied"))
    ]


# 01: a torn tail, and the session goes on


def test_01_reading_tells_the_torn_tail_and_leaves_the_file_alone() -> None:
    want = expected("01-torn-tail-then-append")
    path = case("01-torn-tail-then-append", "log.jsonl")
    with imported(path) as (store, report):
        session = store.session(store.sessions()[0].id)
        assert len(list(session.read())) == want["events_read"]
        torn = report.damaged[0].finding
        assert (torn.kind, torn.byte, torn.size_bytes) == (
            "torn-tail",
            want["committed_bytes"],
            want["torn_bytes"],
        )
        assert sha256(exported(store, session)) == want["sha256_input"]
    assert sha256(path.read_bytes()) == want["sha256_input"]


def test_01_repair_drops_the_fragment_closes_the_turn_and_is_done_once() -> None:
    want = expected("01-torn-tail-then-append")
    repaired = repair.repaired(case("01-torn-tail-then-append", "log.jsonl").read_bytes())
    assert repaired == case("01-torn-tail-then-append", "expected-repaired.jsonl").read_bytes()
    assert sha256(repaired) == want["sha256_repaired"]
    assert repair.repaired(repaired) == repaired


def test_01_a_session_goes_on_from_the_repaired_log_with_whole_lines(tmp_path: Path) -> None:
    want = expected("01-torn-tail-then-append")
    repaired = repair.repaired(case("01-torn-tail-then-append", "log.jsonl").read_bytes())
    (tmp_path / "repaired.jsonl").write_bytes(repaired)
    more = [
        json_text.parse(line)
        for line in case("01-torn-tail-then-append", "append.jsonl").read_bytes().splitlines()
    ]
    with imported(tmp_path / "repaired.jsonl") as (store, report):
        assert report.clean
        old = store.session(store.sessions()[0].id)
        with pytest.raises(ReadOnlySession):
            old.append([NewEvent(event["type"], event["data"]) for event in more])
        session = store.create(SessionHeader(SessionId("goes-on"), 1))
        session.append(as_events(list(old.lines())))
        done = session.append(
            [NewEvent(event["type"], event["data"], surface_op=event.get("surfaceOp")) for event in more],
            expected_seq=want["events_after_repair"],
        )
        assert (done.from_seq, done.to_seq) == (20, want["events_after_append"])
        assert [json_text.parse(line)["seq"] for line in session.lines()] == list(range(22))


# 02: half a record and a whole one on one line


def test_02_strict_reading_refuses_with_place_and_what_lies_behind() -> None:
    want = expected("02-two-records-on-one-line")
    path = case("02-two-records-on-one-line", "log.jsonl")
    with session_of(path) as session, pytest.raises(CorruptLog, match="13 whole records") as raised:
        session.read(strict=True)
    assert (raised.value.line, raised.value.byte) == (want["bad_physical_line"], want["bad_byte_offset"])
    with pytest.raises(CorruptLog) as raised:
        read_strict(path)
    assert (raised.value.line, raised.value.byte) == (want["bad_physical_line"], want["bad_byte_offset"])
    assert sha256(path.read_bytes()) == want["sha256_input"]


def test_02_lenient_reading_saves_the_whole_record_and_says_what_is_lost() -> None:
    with imported(case("02-two-records-on-one-line", "log.jsonl")) as (store, report):
        session = store.session(store.sessions()[0].id)
        facts = list(session.read())
        assert [fact.seq for fact in facts] == [*range(7), *range(8, 22)]
        assert facts[6].json["chunk"]["text"] == "There are 12 files."
        kinds = {problem.finding.kind: problem.finding for problem in report.damaged}
        assert kinds["two-records-on-one-line"].line == 9
        assert "expected seq 7, got 8" in kinds["seq-gap"].message


# 03: two writers


def test_03_strict_reading_says_that_the_numbering_ran_back() -> None:
    want = expected("03-two-writers-one-log")
    with session_of(case("03-two-writers-one-log", "log.jsonl")) as session:
        with pytest.raises(
            CorruptLog, match="ran back: expected seq 11, got 7, so a second writer"
        ) as raised:
            session.read(strict=True)
        assert raised.value.line == want["bad_physical_line"]
        with pytest.raises(ReadOnlySession):
            session.append([NewEvent("x/y", {})])


def test_03_each_branch_is_a_whole_generation_and_never_a_mix() -> None:
    want = expected("03-two-writers-one-log")
    path = case("03-two-writers-one-log", "log.jsonl")
    with imported(path) as (store, report):
        [branch] = [problem.finding for problem in report.damaged]
        assert branch.kind == "branch"
        assert "4 records before this line, 10 from it on, the later ones by time" in branch.message
        name = store.sessions()[0].id
        for generation, key, result in (
            (1, "branch_A", None),
            (2, "branch_B", want["branch_B"]["tool_result"]),
        ):
            session = store.session(name, generation=generation)
            facts = list(session.read())
            assert [fact.seq for fact in facts] == list(range(want[key]["events_total"]))
            ends = [fact.json["reason"]["kind"] for fact in facts if fact.type == "turn/end"]
            assert ends[-1] == want[key]["turn_end"]
            results = [fact for fact in facts if fact.type == "tool/result"]
            assert [fact.json["message"]["source"]["callId"] for fact in results].count("c-1") == 1
            if result:
                assert results[0].json["message"]["content"][0]["content"][0]["text"] == result
            assert exported(store, session) == path.read_bytes()
        assert store.session(name).generation == 2


# 04, 05: compressed logs are many frames


@pytest.mark.parametrize("name", ["04-zstd-many-frames", "05-frame-magic-inside-a-frame"])
def test_04_05_all_frames_are_found_and_nothing_is_called_damage(name: str) -> None:
    want = expected(name)
    path = case(name, "session.jsonl.zstd")
    plain = case(name, "plain.jsonl").read_bytes()
    assert sha256(plain) == want["sha256_plain"]
    spans = list(zstd_frames.FrameWalk(path.read_bytes()))
    assert len(spans) == want["frames"]
    if "frame_starts" in want:
        assert [span.start for span in spans] == want["frame_starts"]
    with imported(path) as (store, report):
        assert report.clean
        session = store.session(store.sessions()[0].id)
        assert session.header_line + b"\n" + b"".join(session.blocks()) == plain
        assert len(list(session.read())) == want["events"]
        assert exported(store, session) == path.read_bytes()
        assert list(store.verify()) == []


def test_04_a_packed_row_gives_its_members_with_their_times() -> None:
    want = expected("04-zstd-many-frames")
    with session_of(case("04-zstd-many-frames", "session.jsonl.zstd")) as session:
        assert session.info.lines + 1 == want["rows"] + 1
        facts = list(session.read(6, 11))
        assert [fact.json["chunk"]["text"] for fact in facts] == want["row_members"]
        assert [fact.time_ms for fact in facts] == want["row_times"]
        text = "".join(fact.json["chunk"]["text"] for fact in facts)
        assert text == want["assistant_text"]


def test_05_a_file_cut_after_any_whole_frame_is_a_clean_log(tmp_path: Path) -> None:
    name = "05-frame-magic-inside-a-frame"
    data = case(name, "session.jsonl.zstd").read_bytes()
    for number, end in enumerate([*expected(name)["frame_starts"][1:], len(data)]):
        path = tmp_path / f"cut{number}.jsonl.zstd"
        path.write_bytes(data[:end])
        with imported(path) as (_, report):
            assert report.clean
            assert report.imported == 1


# 06, 07, 08: text and numbers


def test_06_unicode_line_separators_end_no_line() -> None:
    want = expected("06-unicode-line-separators")
    path = case("06-unicode-line-separators", "log.jsonl")
    with imported(path) as (store, report):
        assert report.clean
        session = store.session(store.sessions()[0].id)
        facts = list(session.read())
        assert len(facts) == want["events"]
        prompt = next(fact for fact in facts if fact.type == "user/message")
        assert prompt.json["content"][0]["text"] == want["prompt_text"]
        assert assembled(facts) == want["assistant_text"]
        assert exported(store, session) == path.read_bytes()
        assert all(json_text.parse(json_text.dumps(fact.envelope())) == fact.envelope() for fact in facts)


def assembled(facts: list[Any]) -> str:
    """The text that the chunks among the facts give."""
    chunks = [decode_chunk(fact.json["chunk"]) for fact in facts if fact.type == chunk_rows.EVENT_TYPE]
    return "".join(block.text for block in BlockAssembler(chunks).blocks() if isinstance(block, TextBlock))


def test_07_halves_of_surrogate_pairs_survive_and_meet() -> None:
    want = expected("07-half-a-surrogate-pair")
    path = case("07-half-a-surrogate-pair", "log.jsonl")
    with imported(path) as (store, report):
        assert report.clean
        session = store.session(store.sessions()[0].id)
        facts = list(session.read())
        assert len(facts) == want["events"]
        text = assembled(facts)
        assert len(text) == want["assistant_text_code_points"]
        assert text.encode().hex() == want["assistant_text_utf8_hex"]
        result = next(fact for fact in facts if fact.type == "tool/result")
        found = result.json["message"]["content"][0]["content"][0]["text"]
        assert json_text.dumps(found).decode() == want["tool_result_text_json"]
        row = next(line for line in session.lines() if b"text-chunks" in line)
        assert json_text.dumps(json_text.parse(row)) == row
        [packed] = chunk_rows.pack(chunk_rows.unpack(json_text.parse(row)))
        assert json_text.dumps(packed) == row
        assert sha256(exported(store, session)) == want["sha256"]


def test_08_numbers_and_keys_stay_as_they_were_written() -> None:
    want = expected("08-numbers-and-key-order")
    path = case("08-numbers-and-key-order", "log.jsonl")
    with imported(path) as (store, _):
        session = store.session(store.sessions()[0].id)
        facts = list(session.read())
        assert len(facts) == want["events"]
        meta = facts[7].json["meta"]
        assert str(meta["id"]) == want["meta_id"]
        assert list(meta) == want["meta_keys"]
        assert facts[6].json["arguments"] == want["arguments"]
        assert sha256(exported(store, session)) == want["sha256"]
        assert b"1e400" in facts[7].raw
        with pytest.raises(NotLosslessJson):
            store.create(SessionHeader(SessionId("new"), 1)).append([NewEvent("x/y", meta)])


# 09: one bad file takes nothing down


def test_09_every_file_is_judged_by_itself_and_nothing_is_changed(tmp_path: Path) -> None:
    shutil.copytree(case("09-one-bad-file-in-the-store", "store"), tmp_path / "store")
    hashes = {path: sha256(path.read_bytes()) for path in (tmp_path / "store").rglob("*") if path.is_file()}
    want = expected("09-one-bad-file-in-the-store")
    with imported(tmp_path / "store") as (store, report):
        assert report.files == want["artifacts"]
        events = {info.id: info.events for info in store.sessions()}
        assert events == {**want["ok"], **want["readable_with_note"]}
        refused = {Path(problem.path).parent.name: problem.finding for problem in report.refused}
        assert {name: finding.kind for name, finding in refused.items()} == {
            "empty-1": "no-header",
            "noise-1": "bad-magic",
            "copy-1": "id-mismatch",
        }
        assert refused["noise-1"].byte == 0
        assert {problem.finding.kind for problem in report.notes if "bom-1" in problem.path} == {
            "bom",
            "crlf",
        }
        assert not report.clean
        head = store.session("good-1").info.head
        again = import_paths(store, [tmp_path / "store"])
        assert (again.imported, again.events, len(again.refused)) == (0, 0, 3)
        assert store.session("good-1").info.head == head
        for file in store.files():
            out = io.BytesIO()
            assert store.export_file(file, out).same
            assert out.getvalue() == (tmp_path / "store" / file.path).read_bytes()
    assert {path: sha256(path.read_bytes()) for path in hashes} == hashes


# 21: events that nobody knows


@pytest.mark.parametrize("file", ["ignorable.jsonl", "required.jsonl", "false.jsonl"])
def test_21_unknown_events_are_kept_in_their_place(file: str) -> None:
    want = expected("21-unknown-event-type")
    path = case("21-unknown-event-type", file)
    with imported(path) as (store, _):
        session = store.session(store.sessions()[0].id)
        facts = list(session.read())
        assert [fact.seq for fact in facts] == list(range(want["events"]))
        unknown = facts[want["unknown_seq"]]
        assert unknown.type == "x-demo/search-usage"
        assert unknown.ignorable is (file == "ignorable.jsonl")
        assert unknown.data.tag == unknown.type
        assert exported(store, session) == path.read_bytes()
        assert [problem for problem in store.verify() if problem.severity == "error"] == []


@pytest.mark.parametrize("file", ["required.jsonl", "false.jsonl"])
def test_21_strict_reading_refuses_what_may_matter(file: str) -> None:
    with pytest.raises(UnknownEventType, match="seq 5: unknown event type 'x-demo/search-usage'"):
        read_strict(case("21-unknown-event-type", file))
    assert read_strict(case("21-unknown-event-type", "ignorable.jsonl")).facts[5].ignorable
