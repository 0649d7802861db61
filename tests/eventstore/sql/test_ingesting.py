"""Logs taken in: once, again, grown, cut, rewritten, branched; and given back."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import MemorySource, event_line, header
from stores import ENGINES, store_address

from playhead.eventstore.errors import CorruptLog, NotALog, ReadOnlySession
from playhead.eventstore.log import NewEvent
from playhead.eventstore.source import BytesSource
from playhead.eventstore.sql import SqlStore, artifacts, commits, open_store
from playhead.eventstore.sql.finding_list import MAX_FINDINGS
from playhead.eventstore.sql.ingesting import MAX_BRANCHES


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    with store_address(request.param, tmp_path) as address, open_store(address) as opened:
        yield opened


def lines(*seqs: int, type: str = "x/note") -> list[bytes]:
    return [event_line(seq, type, text=f"note {seq}") for seq in seqs]


def exported(store: SqlStore, session: str, generation: int | None = None) -> bytes:
    out = io.BytesIO()
    assert store.export(store.session(session, generation=generation), out).same
    return out.getvalue()


def problems(store: SqlStore) -> list[Any]:
    return [problem for problem in store.verify() if problem.severity == "error"]


def test_a_log_comes_back_bit_for_bit(store: SqlStore) -> None:
    source = MemorySource(header(), lines(*range(300)), tail=b'{"type":"torn')
    done = store.ingest(source)
    assert (done.changed, done.events, done.sessions) == (True, 300, (("s-1", 1),))
    assert exported(store, "s-1") == source.file
    assert [fact.position for fact in store.session("s-1").read()] == list(range(1, 301))
    assert problems(store) == []


def test_importing_again_adds_nothing(store: SqlStore) -> None:
    source = MemorySource(header(), lines(*range(300)))
    store.ingest(source)
    before = store.status()
    done = store.ingest(source)
    assert (done.changed, done.events, done.sessions) == (False, 0, ())
    assert store.status() == before


def test_an_imported_session_is_read_only(store: SqlStore) -> None:
    store.ingest(MemorySource(header(), lines(0)))
    with pytest.raises(ReadOnlySession):
        store.session("s-1").append([NewEvent("x/y", {})])


def test_a_rewritten_file_becomes_a_generation_and_the_old_one_stays(store: SqlStore) -> None:
    old = MemorySource(header(), lines(0, 1, 2))
    new = MemorySource(header(), [*lines(0, 1), event_line(2, "x/other"), *lines(3)])
    store.ingest(old)
    done = store.ingest(new)
    assert (done.events, done.sessions) == (4, (("s-1", 2),))
    assert exported(store, "s-1", 1) == old.file
    assert exported(store, "s-1", 2) == new.file
    assert store.session("s-1").generation == 2
    assert [(file.path, file.version, file.newest) for file in store.files()] == [
        ("s.jsonl", 1, False),
        ("s.jsonl", 2, True),
    ]
    assert problems(store) == []


def test_a_newer_format_beside_its_source_is_the_plain_session(store: SqlStore) -> None:
    store.ingest(MemorySource(header(version=4), lines(0), path="v4", dialect="dsh-v4"))
    store.ingest(MemorySource(header(version=0), lines(0, 1, 2), path="v0"))
    assert store.session("s-1").info.dialect == "dsh-v4"
    assert [info.generation for info in store.sessions(all_generations=True)] == [1, 2]


def test_a_shorter_copy_of_a_log_adds_no_events_and_comes_back_too(store: SqlStore) -> None:
    whole = MemorySource(header(), lines(*range(700)), path="whole")
    copy = MemorySource(header(), lines(*range(400)), path="copy", tail=b"torn")
    store.ingest(whole)
    done = store.ingest(copy)
    assert (done.changed, done.events, done.sessions) == (True, 0, ())
    files = {file.path: file for file in store.files()}
    for source in (whole, copy):
        out = io.BytesIO()
        assert store.export_file(files[source.path], out).same
        assert out.getvalue() == source.file
    assert exported(store, "s-1") == whole.file
    assert problems(store) == []


def test_an_empty_log_grows_and_stays_one_session(store: SqlStore) -> None:
    store.ingest(MemorySource(header(), []))
    assert store.ingest(MemorySource(header(), lines(0))).events == 1
    assert [info.generations for info in store.sessions()] == [1]
    assert problems(store) == []


def test_two_writers_give_two_generations_and_the_file_stays_whole(store: SqlStore) -> None:
    common, first, second = (
        lines(0, 1, 2),
        lines(3, 4),
        [event_line(at, "x/b", 1_790_000_000_000) for at in (3, 4, 5)],
    )
    source = MemorySource(header(), [*common, *first, *second])
    done = store.ingest(source)
    assert done.sessions == (("s-1", 1), ("s-1", 2))
    assert done.events == 3 + 2 + 6
    branch = done.findings
    assert [(finding.kind, finding.line, finding.seq) for finding in branch] == [("branch", 7, 3)]
    assert "expected seq 5, got 3" in branch[0].message
    assert "2 records before this line, 3 from it on, the later ones by time" in branch[0].message
    assert branch[0].byte == source.file.index(second[0])
    assert [*store.session("s-1", generation=1).lines()] == [*common, *first]
    assert [*store.session("s-1").lines()] == [*common, *second]
    assert exported(store, "s-1", 1) == exported(store, "s-1", 2) == source.file
    with pytest.raises(CorruptLog, match="line 7") as raised:
        list(store.session("s-1").read(strict=True))
    assert raised.value.kind == "branch"
    assert not store.ingest(source).changed
    assert problems(store) == []


def test_a_second_writer_that_comes_later_leaves_the_first_generation_alone(store: SqlStore) -> None:
    first = MemorySource(header(), lines(0, 1, 2, 3))
    store.ingest(first)
    head = store.session("s-1").info.head
    grown = MemorySource(header(), [*first.lines, *(event_line(at, "x/b") for at in (2, 3, 4))])
    done = store.ingest(grown)
    assert done.sessions == (("s-1", 2),)
    assert store.session("s-1", generation=1).info.head == head
    longer = MemorySource(header(), [*grown.lines, event_line(5, "x/b")])
    assert store.ingest(longer).events == 1
    assert exported(store, "s-1") == longer.file
    assert [file.version for file in store.files()] == [1]
    assert problems(store) == []


def test_a_torn_tail_that_was_cut_off_is_kept_as_an_older_version(store: SqlStore) -> None:
    torn = MemorySource(header(), lines(0, 1), tail=b'{"type":"half')
    repaired = MemorySource(header(), lines(0, 1, 2))
    store.ingest(torn)
    store.ingest(repaired)
    assert [file.version for file in store.files()] == [1, 2]
    out = io.BytesIO()
    assert store.export_file(store.files()[0], out).same
    assert out.getvalue() == torn.file


def test_a_torn_tail_that_was_completed_is_replaced(store: SqlStore) -> None:
    store.ingest(MemorySource(header(), lines(0), tail=lines(1)[0][:9]))
    store.ingest(MemorySource(header(), lines(0, 1)))
    assert [file.version for file in store.files()] == [1]
    assert problems(store) == []


def test_a_file_that_grew_another_way_than_its_copy_takes_its_place_and_gets_a_generation_of_its_own(
    store: SqlStore,
) -> None:
    store.ingest(MemorySource(header(), lines(0), tail=b"x", path="a.jsonl"))
    store.ingest(MemorySource(header(), lines(0, 1), path="b.jsonl"))
    mine = MemorySource(header(), [*lines(0), b"x", *lines(1, type="x/mine")], path="a.jsonl")
    assert store.ingest(mine).sessions == (("s-1", 2),)
    assert [(file.path, file.version) for file in store.files()] == [("a.jsonl", 1), ("b.jsonl", 1)]
    assert exported(store, "s-1", 2) == mine.file
    assert problems(store) == []


def test_damage_is_kept_and_reported_where_it_lies(store: SqlStore) -> None:
    source = MemorySource(header(), [*lines(0), b"", b"{oops", *lines(3, 4), b"null"])
    done = store.ingest(source)
    assert [(finding.kind, finding.line, finding.seq) for finding in done.findings] == [
        ("blank-line", 3, None),
        ("bad-json", 4, None),
        ("seq-gap", 5, 3),
        ("bad-envelope", 7, None),
    ]
    assert all(source.file[finding.byte - 1] == 10 for finding in done.findings if finding.byte)
    session = store.session("s-1")
    assert [fact.seq for fact in session.read()] == [0, 3, 4]
    assert [fact.position for fact in session.read()] == [1, 2, 3]
    assert session.info.findings == done.findings
    with pytest.raises(CorruptLog, match=r"line 3 \(byte .*2 whole records behind it"):
        session.read(strict=True)
    assert exported(store, "s-1") == source.file
    assert problems(store) == []


def test_damage_that_was_known_before_is_still_known_when_the_log_has_grown(store: SqlStore) -> None:
    start = [*lines(0), b"{oops", *lines(3)]
    store.ingest(MemorySource(header(), start))
    for more in ([], lines(4), [b"null"], lines(7)):
        start += more
        grown = store.ingest(MemorySource(header(), start))
        assert store.session("s-1").info.findings == grown.findings
    with open_store("sqlite://") as other:
        assert other.ingest(MemorySource(header(), start)).findings == grown.findings
    assert [finding.line for finding in grown.findings] == [3, 4, 6, 7]


def test_a_log_of_garbage_keeps_the_first_findings_and_counts_the_others(store: SqlStore) -> None:
    found = store.ingest(MemorySource(header(), [b"?"] * (MAX_FINDINGS + 234))).findings
    assert len(found) == MAX_FINDINGS + 1
    assert found[-1].message == "234 more findings of this log are not listed"


def test_a_log_of_too_many_branches_is_refused_and_leaves_nothing(store: SqlStore) -> None:
    source = MemorySource(header(), lines(*[0] * (MAX_BRANCHES + 1)))
    with pytest.raises(NotALog, match="runs back 1000 times in 1001 lines") as refusal:
        store.ingest(source)
    assert refusal.value.kind == "too-many-branches"
    assert store.sessions() == []
    assert problems(store) == []


def test_files_that_are_no_log_are_kept_as_bytes(store: SqlStore) -> None:
    noise = bytes(range(256)) * 9000
    source = BytesSource("/logs", "noise.bin", "bytes", io.BytesIO(noise))
    assert store.archive(source).changed
    assert not store.archive(source).changed
    out = io.BytesIO()
    assert store.export_file(store.files()[0], out).same
    assert out.getvalue() == noise
    changed = BytesSource("/logs", "noise.bin", "bytes", io.BytesIO(noise[:-1]))
    assert store.archive(changed).changed
    assert [(file.version, file.size_bytes) for file in store.files()] == [
        (1, len(noise)),
        (2, len(noise) - 1),
    ]
    assert problems(store) == []


def test_sealing_at_any_cut_leaves_reads_and_heads_as_they_were(store: SqlStore) -> None:
    session = store.create(header("native"))
    for at in range(40):
        session.append([NewEvent("x/note", {"n": at}), NewEvent("x/note", {"n": -at})])
        if at % 7 == 3:
            before = (session.info, list(session.read()), list(store.read_all()))
            session.seal()
            assert (session.info, list(session.read()), list(store.read_all())) == before
    assert problems(store) == []
    assert exported(store, "native") == header("native").line() + b"\n" + b"".join(
        line + b"\n" for line in session.lines()
    )


def test_a_native_session_that_was_exported_and_imported_is_the_same_session(store: SqlStore) -> None:
    session = store.create(header("native"))
    session.append([NewEvent("x/note", {"n": 1}), NewEvent("x/note", {"n": 2})])
    source = MemorySource(header("native"), list(session.lines()), dialect="native")
    assert store.ingest(source).events == 0
    grown = MemorySource(header("native"), [*session.lines(), event_line(2)], dialect="native", path="grown")
    assert store.ingest(grown).sessions == (("native", 2),)
    assert store.session("native", generation=1).next_seq == 2


def test_many_appends_are_sealed_by_themselves(store: SqlStore) -> None:
    session = store.create(header("native"))
    for _ in range(5):
        session.append([NewEvent("x/note", {"n": at}) for at in range(1000)])
    status = store.status()
    assert (status["lines"], status["segments"], status["unsealed_lines"]) == (5000, 1, 0)
    assert [fact.json["n"] for fact in session.read(4998)] == [998, 999]


def test_positions_tell_no_gap_when_sessions_alternate(store: SqlStore) -> None:
    one, two = store.create(header("one")), store.create(header("two"))
    for at in range(30):
        (one if at % 3 else two).append([NewEvent("x/note", {"n": at})])
    one.seal()
    facts = list(store.read_all())
    assert [fact.json["n"] for fact in facts] == list(range(30))
    assert [fact.position for fact in facts] == list(range(1, 31))


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Lines of a log, a few of them damaged, skipping ahead, or running back."""
    made: list[bytes] = []
    seq = 0
    for at in range(draw(st.integers(0, 30))):
        kind = draw(st.sampled_from(["event"] * 12 + ["broken", "gap", "back", "row"]))
        if kind == "broken":
            made.append(
                draw(st.sampled_from([b"", b"{", b"null", b'"x"', b"\xff\xfe", b'{"type":"x","seq":-1}']))
            )
            continue
        if kind == "gap":
            seq += draw(st.integers(1, 3))
        elif kind == "back" and seq:
            seq -= draw(st.integers(1, seq))
        if kind == "row":
            made.append(
                b'{"type":"text-chunks","seq0":%d,"time0":%d,"data":{"turn":1,"step":1,"index":0,"dt":[1,-1],'
                b'"texts":["a","\\ud83d","\\ude00"]}}' % (seq, at)
            )
            seq += 3
            continue
        made.append(event_line(seq, draw(st.sampled_from(["x/a", "x/b"])), at, n=at))
        seq += 1
    return made


