"""Several processes on one store: each fact has one place, in one order, and nobody misses one."""

from __future__ import annotations

import io
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from children import frames, log, playhead_here, start, tree
from stores import ENGINES, store_address

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.errors import StoreUnavailable
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import SqlStore

WRITER = """
import sys
from playhead import open_store
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent

name, count = sys.argv[2], int(sys.argv[3])
with open_store(sys.argv[1]) as store:
    session = store.create(SessionHeader(SessionId(name), 1))
    for n in range(0, count, 2):
        session.append([NewEvent(f"x/{name}", {"n": n}), NewEvent("x/count", {"n": n + 1})], expected_seq=n)
        if n % 30 == 0:
            session.seal()
"""

READER = """
import sys, time
from playhead import open_store

until, after = int(sys.argv[2]), 0
with open_store(sys.argv[1]) as store:
    deadline = time.monotonic() + 500
    while after < until and time.monotonic() < deadline:
        for fact in store.read_all(after=after):
            if fact.position != after + 1:
                print(f"position {fact.position} came behind {after}")
            if fact.seq != fact.data.to_json()["n"]:
                print(f"seq {fact.seq} of {fact.session} holds {fact.raw}")
            after = fact.position
print(f"read up to {after}")
"""

IMPORTER = """
import sys
from playhead import open_store
from playhead.adapters.dsh.importer import import_paths

with open_store(sys.argv[1]) as store:
    report = import_paths(store, [sys.argv[2]])
    print(report.imported, report.unchanged, len(report.refused), report.events)
"""


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with store_address(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(12):
        content = log(f"s{number}", 400 * number)
        (folder / f"s{number}.jsonl").write_bytes(frames(content, 40) if number % 3 == 0 else content)
    (folder / "copy.jsonl").write_bytes(log("s5", 2_000))
    (folder / "other.jsonl").write_bytes(log("s5", 2_000, seed=7))
    (folder / "noise.jsonl").write_bytes(b"no log")
    return folder


def outputs(processes: list[subprocess.Popen[bytes]]) -> list[str]:
    """What each process wrote; fails the test when one of them failed."""
    written = []
    for process in processes:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err.decode()
        written.append(out.decode())
    return written


def require_sound(store: SqlStore) -> None:
    assert [problem for problem in store.verify() if problem.severity == "error"] == []
    assert [fact.position for fact in store.read_all()] == list(range(1, store.position + 1))


def exported(store: SqlStore) -> dict[str, bytes]:
    files = {}
    for file in store.files():
        out = io.BytesIO()
        assert store.export_file(file, out).same
        files[file.path] = out.getvalue()
    return files


def test_two_importers_of_the_same_folder_make_what_one_would(address: str, logs: Path) -> None:
    outputs([start(IMPORTER, address, logs) for _ in range(2)])
    with open_store(address) as store, open_store("sqlite://") as alone:
        require_sound(store)
        import_paths(alone, [logs])
        assert exported(store) == tree(logs)
        assert {(head.id, head.head) for head in store.heads()} == {
            (head.id, head.head) for head in alone.heads()
        }
        again = import_paths(store, [logs])
        assert (again.imported, again.events) == (0, 0)


def test_importers_and_writers_at_once_do_not_disturb_each_other(address: str, logs: Path) -> None:
    with open_store(address):
        pass
    writers = [start(WRITER, address, f"w{number}", 60) for number in range(2)]
    outputs([*writers, *(start(IMPORTER, address, logs) for _ in range(2))])
    with open_store(address) as store:
        require_sound(store)
        assert exported(store) == tree(logs)
        for name in ("w0", "w1"):
            assert [fact.data.to_json()["n"] for fact in store.session(name).read()] == list(range(60))


def read_while_written(address: str, writers: int, each: int, readers: int = 1) -> None:
    """Some processes write a session each while others read everything; fails the test for any fact amiss."""
    with open_store(address):
        pass
    reading = [start(READER, address, writers * each) for _ in range(readers)]
    outputs([start(WRITER, address, f"w{number}", each) for number in range(writers)])
    assert outputs(reading) == [f"read up to {writers * each}\n"] * readers
    with open_store(address) as store:
        require_sound(store)
        assert {info.id: info.events for info in store.sessions()} == {
            f"w{number}": each for number in range(writers)
        }


def test_a_reader_sees_every_fact_of_several_writers_once_and_in_order(address: str) -> None:
    read_while_written(address, writers=3, each=60)


@pytest.mark.heavy
def test_readers_see_every_fact_of_eight_busy_writers_once_and_in_order(address: str) -> None:
    read_while_written(address, writers=8, each=1_000, readers=2)


def test_one_session_appended_to_by_several_loses_nothing(address: str) -> None:
    writer = """
import sys
from playhead import open_store
from playhead.eventstore.log import NewEvent
with open_store(sys.argv[1]) as store:
    session = store.session("shared")
    for n in range(40):
        session.append([NewEvent("x/by", {"who": sys.argv[2], "n": n})], idem=f"{sys.argv[2]}-{n}")
"""
    with open_store(address) as store:
        store.create(SessionHeader(SessionId("shared"), 1))
        outputs([start(writer, address, who) for who in "abc"])
        require_sound(store)
        facts = [fact.data.to_json() for fact in store.session("shared").read()]
        for who in "abc":
            assert [fact["n"] for fact in facts if fact["who"] == who] == list(range(40))


def test_verify_and_export_of_a_store_that_is_written_to_find_nothing_wrong(address: str, logs: Path) -> None:
    with open_store(address) as store:
        import_paths(store, [logs])
        writers = [start(WRITER, address, f"w{number}", 120) for number in range(2)]
        rounds = 0
        while any(writer.poll() is None for writer in writers) or not rounds:
            assert [problem for problem in store.verify() if problem.severity == "error"] == []
            assert exported(store) == tree(logs)
            rounds += 1
        outputs(writers)
        require_sound(store)


def test_a_reader_that_began_before_a_commit_sees_it_or_not_but_never_half(address: str) -> None:
    with open_store(address) as store, open_store(address) as other:
        session = store.create(SessionHeader(SessionId("s"), 1))
        session.append([NewEvent("x/count", {"n": n}) for n in range(10)])
        reader, everything = session.read(), store.read_all()
        first = [next(reader).seq, next(everything).position]
        with other.database.read() as held:
            held.one("SELECT pos FROM store WHERE id = 1")
            other_session = store.session("s")
            other_session.append([NewEvent("x/count", {"n": n}) for n in range(10, 30)])
            other_session.seal()
        assert first == [0, 1]
        assert [fact.seq for fact in reader] == list(range(1, 10))
        positions = [fact.position for fact in everything]
        assert positions in (list(range(2, 11)), list(range(2, 31)))
        assert [fact.position for fact in store.read_all(after=10)] == list(range(11, 31))
        require_sound(store)


def test_lines_that_are_sealed_while_they_are_read_are_not_read_again(address: str) -> None:
    with open_store(address) as store:
        session = store.create(SessionHeader(SessionId("s"), 1))
        session.append([NewEvent(f"x/{n % 3}", {"n": n}) for n in range(2_500)])
        readers = [session.read(), store.read_all(), session.read(100, 2_200), session.read(types=["x/1"])]
        first = [next(reader).seq for reader in readers]
        store.session("s").seal()
        rest = [[fact.seq for fact in reader] for reader in readers]
        assert [[seq, *more] for seq, more in zip(first, rest, strict=True)] == [
            list(range(2_500)),
            list(range(2_500)),
            list(range(100, 2_200)),
            list(range(1, 2_500, 3)),
        ]


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_store_that_another_process_holds_too_long_exits_3_and_says_why(
    tmp_path: Path, logs: Path, lock: str
) -> None:
    file = tmp_path / "store.sqlite"
    address = f"sqlite:///{file}?timeout=0.2"
    with open_store(str(file)) as store:
        store.create(SessionHeader(SessionId("s"), 1)).append([NewEvent("x/count", {"n": 0})])
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute(lock)
        ran = playhead_here("import", logs, store=address)
        assert (ran.code, ran.out) == (3, b"")
        assert ran.err == (
            f"playhead: {file}: another process holds the store's write lock; try again when it has finished\n"
        )
        assert playhead_here("sessions", store=address).code == 0
        with open_store(address) as store, pytest.raises(StoreUnavailable, match="write lock"):
            store.session("s").append([NewEvent("x/count", {"n": 1})])
        other.execute("ROLLBACK")
    assert playhead_here("import", logs, store=address).code == 1
    with open_store(str(file)) as store:
        require_sound(store)


@pytest.mark.parametrize("query", ["timeout=soon", "timeout=-1", "tiemout=3", "timeout=1&timeout=2"])
def test_an_option_of_the_store_that_means_nothing_is_wrong_usage(tmp_path: Path, query: str) -> None:
    ran = playhead_here("sessions", store=f"sqlite:///{tmp_path / 'store.sqlite'}?{query}")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "timeout" in ran.err
