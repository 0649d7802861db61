"""The writer: what it acknowledges is durable, what fails is told to exactly those whom it concerns."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import ENGINES, store_address

from playhead.eventstore import envelope
from playhead.eventstore.errors import ReadOnlySession, StoreUnavailable, WrongExpectedSeq
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.store import SqlStore
from playhead.eventstore.sql.writer import CommitFailed, QueuedSession, Writer, WriterClosed


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    with store_address(request.param, tmp_path) as address, open_store(address) as opened:
        yield opened


def made(store: SqlStore, name: str = "s") -> Any:
    return store.create(SessionHeader(SessionId(name), 1))


def put(queue: QueuedSession, text: str, *, delta: bool = False) -> None:
    type = "assistant/chunk" if delta else "feedback/record"
    line = NewEvent(type, {"text": text}, 1).line(queue.next_seq, 1)
    (fact,) = envelope.facts(line, queue.session.id)
    queue.put(fact, line)


def overtaken(store: SqlStore, queue: QueuedSession) -> None:
    """Queue a fact whose place somebody else takes before it is committed."""
    put(queue, "lost", delta=True)
    store.session(queue.session.id).append([NewEvent("feedback/record", {"text": "theirs"}, 1)])


def damage(store: SqlStore) -> list[Problem]:
    """What is not as it was stored; the made-up events break rules of logs, which is no damage."""
    return [problem for problem in store.verify() if problem.kind != "rule"]


def texts(store: SqlStore, name: str = "s") -> list[str]:
    return [fact.json["text"] for fact in store.session(name).read()]


def test_what_was_flushed_is_in_the_store(store: SqlStore) -> None:
    session = made(store)
    with Writer(store) as writer:
        queue = writer.open(session)
        put(queue, "a")
        put(queue, "b", delta=True)
        asyncio.run(queue.flush())
        assert texts(store) == ["a", "b"]
        assert queue.durable_seq == queue.next_seq == 2


def test_a_delta_reaches_the_store_by_itself_within_the_window(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=1) as writer:
        put(writer.open(session), "a", delta=True)
        feed = iter(store.subscribe("s"))
        seen = [next(feed), next(feed)]
        assert any(getattr(item, "seq", None) == 0 for item in seen)


def test_a_flush_of_nothing_is_done_at_once(store: SqlStore) -> None:
    with Writer(store) as writer:
        assert writer.open(made(store)).flushed().done()


def test_closing_commits_what_is_queued_and_seals_it(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)
        for at in range(50):
            put(queue, str(at), delta=True)
    assert texts(store) == [str(at) for at in range(50)]
    assert store.seal() == 0  # nothing was left to seal
    assert damage(store) == []
    with pytest.raises(WriterClosed):
        put(queue, "too late")


def test_sessions_share_transactions_and_keep_their_own_order(store: SqlStore) -> None:
    names = [f"s{at}" for at in range(8)]
    sessions = [made(store, name) for name in names]
    with Writer(store) as writer:

        def produce(queue: QueuedSession) -> None:
            for at in range(40):
                put(queue, str(at), delta=at % 3 != 0)
                if at % 10 == 9:
                    queue.flushed().result(30)

        threads = [threading.Thread(target=produce, args=(writer.open(one),)) for one in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in names:
        assert texts(store, name) == [str(at) for at in range(40)]
    assert [fact.position for fact in store.read_all()] == list(range(1, 8 * 40 + 1))
    assert damage(store) == []


def test_a_session_that_somebody_else_wrote_to_fails_alone(store: SqlStore) -> None:
    mine, other = made(store, "mine"), made(store, "other")
    with Writer(store, window_ms=60_000) as writer:
        first, second = writer.open(mine), writer.open(other)
        put(first, "a", delta=True)
        put(second, "b", delta=True)
        store.session("mine").append([NewEvent("feedback/record", {"text": "theirs"}, 1)])
        failed, done = first.flushed(), second.flushed()
        assert done.result(30) is None
        error = failed.exception(30)
        assert isinstance(error, CommitFailed)
        assert error.from_seq == 0
        with pytest.raises(CommitFailed):
            put(first, "more")
        put(second, "c")
    assert (texts(store, "mine"), texts(store, "other")) == (["theirs"], ["b", "c"])
    assert damage(store) == []


def test_a_session_that_failed_can_be_opened_again(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)
        overtaken(store, queue)
        assert isinstance(queue.flushed().exception(30), CommitFailed)
        again = writer.open(store.session("s"))
        put(again, "mine")
        again.flushed().result(30)
        assert texts(store) == ["theirs", "mine"]


def test_a_database_that_refuses_fails_everybody_in_the_transaction_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(tmp_path / "store.sqlite")) as store:
        one, other = made(store, "one"), made(store, "other")
        with Writer(store, window_ms=60_000) as writer:
            first, second = writer.open(one), writer.open(other)
            put(first, "a", delta=True)

            def full() -> Any:
                raise StoreUnavailable("the disk is full")

            with monkeypatch.context() as broken:
                broken.setattr(store.database, "write", full)
                assert "disk is full" in str(first.flushed().exception(30))
            put(second, "b")
            second.flushed().result(30)
        assert texts(store, "other") == ["b"]
        assert texts(store, "one") == []


def test_a_failure_that_nobody_waited_for_shows_when_the_writer_is_closed(store: SqlStore) -> None:
    writer = Writer(store, window_ms=60_000)
    overtaken(store, writer.open(made(store)))
    with pytest.raises(CommitFailed, match="from seq 0 on was not stored"):
        writer.close()
    assert texts(store) == ["theirs"]


def test_an_imported_session_is_not_opened(store: SqlStore, tmp_path: Path) -> None:
    from playhead.adapters.dsh.importer import import_paths

    log = tmp_path / "session.jsonl"
    header = SessionHeader(SessionId("imported"), 1)
    log.write_bytes(header.line() + b"\n" + NewEvent("turn/start", {"turn": 1}, 1).line(0, 1) + b"\n")
    import_paths(store, [str(log)])
    with Writer(store) as writer, pytest.raises(ReadOnlySession):
        writer.open(store.session("imported"))


def test_a_full_queue_makes_its_producer_wait_until_it_is_stored(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)

        async def produce() -> None:
            for _ in range(12):
                put(queue, "x" * (512 << 10), delta=True)
                await queue.room()
                assert queue.queued_bytes <= 5 << 20

        asyncio.run(produce())
    assert len(texts(store)) == 12


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=40),
)
def test_any_mixture_of_puts_and_flushes_stores_every_session_whole(
    moves: list[tuple[int, bool, bool]],
) -> None:
    with open_store("sqlite://") as store:
        sessions = [made(store, f"s{at}") for at in range(3)]
        expected: list[list[str]] = [[], [], []]
        with Writer(store, window_ms=1) as writer:
            queues = [writer.open(session) for session in sessions]
            for number, (which, delta, flush) in enumerate(moves):
                put(queues[which], str(number), delta=delta)
                expected[which].append(str(number))
                if flush:
                    queues[which].flushed().result(30)
                    assert texts(store, f"s{which}") == expected[which]
        assert [texts(store, f"s{at}") for at in range(3)] == expected
        assert damage(store) == []


def test_a_flush_that_nobody_waits_for_any_more_harms_nobody(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)

        async def give_up() -> None:
            put(queue, "a", delta=True)
            waits = asyncio.ensure_future(queue.flush())
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits

        for _ in range(5):
            asyncio.run(give_up())
        put(queue, "b")
        queue.flushed().result(30)
        assert texts(store) == ["a"] * 5 + ["b"]


def test_a_fact_that_is_not_the_next_one_is_refused_and_nothing_is_queued(store: SqlStore) -> None:
    session = made(store)
    with Writer(store) as writer:
        queue = writer.open(session)
        put(queue, "a")
        for seq in (0, 2):
            line = NewEvent("feedback/record", {"text": "stray"}, 1).line(seq, 1)
            (fact,) = envelope.facts(line, queue.session.id)
            with pytest.raises(WrongExpectedSeq) as refused:
                queue.put(fact, line)
            assert (refused.value.expected, refused.value.actual) == (seq, 1)
        put(queue, "b")
    assert texts(store) == ["a", "b"]
    assert damage(store) == []


def test_a_session_that_is_closed_is_sealed_and_forgotten_and_can_be_opened_again(store: SqlStore) -> None:
    session, other = made(store), made(store, "other")
    with Writer(store, window_ms=60_000) as writer:
        queue, kept = writer.open(session), writer.open(other)
        put(queue, "a", delta=True)
        asyncio.run(queue.close())
        assert texts(store) == ["a"]
        assert store.session("s")._row.sealed_lines == 1
        assert list(writer._sessions.values()) == [kept]
        with pytest.raises(WriterClosed):
            put(queue, "too late")
        asyncio.run(queue.close())
        again = writer.open(store.session("s"))
        put(again, "b")
        again.flushed().result(30)
    assert texts(store) == ["a", "b"]


def test_closing_a_session_raises_what_its_facts_failed_with(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)
        overtaken(store, queue)
        with pytest.raises(CommitFailed):
            asyncio.run(queue.close())


def test_a_session_whose_failure_was_told_is_forgotten_when_it_is_left(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)
        overtaken(store, queue)
        with pytest.raises(CommitFailed):
            queue.flushed().result(30)
        queue.left().result(30)
        assert not writer._sessions
        assert writer.opened(session) is None


def test_facts_that_the_database_does_not_take_fail_alone(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("one", "poisoned", "other")
    with Writer(store, window_ms=60_000) as writer:
        queues = {name: writer.open(made(store, name)) for name in names}

        def refuse(*_: Any) -> Any:
            raise ValueError("this is more than a row may hold")

        monkeypatch.setattr(queues["poisoned"].session, "grow", refuse)
        for queue in queues.values():
            put(queue, "a", delta=True)
        ends = {name: queue.flushed() for name, queue in queues.items()}
        assert ends["one"].result(30) is None
        assert ends["other"].result(30) is None
        assert "more than a row may hold" in str(ends["poisoned"].exception(30))
    assert [texts(store, name) for name in names] == [["a"], [], ["a"]]
    assert damage(store) == []


def test_each_who_asks_gets_an_error_of_his_own(store: SqlStore) -> None:
    session = made(store)
    with Writer(store, window_ms=60_000) as writer:
        queue = writer.open(session)
        overtaken(store, queue)
        errors = [queue.flushed().exception(30) for _ in range(3)]
        with pytest.raises(CommitFailed) as raised:
            put(queue, "more")
        errors.append(raised.value)
        assert len({id(error) for error in errors}) == 4
        assert {str(error) for error in errors} == {str(errors[0])}
        assert all(isinstance(error, CommitFailed) and error.__cause__ is not None for error in errors)


def test_a_producer_that_never_looks_for_room_waits_at_the_bound(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playhead.eventstore.sql.writer.MOST_QUEUED_BYTES", 4_000)
    session = made(store)
    most = 0
    with Writer(store) as writer:
        queue = writer.open(session)
        for at in range(400):
            put(queue, f"{at:0200}", delta=True)
            most = max(most, queue.queued_bytes)
    assert most < 4_000 + 400
    assert len(texts(store)) == 400


def test_a_producer_that_waits_for_room_is_told_when_there_will_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playhead.eventstore.sql.writer.MOST_QUEUED_BYTES", 100)
    with open_store(str(tmp_path / "store.sqlite")) as store, Writer(store, window_ms=60_000) as writer:
        queue = writer.open(made(store))

        def full() -> Any:
            raise StoreUnavailable("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(store.database, "write", full)
            put(queue, "x" * 200, delta=True)
            flushed = queue.flushed()  # else the window keeps the writer from beginning
            with pytest.raises(CommitFailed, match="disk is full"):
                put(queue, "y", delta=True)
            assert isinstance(flushed.exception(30), CommitFailed)


def test_a_writer_that_breaks_down_lets_nobody_wait(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(store, window_ms=60_000)
    queue = writer.open(made(store))

    def broken(_batch: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(writer, "_outcomes", broken)
    put(queue, "a", delta=True)
    assert "MemoryError" in str(queue.flushed().exception(30))
    with pytest.raises(CommitFailed):
        put(queue, "b")
    writer.close()


def test_reading_a_session_while_it_is_written_disturbs_nobody(store: SqlStore) -> None:
    session = made(store)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            assert len(list(session.read())) <= session.next_seq

    readers = [threading.Thread(target=read) for _ in range(2)]
    with Writer(store, window_ms=1) as writer:
        queue = writer.open(session)
        for reader in readers:
            reader.start()
        for at in range(300):
            put(queue, str(at), delta=at % 5 != 0)
            if at % 20 == 0:
                queue.flushed().result(30)
        stop.set()
        for reader in readers:
            reader.join()
    assert texts(store) == [str(at) for at in range(300)]
    assert damage(store) == []


UNCLOSED = """
import sys
from playhead.eventstore import envelope
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store
from playhead.eventstore.sql.writer import Writer
store = open_store(sys.argv[1])
queue = Writer(store, window_ms=60_000).open(store.session("s"))
for seq in range(3):
    line = NewEvent("assistant/chunk", {"text": str(seq)}, 1).line(seq, 1)
    queue.put(*envelope.facts(line, "s"), line)
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_what_is_queued_when_the_interpreter_ends_is_committed(tmp_path: Path, end: str) -> None:
    address = str(tmp_path / "store.sqlite")
    with open_store(address) as store:
        made(store)
    script = UNCLOSED.replace("{end}", end)
    subprocess.run([sys.executable, "-c", script, address], check=False, capture_output=True, timeout=600)
    with open_store(address) as store:
        assert texts(store) == ["0", "1", "2"]


