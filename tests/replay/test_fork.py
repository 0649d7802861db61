"""Forks of sessions of every format: what they hold, where they may be made, and what folds make of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from driver_model import Played, playing
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import cases, shared_path
from session_logs import decoded, recorded, sessions
from twin_rows import OF_CHUNKS, PROJECTIONS, assert_alike, rows
from twins import Log, recorded_logs

import playhead
from playhead.adapters.dsh.acceptance import refusal
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore.errors import CorruptLog, SessionExists
from playhead.eventstore.fork import InvalidBoundary, OpenTurn
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent, Session, Store
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import SqlStore
from playhead.projections.folding import fold as folded
from playhead.projections.goal import goal
from playhead.projections.inbox import inbox
from playhead.projections.permissions import permissions
from playhead.projections.repaired import Repaired
from playhead.projections.session_stats import session_stats
from playhead.projections.surface import surface
from playhead.projections.todos import todos
from playhead.projections.transcript import transcript
from playhead.projections.usage import usage
from playhead.replay.fork import branch, fork

NOW_MS = 1_790_000_000_000
OTHER_LAYOUTS = [name for name, layout in LAYOUTS.items() if not layout.adds_totals]


def kept(facts: Iterable[Recorded], header: SessionHeader | None = None) -> Session:
    """A native session that holds these facts."""
    store = MemoryLog(lambda: NOW_MS)
    header = header or SessionHeader(SessionId("parent"), 1, cwd="/w")
    return store.create_from(header, [fact.line() + b"\n" for fact in facts])


def events_of(*types: str) -> list[Recorded]:
    """Facts of these types, numbered from 0."""
    return recorded([{"type": type, "seq": seq, "time": 5, "data": {}} for seq, type in enumerate(types)])


def contents(facts: Iterable[Recorded]) -> list[dict[str, Any]]:
    """The facts with everything but the session that they lie in."""
    return [fact.envelope() for fact in facts]


def closed_places(facts: Iterable[Recorded]) -> list[int]:
    """Every seq behind which no turn is open."""
    is_open, places = False, []
    for fact in facts:
        is_open = fact.type != "turn/end" and (is_open or fact.type == "turn/start")
        if not is_open:
            places.append(fact.seq)
    return places


def imported(store: SqlStore, log: bytes) -> Session:
    """The session of a log file, read into ``store``."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "session.jsonl"
        file.write_bytes(log)
        import_paths(store, [file])
    (info,) = store.sessions()
    return store.session(info.id)