@given(
    log=logs(),
    cuts=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=4),
    tail=st.binary(max_size=5),
)
@settings(max_examples=60)
def test_growing_step_by_step_gives_what_importing_the_whole_gives(
    log: list[bytes], cuts: list[tuple[int, bool]], tail: bytes
) -> None:
    tail = tail.replace(b"\n", b"")
    whole = MemorySource(header(), log, tail=tail, block_lines=3)
    with open_store("sqlite://") as at_once, open_store("sqlite://") as by_steps:
        at_once.ingest(whole)
        for cut, torn in sorted(cuts):
            rest = log[cut][:4] if torn and cut < len(log) else b""
            by_steps.ingest(MemorySource(header(), log[:cut], tail=rest, block_lines=5))
        by_steps.ingest(whole)
        assert not by_steps.ingest(whole).changed
        one, two = (store.sessions(all_generations=True) for store in (at_once, by_steps))
        assert [(info.generation, info.head, info.next_seq) for info in one] == [
            (info.generation, info.head, info.next_seq) for info in two
        ]
        for info in one:
            first, second = (
                store.session("s-1", generation=info.generation) for store in (at_once, by_steps)
            )
            assert list(first.lines()) == list(second.lines())
            facts, other = list(first.read()), list(second.read())
            assert [fact._key()[:2] + fact._key()[3:] for fact in facts] == [
                fact._key()[:2] + fact._key()[3:] for fact in other
            ]
            seqs = [fact.seq for fact in facts]
            assert seqs == sorted(set(seqs))
            assert exported(by_steps, "s-1", info.generation) == whole.file
        assert problems(at_once) == problems(by_steps) == []
        assert [fact.position for fact in by_steps.read_all()] == list(range(1, by_steps.position + 1))