FORKED = """
import os, sys
from playhead.eventstore import envelope
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store
from playhead.eventstore.sql.writer import Writer, WriterClosed
with open_store(sys.argv[1]) as store, Writer(store, window_ms=60_000) as writer:
    queue = writer.open(store.create(SessionHeader("s", 1)))
    def put(text):
        line = NewEvent("assistant/chunk", {"text": text}, 1).line(queue.next_seq, 1)
        queue.put(*envelope.facts(line, "s"), line)
    put("parent")
    if os.fork() == 0:
        for refused in (lambda: put("child"), queue.flushed, lambda: writer.open(queue.session)):
            try:
                refused()
            except WriterClosed as error:
                print("forked from" in str(error), flush=True)
        writer.close()
        os._exit(0)
    os.wait()
    put("parent again")
"""


def test_a_forked_process_is_refused_and_does_not_write_what_its_parent_queued(tmp_path: Path) -> None:
    address = str(tmp_path / "store.sqlite")
    ran = subprocess.run(
        [sys.executable, "-c", FORKED, address], capture_output=True, text=True, timeout=600, check=False
    )
    assert (ran.stdout, ran.returncode) == ("True\nTrue\nTrue\n", 0), ran.stderr
    with open_store(address) as store:
        assert texts(store) == ["parent", "parent again"]


