"""The writer: what it acknowledges is durable, what fails is told to exactly those whom it concerns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import ENGINES, store_address

from playhead.eventstore import envelope
from playhead.eventstore.errors import ReadOnlySession, StoreUnavailable
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
        put(queue, "lost", delta=True)
        store.session("s").append([NewEvent("feedback/record", {"text": "theirs"}, 1)])
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
    put(writer.open(made(store)), "lost", delta=True)
    store.session("s").append([NewEvent("feedback/record", {"text": "theirs"}, 1)])
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