def test_a_store_file_holds_what_was_committed_after_reopening(tmp_path: Path) -> None:
    address = str(tmp_path / "store.sqlite")
    source = MemorySource(header(), lines(*range(10)))
    with open_store(address) as store:
        store.ingest(source)
        head = store.session("s-1").info.head
    with open_store(address, create=False) as store:
        assert store.session("s-1").info.head == head
        assert exported(store, "s-1") == source.file


def test_a_store_can_lie_in_a_folder_that_is_not_there_yet() -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/a/b/store.sqlite") as store:
        assert store.position == 0


def test_an_append_that_was_rolled_back_leaves_no_number_of_a_type_behind(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create(header())
    with monkeypatch.context() as broken:
        broken.setattr(commits, "place", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.append([NewEvent("x/new", {})])
    session.append([NewEvent("x/new", {})])
    assert [fact.type for fact in session.read()] == ["x/new"]
    assert problems(store) == []


def test_a_file_that_another_importer_kept_in_the_same_moment_is_found_on_the_second_try(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = BytesSource("/logs", "noise", "bytes", io.BytesIO(b"noise"))
    assert store.archive(noise).changed
    look = artifacts.latest
    blind = iter([True])
    monkeypatch.setattr(artifacts, "latest", lambda *at: None if next(blind, False) else look(*at))
    assert not store.archive(noise).changed
    assert [file.path for file in store.files()] == ["noise"]
    assert problems(store) == []


def test_a_branch_that_leaves_out_seqs_behind_what_it_shares_says_so(store: SqlStore) -> None:
    row = (
        b'{"type":"text-chunks","seq0":1,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[1,1],'
        b'"texts":["a","b","c"]}}'
    )
    source = MemorySource(header(), [*lines(0), row, event_line(3, "x/b"), event_line(4, "x/b")])
    done = store.ingest(source)
    assert [(finding.kind, finding.line) for finding in done.findings] == [("branch", 4), ("seq-gap", 4)]
    assert done.findings[1].message == "expected seq 1, got 3"
    assert [fact.seq for fact in store.session("s-1").read()] == [0, 3, 4]
    assert exported(store, "s-1") == source.file
    assert problems(store) == []