FULL_DISK = """
import resource, sys
from playhead.eventstore import envelope
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store
from playhead.eventstore.sql.writer import CommitFailed, Writer
with open_store(sys.argv[1]) as store, Writer(store) as writer:
    queue = writer.open(store.session("s"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    acknowledged = 0
    try:
        while True:
            line = NewEvent("feedback/record", {"text": "x" * 20_000}, 1).line(queue.next_seq, 1)
            queue.put(*envelope.facts(line, "s"), line)
            queue.flushed().result()
            acknowledged = queue.next_seq
    except CommitFailed as error:
        print(acknowledged, error.from_seq, "disk is full" in str(error) or "I/O" in str(error))
"""


def test_a_disk_that_fills_up_fails_what_was_not_stored_and_keeps_what_was(tmp_path: Path) -> None:
    address = str(tmp_path / "store.sqlite")
    with open_store(address) as store:
        made(store)
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, address], capture_output=True, text=True, timeout=600, check=False
    )
    told = ran.stdout.split()
    assert told[2:] == ["True"], ran.stderr
    assert told[0] == told[1]
    assert int(told[0]) > 0
    with open_store(address) as store:
        assert store.session("s").next_seq == int(told[0])
        assert damage(store) == []


@pytest.mark.heavy
def test_whatever_fails_whenever_nothing_that_was_acknowledged_is_missing(store: SqlStore) -> None:
    """Many threads and sessions, a database that fails now and then, sessions closed and opened in the middle."""
    draw = random.Random(7)
    acknowledged: dict[str, int] = {}
    real = store.database.write

    def failing() -> Any:
        if threading.current_thread().name == "playhead-writer" and draw.random() < 0.05:
            raise StoreUnavailable("lost")
        return real()

    def produce(name: str, writer: Writer, seed: int) -> None:
        mine = random.Random(seed)
        queue = writer.open(store.session(name))
        for _ in range(150):
            try:
                put(queue, f"{queue.next_seq}", delta=mine.random() < 0.6)
                if mine.random() < 0.2:
                    until = queue.next_seq
                    queue.flushed().result(60)
                    acknowledged[name] = max(acknowledged[name], until)
                if mine.random() < 0.02:
                    asyncio.run(queue.close())
                    acknowledged[name] = max(acknowledged[name], queue.next_seq)
                    queue = writer.open(store.session(name))
            except (CommitFailed, WriterClosed):
                queue = writer.open(store.session(name))
                assert queue.next_seq >= acknowledged[name]

    names = [f"s{at}" for at in range(8)]
    for name in names:
        made(store, name)
        acknowledged[name] = 0
    store.database.write = failing  # type: ignore[method-assign]
    try:
        with Writer(store, window_ms=2) as writer:
            threads = [
                threading.Thread(target=produce, args=(name, writer, seed)) for seed, name in enumerate(names)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    except CommitFailed:
        pass  # the last commit of a session, of which nobody had asked
    finally:
        store.database.write = real  # type: ignore[method-assign]
    for name in names:
        stored = texts(store, name)
        assert stored == [str(at) for at in range(len(stored))]
        assert len(stored) >= acknowledged[name] > 0
    assert [fact.position for fact in store.read_all()] == list(range(1, store.position + 1))
    assert damage(store) == []


TWO = """
import sys
from playhead.eventstore import envelope
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store
from playhead.eventstore.sql.writer import CommitFailed, Writer
mine = sys.argv[2]
with open_store(sys.argv[1]) as store, Writer(store, window_ms=1) as writer:
    names = [f"{mine}-{at}" for at in range(3)]
    own = [writer.open(store.create(SessionHeader(name, 1))) for name in names]
    shared = writer.open(store.session("shared"))
    for at in range(100):
        for queue in (*own, shared):
            line = NewEvent("feedback/record", {"text": f"{mine} {queue.next_seq}"}, 1).line(queue.next_seq, 1)
            try:
                queue.put(*envelope.facts(line, queue.session.id), line)
                if at % 10 == 0:
                    queue.flushed().result()
            except CommitFailed:
                assert queue is shared
                shared = writer.open(store.session("shared"))
"""


@pytest.mark.heavy
def test_two_processes_fail_each_other_only_where_they_write_to_the_same_session(store: SqlStore) -> None:
    made(store, "shared")
    address = store.database.url.render_as_string(hide_password=False)
    children = [
        subprocess.Popen([sys.executable, "-c", TWO, address, name], stderr=subprocess.PIPE, text=True)
        for name in ("left", "right")
    ]
    errors = [child.communicate(timeout=600)[1] for child in children]
    for error in errors:
        assert not error or "CommitFailed: session 'shared'" in error, error
    for name in ("left", "right"):
        for at in range(3):
            assert texts(store, f"{name}-{at}") == [f"{name} {seq}" for seq in range(100)]
    shared = texts(store, "shared")
    assert [int(text.split()[1]) for text in shared] == list(range(len(shared)))
    assert [fact.position for fact in store.read_all()] == list(range(1, store.position + 1))
    assert damage(store) == []
