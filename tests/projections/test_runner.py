"""Read tables and checkpoints are what a fold of the log gives, whatever happens while they are made."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import log as packed_log
from read_rows import columns, everything, rows, tables
from sample_projections import Tally, seen, tally
from stores import ENGINES, store_address

from playhead import dialects
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.errors import CorruptLog, StoreUnavailable, UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import SqlStore, builds, read_models
from playhead.eventstore.sql.upgrading import migrate
from playhead.projections import runner
from playhead.projections.folding import fold
from playhead.projections.materialised import Materialised, ProjectedStore
from playhead.projections.projection import Projection, Row


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with store_address(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def store(address: str) -> Iterator[ProjectedStore]:
    with open_at(address) as opened:
        yield opened


def open_at(address: str) -> ProjectedStore:
    return ProjectedStore.open(address, dialects=dialects().values())


def said(*texts: str) -> list[NewEvent]:
    return [NewEvent("feedback/record", {"text": text}) for text in texts]


def session(store: SqlStore, id: str, *texts: str) -> Any:
    made = store.create(SessionHeader(SessionId(id), 1))
    if texts:
        made.append(said(*texts))
    return made


def current(store: SqlStore, projection: Projection[Any]) -> None:
    """Fail unless tables and checkpoints are those of a fresh build."""
    before = everything(store, projection.name)
    Materialised(store, projection).rebuild()
    assert everything(store, projection.name) == before


def test_the_tables_show_every_session_with_its_place_in_the_store(store: ProjectedStore) -> None:
    session(store, "a", "x", "y")
    session(store, "b", "x").append(said("x"))
    session(store, "empty")
    Materialised(store, tally()).catch_up()
    common = ("session", "generation", "plain", "seq", "position", "incomplete", "lossy")
    assert rows(store, "read_tally", *common, "text", "times", "half", "again", "nothing") == [
        ("a", 1, True, 0, 1, False, False, "x", 1, 0.5, False, None),
        ("a", 1, True, 1, 2, False, False, "y", 1, 0.5, False, None),
        ("b", 1, True, 0, 3, False, False, "x", 2, 1.0, True, None),
    ]
    assert columns(store, "read_tally") == [
        "session_id",
        *common,
        *("text", "times", "half", "again", "detail", "nothing"),
    ]


def test_json_is_read_by_the_same_operator_on_both_engines(store: ProjectedStore) -> None:
    session(store, "a", 'quo"te \\u0000 \\ud800 \0\ud801')
    Materialised(store, tally()).catch_up()
    assert rows(store, "read_tally", "text", "lossy") == [('quo"te \\u0000 \\ud800 ��', True)]
    with store.database.read() as link:
        (text,) = link.one("SELECT detail ->> 'text' FROM read_tally")
    assert text == 'quo"te \\u0000 \\ud800 ��'


@pytest.mark.parametrize("what", ["VIEW read_tally", "TABLE read_tally__v1_b1"])
def test_a_table_that_somebody_dropped_is_made_again(store: ProjectedStore, what: str) -> None:
    session(store, "a", "x")
    materialised = Materialised(store, tally())
    materialised.catch_up()
    with store.database.write() as link:
        link.run(f"DROP {what}" + (" CASCADE" if link.postgres else ""))
    assert (materialised.status().state, materialised.status().rows) == ("missing", 0)
    assert materialised.state("a") == fold(store.session("a"), tally()).state
    materialised.catch_up()
    assert materialised.status().state == "current"
    assert rows(store, "read_tally", "session", "text") == [("a", "x")]
    current(store, tally())


def test_a_build_that_lost_its_table_before_it_was_finished_is_begun_anew(store: ProjectedStore) -> None:
    session(store, "a", "x")
    materialised = Materialised(store, tally())
    materialised.catch_up()
    with store.database.write() as link:
        begun = builds.add(link, "tally", 1, runner.shape(tally()), ("read_tally",))
        link.run("DROP VIEW read_tally")
    materialised.catch_up()
    assert rows(store, "read_tally", "session", "text") == [("a", "x")]
    with store.database.read() as link:
        assert begun.id not in [build.id for build in builds.of_name(link, "tally")]


def test_catching_up_in_steps_gives_what_one_build_gives(store: ProjectedStore) -> None:
    draw = random.Random(3)
    materialised = [Materialised(store, projection) for projection in (tally(), seen)]
    opened = [session(store, f"s{number}") for number in range(4)]
    for _ in range(12):
        for _ in range(draw.randrange(3)):
            draw.choice(opened).append(said(*draw.choices("abc", k=draw.randrange(1, 4))))
        if draw.random() < 0.3:
            opened.append(session(store, f"s{len(opened)}"))
        for each in materialised:
            each.catch_up()
            assert each.status().state == "current"
            assert each.status().lag == 0
    for each in materialised:
        current(store, each.projection)


def test_small_batches_give_what_large_ones_give(
    store: ProjectedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        session(store, f"s{number}", *"abcabcabca"[: number + 3])
    for projection in (tally(), seen):
        Materialised(store, projection).catch_up()
    monkeypatch.setattr(runner, "BATCH_SESSIONS", 2)
    monkeypatch.setattr(runner, "BATCH_ROWS", 3)
    for projection in (tally(), seen):
        current(store, projection)
    assert len(rows(store, "read_seen")) == store.position


def test_a_second_catch_up_writes_nothing(store: ProjectedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session(store, "a", "x")
    materialised = Materialised(store, tally())
    materialised.catch_up()

    def fail(*_: object) -> None:
        raise AssertionError("something was written")

    monkeypatch.setattr(runner.Runner, "_write", fail)
    materialised.catch_up()
    session(store, "b", "x")
    with pytest.raises(AssertionError):
        materialised.catch_up()


def test_facts_that_change_nothing_move_the_checkpoint_and_leave_the_rows(
    store: ProjectedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = session(store, "a", "x")
    Materialised(store, tally()).catch_up()
    made.append([NewEvent("turn/start", {"turn": 1}), NewEvent("nobody/cares", {}, ignorable=True)])
    with monkeypatch.context() as patch:
        patch.setattr(read_models, "write", lambda *_, **__: pytest.fail("rows were written"))
        Materialised(store, tally()).catch_up()
    current(store, tally())
    made.append([NewEvent("nobody/knows", {})])
    Materialised(store, tally()).catch_up()
    assert rows(store, "read_tally", "text", "incomplete") == [("x", True)]
    current(store, tally())


def test_the_position_says_what_is_in_the_tables_when_a_run_stops_halfway(
    store: ProjectedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = session(store, "a", "x"), session(store, "b", "x", "y")
    first.append(said("later"))
    monkeypatch.setattr(runner, "BATCH_SESSIONS", 1)
    real, calls = runner.Runner._write, []

    def stop_at_second(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*args)

    monkeypatch.setattr(runner.Runner, "_write", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        Materialised(store, tally()).catch_up()
    with store.database.read() as link:
        (build,) = builds.of_name(link, "tally")
    assert (build.position, build.status) == (1, "building")
    monkeypatch.setattr(runner.Runner, "_write", real)
    Materialised(store, tally()).catch_up()
    current(store, tally())
    assert second.next_seq == 2


def test_the_tables_of_an_empty_store_are_there_and_empty(store: ProjectedStore) -> None:
    materialised = Materialised(store, tally())
    assert materialised.status().state == "missing"
    materialised.catch_up()
    assert rows(store, "read_tally") == []
    assert materialised.status().state == "current"


# Reading states


def test_a_state_is_right_with_and_without_a_checkpoint(store: ProjectedStore) -> None:
    materialised = Materialised(store, tally())
    made = session(store, "a", "x", "y")
    expected = Tally("a", ((0, "x", 1), (1, "y", 1)), 2)
    assert materialised.state(made) == materialised.state("a") == expected
    materialised.catch_up()
    assert materialised.state("a") == expected
    made.append(said("x"))
    assert materialised.state("a") == Tally("a", ((0, "x", 2), (1, "y", 1)), 3)
    assert materialised.state("a", at=0) == Tally("a", ((0, "x", 1),), 1)
    assert materialised.state("a", at=-1) == Tally("a")
    assert materialised.view("a") == {"x": 2, "y": 1}
    assert materialised.folded("a", at=99) == fold(made, tally())


def test_a_current_checkpoint_spares_reading_the_log(
    store: ProjectedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = session(store, "a", "x", "y")
    Materialised(store, tally()).catch_up()
    monkeypatch.setattr(Projection, "apply", None, raising=False)
    broken = dataclasses.replace(tally(), apply=lambda *_: pytest.fail("an event was read"))
    assert Materialised(store, broken).state(made).events == 2


@pytest.mark.parametrize("damage", [b"", b"no zstd", None])
def test_a_checkpoint_that_cannot_be_read_is_folded_anew(store: ProjectedStore, damage: bytes | None) -> None:
    made = session(store, "a", "x", "y")
    for projection in (tally(), seen):
        Materialised(store, projection).catch_up()
    with store.database.write() as link:
        link.run("UPDATE projection_state SET state = ?", (damage,))
    assert Materialised(store, tally()).state(made).events == 2
    made.append(said("z"))
    for projection in (tally(), seen):
        Materialised(store, projection).catch_up()
        current(store, projection)
    assert len(rows(store, "read_seen")) == 3


# Sessions that make trouble


def _stumbling(state: Tally, event: Recorded) -> Tally:
    if event.json.get("text") == "stone":
        raise LookupError("a stone\nin the way")
    return tally().apply(state, event)


def test_a_session_that_raises_is_named_and_stops_no_other(store: ProjectedStore) -> None:
    bad = session(store, "bad", "x")
    session(store, "good", "x")
    stumbling = dataclasses.replace(tally(), apply=_stumbling)
    materialised = Materialised(store, stumbling)
    materialised.catch_up()
    bad.append(said("stone"))
    session(store, "worse", "stone")
    session(store, "last", "y")
    materialised.catch_up()
    status = materialised.status()
    assert [(found.session, found.problem) for found in status.troubles] == [
        ("bad", "LookupError: a stone"),
        ("worse", "LookupError: a stone"),
    ]
    assert (status.state, status.lag) == ("current", 0)
    assert rows(store, "read_tally", "session", "text", "incomplete") == [
        ("bad", "x", True),
        ("good", "x", False),
        ("last", "y", False),
    ]
    Materialised(store, tally()).catch_up()
    assert Materialised(store, tally()).status().troubles == ()
    current(store, tally())


def test_rows_that_do_not_fit_are_the_trouble_of_their_session_alone(store: ProjectedStore) -> None:
    session(store, "bad", "x", "y")
    session(store, "good", "x")

    def crooked(state: Tally) -> Iterator[Row]:
        yield from tally().rows(state)
        if state.header == "bad":
            yield Row("read_tally", 0, (1, 2, 3, 4, 5, 6))

    materialised = Materialised(store, tally(rows=crooked))
    materialised.catch_up()
    assert rows(store, "read_tally", "session") == [("good",)]
    assert [found.problem for found in materialised.status().troubles] == [
        "ValueError: column text: int is no text"
    ]


def test_a_session_without_its_dialect_is_named_and_comes_back_with_it(address: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_bytes(packed_log("imported", 90))
    with ProjectedStore.open(address) as bare:
        import_paths(bare, [tmp_path / "logs"])
        session(bare, "native", "x")
        Materialised(bare, tally()).catch_up()
        (found,) = Materialised(bare, tally()).status().troubles
        assert (found.session, found.generation) == ("imported", 1)
        assert found.problem is not None
        assert found.problem.startswith("UsageError: no dialect")
        with pytest.raises(UsageError, match="no dialect"):
            Materialised(bare, tally()).state("imported")
    with open_at(address) as whole:
        Materialised(whole, tally()).catch_up()
        assert Materialised(whole, tally()).status().troubles == ()
        current(whole, tally())


def test_a_session_with_a_damaged_segment_is_named_and_stops_no_other(store: ProjectedStore) -> None:
    session(store, "bad", "x", "y").seal()
    session(store, "good", "x")
    with store.database.write() as link:
        link.run("UPDATE segment SET body = ?", (b"noise",))
    materialised = Materialised(store, tally())
    materialised.catch_up()
    (found,) = materialised.status().troubles
    assert found.session == "bad"
    assert found.problem is not None
    assert found.problem.startswith("CorruptLog")
    assert rows(store, "read_tally", "session") == [("good",)]
    with pytest.raises(CorruptLog):
        materialised.state("bad")


def test_an_unknown_event_marks_the_rows_of_its_session(store: ProjectedStore) -> None:
    made, other = session(store, "a", "x"), session(store, "b", "x")
    for projection in (tally(), seen):
        Materialised(store, projection).catch_up()
    made.append([NewEvent("nobody/knows", {}), NewEvent("nobody/cares", {}, ignorable=True)])
    other.append([NewEvent("nobody/cares", {}, ignorable=True)])
    for projection in (tally(), seen):
        Materialised(store, projection).catch_up()
        (found,) = Materialised(store, projection).status().troubles
        assert (found.session, found.problem, found.unknown) == ("a", None, (("nobody/knows", 1),))
        current(store, projection)
    assert rows(store, "read_tally", "session", "incomplete") == [("a", True), ("b", False)]
    assert rows(store, "read_seen", "session", "incomplete") == [("a", True)] * 3 + [("b", False)] * 2


# Generations


def test_every_generation_has_its_rows_and_one_of_them_is_the_plain_one(
    store: ProjectedStore, tmp_path: Path
) -> None:
    line = b'{"type":"feedback/record","seq":0,"time":%d,"data":{"text":"%b"}}\n'
    header = b'{"type":"session","version":%d,"id":"s","createdAt":1,"delegationDepth":0}\n'
    logs = [(0, 30, b"first"), (0, 50, b"later"), (1, 20, b"newer format"), (0, 90, b"late, but old")]
    plain_then = ["first", "later", "newer format", "newer format"]
    for number, (version, time_ms, text) in enumerate(logs):
        folder = tmp_path / f"logs{number}"
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(header % version + line % (time_ms, text))
        import_paths(store, [folder])
        for projection in (tally(), seen):
            Materialised(store, projection).catch_up()
        found = rows(store, "read_tally", "generation", "text", "plain")
        assert [row[:2] for row in found] == [
            (at + 1, text.decode()) for at, (_, _, text) in enumerate(logs[: number + 1])
        ]
        assert [text for _, text, plain in found if plain] == [plain_then[number]]
        assert [row[2] for row in found] == [row[0] for row in rows(store, "read_seen", "plain")]
        assert Materialised(store, tally()).view("s") == {plain_then[number]: 1}
    for projection in (tally(), seen):
        current(store, projection)


# Builds


def test_a_new_version_takes_the_place_of_the_old_one(store: ProjectedStore) -> None:
    session(store, "a", "x")
    Materialised(store, tally()).catch_up()
    first = tables(store)
    two = tally(
        2, rows=lambda state: (Row("read_tally", 0, (t, 9, 9, False, None, None)) for _, t, _ in state.said)
    )
    assert Materialised(store, two).status().state == "outdated"
    Materialised(store, two).catch_up()
    assert rows(store, "read_tally", "text", "times") == [("x", 9)]
    assert len(tables(store)) == 1
    assert tables(store) != first
    assert Materialised(store, tally()).status().state == "newer"
    with pytest.raises(UsageError, match="newer Playhead"):
        Materialised(store, tally()).catch_up()
    assert Materialised(store, tally()).state("a").events == 1
    Materialised(store, tally()).rebuild()
    assert rows(store, "read_tally", "text", "times") == [("x", 1)]


def test_other_columns_and_other_tables_come_with_a_new_version(store: ProjectedStore) -> None:
    session(store, "a", "x")
    Materialised(store, tally()).catch_up()
    (table,) = tally().tables
    narrow = dataclasses.replace(table, columns=table.columns[:1])
    renamed = dataclasses.replace(narrow, name="read_said")
    Materialised(store, tally(2, tables=(narrow,), rows=lambda _: [Row("read_tally", 0, ("x",))])).catch_up()
    assert columns(store, "read_tally")[-2:] == ["lossy", "text"]
    Materialised(store, tally(3, tables=(renamed,), rows=lambda _: [Row("read_said", 0, ("x",))])).catch_up()
    assert rows(store, "read_said", "text") == [("x",)]
    assert {name.split("__")[0] for name in tables(store)} == {"read_said"}
    assert columns_or_none(store, "read_tally") is None


def columns_or_none(store: SqlStore, view: str) -> list[str] | None:
    from sqlalchemy.exc import NoSuchTableError

    try:
        return columns(store, view)
    except NoSuchTableError:
        return None


def test_an_unfinished_build_is_finished_by_the_next_run(
    store: ProjectedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        session(store, f"s{number}", "x")
    materialised = Materialised(store, tally())
    materialised.catch_up()
    with monkeypatch.context() as patch:
        patch.setattr(runner.Runner, "_switch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            materialised.rebuild()
    assert materialised.status().building
    assert materialised.status().state == "current"
    session(store, "new", "x")
    materialised.catch_up()
    assert not materialised.status().building
    assert len(tables(store)) == 1
    assert len(rows(store, "read_tally")) == 5
    current(store, tally())


def test_readers_see_a_whole_table_of_one_version_while_versions_change(
    store: ProjectedStore, address: str
) -> None:
    for number in range(40):
        session(store, f"s{number}", "x", "y")

    def version(number: int) -> Projection[Tally]:
        def numbered(state: Tally) -> Iterator[Row]:
            return (
                Row("read_tally", seq, (text, number, 0, False, None, None)) for seq, text, _ in state.said
            )

        return tally(number, rows=numbered)

    Materialised(store, version(1)).catch_up()
    done, seen_versions, failures = threading.Event(), set[int](), list[str]()
    reading, last = threading.Barrier(3), 7

    def look(other: ProjectedStore) -> None:
        found = [times for (times,) in rows(other, "read_tally", "times")]
        if len(found) != 80 or len(set(found)) != 1:
            failures.append(f"{len(found)} rows of versions {set(found)}")
        seen_versions.update(found)

    def read() -> None:
        with open_at(address) as other:
            look(other)
            reading.wait(60)
            while not done.is_set():
                look(other)
            look(other)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        reading.wait(60)
        for number in range(2, last + 1):
            Materialised(store, version(number)).catch_up()
            Materialised(store, version(number)).rebuild()
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert seen_versions >= {1, last}


def test_two_runners_at_once_double_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH_SESSIONS", 3)
    monkeypatch.setattr(runner, "BATCH_ROWS", 7)
    errors: list[BaseException] = []

    def run(rebuilds: bool) -> None:
        try:
            with open_at(address) as other:
                for _ in range(3):
                    for projection in (tally(), seen):
                        Materialised(other, projection).catch_up()
                        if rebuilds:
                            Materialised(other, projection).rebuild()
        except BaseException as error:
            errors.append(error)

    with open_at(address) as store:
        opened = [session(store, f"s{number}", *"xyx") for number in range(10)]
        threads = [threading.Thread(target=run, args=(rebuilds,)) for rebuilds in (False, True, True)]
        for thread in threads:
            thread.start()
        draw = random.Random(5)
        while any(thread.is_alive() for thread in threads):
            draw.choice(opened).append(said(draw.choice("xyz")))
            time.sleep(0.01)  # SQLite hands its lock to whoever asks first
        for thread in threads:
            thread.join()
        assert errors == []
        for projection in (tally(), seen):
            Materialised(store, projection).catch_up()
            current(store, projection)
        assert len(rows(store, "read_seen")) == store.position
        assert len(tables(store)) == 2


def test_a_downgrade_of_the_schema_leaves_no_read_tables(address: str) -> None:
    with open_at(address) as opened:
        session(opened, "a", "x")
        for projection in (tally(), seen):
            Materialised(opened, projection).catch_up()
    migrate(address, "playhead:migrations", revision="0001")
    migrate(address, "playhead:migrations")
    with open_at(address) as opened:
        assert tables(opened) == set()
        assert Materialised(opened, tally()).status().state == "missing"
        Materialised(opened, tally()).catch_up()
        assert rows(opened, "read_tally", "text") == [("x",)]


# PostgreSQL


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, ProjectedStore]]:
    with store_address("postgres", tmp_path) as url, open_at(url) as opened:
        yield url, opened


def test_views_and_grants_on_top_of_a_read_table_outlive_a_rebuild(
    server: tuple[str, ProjectedStore],
) -> None:
    _, store = server
    session(store, "a", "x")
    Materialised(store, tally()).catch_up()
    with store.database.write() as link:
        link.run("CREATE VIEW mine AS SELECT text FROM read_tally")
        link.run("GRANT SELECT ON read_tally TO public")
    Materialised(store, tally()).rebuild()
    session(store, "b", "y")
    Materialised(store, tally(2)).catch_up()
    with store.database.read() as link:
        assert sorted(link.all("SELECT text FROM mine")) == [("x",), ("y",)]
        (granted,) = link.one("SELECT relacl::text FROM pg_class WHERE relname = 'read_tally'")
        assert "=r/" in granted
        assert link.one("SELECT obj_description('read_tally'::regclass)") == (
            "Every text that was said in a session.",
        )


def test_a_reader_that_never_ends_keeps_the_old_tables_and_the_next_run_switches(
    server: tuple[str, ProjectedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, store = server
    session(store, "a", "x")
    Materialised(store, tally()).catch_up()
    with open_at(url) as other, other.database.read() as link:
        assert link.all("SELECT text FROM read_tally") == [("x",)]
        with monkeypatch.context() as hasty:
            hasty.setattr(read_models, "_PATIENCE_MS", 50)
            with pytest.raises(StoreUnavailable, match="keeps what we need to change open"):
                Materialised(store, tally()).rebuild()
        assert link.all("SELECT text FROM read_tally") == [("x",)]
    assert Materialised(store, tally()).status().building
    Materialised(store, tally()).catch_up()
    assert not Materialised(store, tally()).status().building
    assert len(tables(store)) == 1


# Names


def test_a_store_names_its_projections(store: ProjectedStore) -> None:
    with pytest.raises(UsageError, match="there are: "):
        store.projection("nobody")
    for each in store.projections():
        assert store.projection(each.projection.name).projection is each.projection