def without_owner(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a table without the word of whose it is."""
    return {name: value for name, value in row.items() if name != "inherited"}


# The rules


@pytest.mark.parametrize("case", cases("fork_seed", "fork"))
def test_vector_of_a_fork(case: dict[str, Any]) -> None:
    source = kept(events_of(*case["parentTypes"]))
    store = MemoryLog(lambda: NOW_MS)
    if "error" in case:
        with pytest.raises((InvalidBoundary, OpenTurn)) as caught:
            fork(source, store, "child", NOW_MS, at=case["boundary"])
        assert caught.value.code == case["error"]
        assert store.sessions() == []
        return
    child = fork(source, store, "child", NOW_MS, at=case["boundary"])
    assert [fact.type for fact in child.read()] == case["child"]["types"]
    expected = SessionHeader(
        SessionId("child"),
        NOW_MS,
        cwd="/w",
        parent=SessionId("parent"),
        seed_length=case["child"]["header"]["seedLength"],
    )
    assert child.header == expected


SEEDS = [case for case in cases("fork_seed", "seeds") if case.id != "no-seed"]
"""Without the one that has none: a fork always has a seed."""


@pytest.mark.parametrize("case", SEEDS)
def test_vector_of_a_seed_as_the_whole_log_that_is_forked(case: dict[str, Any]) -> None:
    child = fork(kept(recorded(case["seed"])), MemoryLog(lambda: 1), "child", NOW_MS)
    assert [fact.type for fact in child.read()] == case["types"]


def test_the_marker_has_the_time_of_the_fork_and_the_child_nothing_else_of_its_parent() -> None:
    header = SessionHeader(
        SessionId("parent"), 1, cwd="/w", origin="subagent", delegation_depth=2, agent_preset="code"
    )
    child = fork(kept(events_of("feedback/record"), header), MemoryLog(lambda: 1), "child", NOW_MS)
    assert list(child.read())[-1].time_ms == NOW_MS
    assert (child.header.origin, child.header.delegation_depth, child.header.agent_preset) == (None, 0, None)


def test_an_id_that_is_taken_is_refused() -> None:
    store = MemoryLog(lambda: 1)
    source = kept(events_of("feedback/record"))
    fork(source, store, "child", NOW_MS)
    with pytest.raises(SessionExists):
        fork(source, store, "child", NOW_MS)


# Formats 0 and 1, and native sessions: every event as it is


@settings(max_examples=60)
@given(events=sessions(), packed=st.booleans(), random=st.randoms(use_true_random=False))
def test_a_fork_holds_the_events_of_its_parent_and_leaves_it_as_it_was(
    events: list[dict[str, Any]], packed: bool, random: Random
) -> None:
    with playhead.open_store("sqlite://") as store:
        source = imported(store, decoded(events, packed=packed))
        before = source.info.head
        places = closed_places(source.events())
        at = random.choice([None, *places])
        child = fork(source, store, "child", NOW_MS, at=at)
        length = len(events) if at is None else at + 1
        *facts, last = child.events()
        assert contents(facts) == contents(source.events(0, length))
        assert (last.type, child.header.seed_length) == ("session/end-seed", length)
        assert source.info.head == before
        assert store.verify() == []
        for place in set(range(len(events))) - set(places):
            with pytest.raises(OpenTurn):
                fork(source, store, "other", NOW_MS, at=place)
        for place in (-1, len(events)):
            with pytest.raises(InvalidBoundary):
                fork(source, store, "other", NOW_MS, at=place)
        assert {info.id for info in store.sessions()} == {"s1", "child"}


def test_data_that_no_program_would_write_is_copied_byte_for_byte() -> None:
    raw = b'{"text" : "\\u00e9\\ud800", "n":-0, "n":1e400, "big":12345678901234567890123}'
    fact = Recorded(SessionId("parent"), 0, 5, "feedback/record", raw)  # type: ignore[arg-type]
    child = fork(kept([fact]), MemoryLog(lambda: 1), "child", NOW_MS)
    assert next(iter(child.read())).raw == raw


@settings(max_examples=40)
@given(played=playing(), random=st.randoms(use_true_random=False))
def test_folds_of_a_fork_are_those_of_the_parent_at_that_place(played: Played, random: Random) -> None:
    """What was queued and what it cost stays the parent's; everything else is the child's from its first event on."""
    source = kept(played.facts, played.header)
    places = closed_places(played.facts)
    assume(places)
    at = random.choice(places)
    child = fork(source, MemoryLog(lambda: NOW_MS), "child", NOW_MS, at=at)
    for projection in (surface, goal, todos, permissions, session_stats):
        assert folded(child, projection, at=at).state == folded(source, projection, at=at).state
    told = [rows(transcript, Log(log.header, tuple(log.events(0, at + 1)))) for log in (source, child)]
    before, after = ([(table, without_owner(row)) for table, row in each] for each in told)
    assert after == before
    pending = folded(child, inbox).state
    assert (pending.lists.next_turn, pending.lists.next_step) == ((), ())
    assert pending.breaches == ()
    bill, whole = (usage.view(folded(log, usage, at=at).state) for log in (child, source))
    assert bill["models"] == bill["turns"] == []
    assert bill["own"]["calls"] == 0
    assert bill["inherited"]["calls"] == whole["own"]["calls"] + whole["inherited"]["calls"]
    assert refusal(child.header, child.read()) is None


# Later formats


@pytest.mark.parametrize("layout", OTHER_LAYOUTS)
@settings(max_examples=15)
@given(played=playing(steady_clock=True), random=st.randoms(use_true_random=False))
def test_a_fork_of_any_format_folds_to_the_same_rows_as_the_parent_at_that_place(
    layout: str, played: Played, random: Random
) -> None:
    assume(played.header.seed_length is None)
    log = write_log(LAYOUTS[layout], played.header, [played.facts], compressed=False)
    with playhead.open_store("sqlite://") as store:
        source = imported(store, log)
        places = closed_places(source.events())
        assume(places)
        at = random.choice(places)
        child = fork(source, store, "child", NOW_MS, at=at)
        parent = Log(source.header, tuple(source.events(0, at + 1)))
        seed = child.header.seed_length
        header = SessionHeader(parent.header.id, parent.header.created_ms, cwd=parent.header.cwd)
        native = Log(header, tuple(child.events(0, seed)))
        for projection in PROJECTIONS:
            free = OF_CHUNKS if projection.name == "session-list" else ()
            assert_alike(rows(projection, native), rows(projection, parent), free)
        assert refusal(child.header, child.read()) is None
        assert store.verify(store.session("child")) == []
        state = folded(child, inbox).state
        assert (state.lists.next_turn, state.lists.next_step) == ((), ())


@pytest.mark.parametrize("layout", OTHER_LAYOUTS)
@settings(max_examples=10)
@given(played=playing())
def test_a_fork_of_a_fork_copies_it_whole_and_names_it_as_its_parent(layout: str, played: Played) -> None:
    log = write_log(LAYOUTS[layout], played.header, [played.facts], compressed=False)
    with playhead.open_store("sqlite://") as store:
        source = imported(store, log)
        first = fork(source, store, "first", NOW_MS, repaired=True)
        second = fork(first, store, "second", NOW_MS + 1)
        assert contents(second.events()) == contents(first.events())
        assert second.header.parent == "first"
        assert second.header.seed_length == first.next_seq, "the marker at its end is inherited like the rest"
        first.append([NewEvent("feedback/record", {"text": "more"})])
        third = fork(first, store, "third", NOW_MS + 2, at=first.next_seq - 1)
        assert [fact.type for fact in third.events(second.next_seq)] == [
            "feedback/record",
            "session/end-seed",
        ]


@pytest.mark.heavy
@pytest.mark.parametrize("path", recorded_logs())
def test_every_recorded_log_can_be_forked_to_one_that_dsh_takes(path: Path) -> None:
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [path])
        source = store.session(store.sessions()[0].id)
        before = source.info.head
        child = fork(source, store, "child", NOW_MS, repaired=True)
        assert source.info.head == before
        assert (refusal(child.header, child.read()) is None) == ("edited-unknown-type/" not in str(path))
        errors = [problem for problem in store.verify(child) if problem.severity == "error"]
        assert errors == []


# Repaired


@settings(max_examples=50)
@given(events=sessions(), random=st.randoms(use_true_random=False))
def test_a_repaired_fork_is_the_repaired_view_and_a_second_repair_adds_nothing(
    events: list[dict[str, Any]], random: Random
) -> None:
    cut = random.randrange(len(events) + 1)
    source = kept(recorded(events[:cut]))
    before = source.info.head
    with branch(source, "child", NOW_MS, repaired=True) as made:
        assert made.closers == len(list(Repaired(source).events())) - cut
    child = fork(source, MemoryLog(lambda: 1), "child", NOW_MS, repaired=True)
    *facts, marker = child.read()
    assert contents(facts) == contents(Repaired(source).events())
    assert marker.type == "session/end-seed"
    assert source.info.head == before
    with branch(child, "again", NOW_MS, repaired=True) as again:
        assert again.closers == 0
    assert contents(fork(child, MemoryLog(lambda: 1), "again", NOW_MS).read()) == contents(child.read())


@settings(max_examples=30)
@given(events=sessions(), random=st.randoms(use_true_random=False))
def test_any_place_can_be_forked_repaired(events: list[dict[str, Any]], random: Random) -> None:
    assume(events)
    at = random.randrange(len(events))
    source = kept(recorded(events))
    child = fork(source, MemoryLog(lambda: 1), "child", NOW_MS, at=at, repaired=True)
    assert contents(child.read(0, at + 1)) == contents(source.read(0, at + 1))
    assert contents(child.read(0, child.header.seed_length)) == contents(Repaired(source, at + 1).events())


def test_a_crash_with_parallel_calls_is_closed_in_the_fork_and_nowhere_else() -> None:
    case = shared_path("cases/16-crash-with-parallel-calls")
    expected = json.loads((case / "expected.json").read_bytes())
    with playhead.open_store("sqlite://") as store:
        source = imported(store, (case / "log.jsonl").read_bytes())
        before = source.info.head
        with pytest.raises(OpenTurn):
            fork(source, store, "child", NOW_MS)
        child = fork(source, store, "child", NOW_MS, repaired=True)
        added = list(child.read(expected["events"], child.header.seed_length))
        assert [(fact.seq, fact.type) for fact in added] == [
            (closer["seq"], closer["type"]) for closer in expected["closers"]
        ]
        assert {fact.time_ms for fact in added} == {expected["closer_time"]}
        ids = [closer["id"] for closer in expected["closers"] if "id" in closer]
        assert [fact.json["message"]["id"] for fact in added if fact.type == "tool/result"] == ids
        assert [fact.source_seqs for fact in added[:2]] == [(6,), None]
        assert (source.info.head, source.next_seq) == (before, expected["events"])
        results = [fact for fact in child.read() if fact.type == "tool/result"]
        assert sorted(fact.json["message"]["source"]["callId"] for fact in results) == ["c-1", "c-2", "c-3"]


# Damage


def line(seq: int, type: str = "feedback/record", data: str = "{}") -> bytes:
    return b'{"type":"%b","seq":%d,"time":5,"data":%b}\n' % (type.encode(), seq, data.encode())


HEADER = b'{"type":"session","version":0,"id":"s1","createdAt":1,"delegationDepth":0}\n'
START, END = ("turn/start", '{"turn":1}'), ("turn/end", '{"turn":1,"reason":{"kind":"completed"}}')
GAP = HEADER + line(0) + line(1, *START) + line(2, *END) + line(3) + line(5) + line(6)
TORN = HEADER + line(0) + line(1, *START) + line(2)[:-9]
JUNK = HEADER + line(0) + b"{]\n" + line(1) + line(2)


@pytest.mark.parametrize(
    ("log", "kind", "said"),
    [(GAP, "seq-gap", "seq 4 is missing"), (TORN, "torn-tail", "torn tail"), (JUNK, "bad-json", "not JSON")],
    ids=["gap", "torn", "junk"],
)
def test_a_damaged_log_is_not_forked_by_default_and_the_way_out_is_named(
    log: bytes, kind: str, said: str
) -> None:
    with playhead.open_store("sqlite://") as store:
        source = imported(store, log)
        with pytest.raises(CorruptLog, match=said) as caught:
            fork(source, store, "child", NOW_MS)
        assert caught.value.kind == kind
        assert "--repaired" in str(caught.value)
        assert "--at" in str(caught.value)
        assert len(store.sessions()) == 1


@pytest.mark.parametrize(
    ("log", "types", "lost", "closers"),
    [
        (GAP, ["feedback/record", "turn/start", "turn/end", "feedback/record"], 2, 0),
        (TORN, ["feedback/record", "turn/start", "turn/end"], 0, 1),
        (JUNK, ["feedback/record"] * 3, 0, 0),
    ],
    ids=["gap", "torn", "junk"],
)
def test_a_repaired_fork_takes_what_can_be_read_before_the_damage(
    log: bytes, types: list[str], lost: int, closers: int
) -> None:
    with playhead.open_store("sqlite://") as store:
        source = imported(store, log)
        with branch(source, "child", NOW_MS, repaired=True) as made:
            assert (made.lost, made.closers) == (lost, closers)
            assert [fact.type for fact in made.facts()] == [*types, "session/end-seed"]


def test_a_place_before_the_damage_can_be_forked_and_one_behind_a_gap_never() -> None:
    with playhead.open_store("sqlite://") as store:
        source = imported(store, GAP)
        assert fork(source, store, "child", NOW_MS, at=3).header.seed_length == 4
        for repaired in (False, True):
            with pytest.raises(CorruptLog, match="seq 4 is missing") as caught:
                fork(source, store, "other", NOW_MS, at=5, repaired=repaired)
            assert caught.value.seq == 4
            assert "up to seq 3" in str(caught.value)


def test_a_log_whose_first_event_is_missing_has_no_place_to_fork_at() -> None:
    with playhead.open_store("sqlite://") as store:
        source = imported(store, HEADER + line(1) + line(2))
        with pytest.raises(CorruptLog, match="seq 0 is missing") as caught:
            fork(source, store, "child", NOW_MS, at=1)
        assert "--at" not in str(caught.value)
        with branch(source, "child", NOW_MS, repaired=True) as made:
            assert (made.header.seed_length, made.lost, made.at) == (0, 2, -1)


def test_text_that_is_no_utf_8_is_repaired_as_it_is_read() -> None:
    with playhead.open_store("sqlite://") as store:
        source = imported(store, HEADER + line(0, data='{"text":"a?b"}').replace(b"?", b"\xff"))
        with pytest.raises(CorruptLog):
            fork(source, store, "child", NOW_MS)
        child = fork(source, store, "child", NOW_MS, repaired=True)
        assert next(iter(child.read())).json == {"text": "a\ufffdb"}
        assert store.verify() == []


# Size


def test_a_fork_is_put_aside_in_a_file_when_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playhead.replay.line_spool._IN_MEMORY_BYTES", 100)
    monkeypatch.setattr("playhead.replay.line_spool._BLOCK_BYTES", 64)
    source = kept(events_of(*["feedback/record"] * 50))
    store: Store = MemoryLog(lambda: 1)
    child = fork(source, store, "child", NOW_MS)
    assert contents(child.read(0, 50)) == contents(source.read())
