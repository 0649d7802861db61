"""Subscriptions: everything once and in order, across the seam, on every backend and between processes."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stores import ENGINES, store_address

from playhead.eventstore.errors import SessionNotFound, StoreUnavailable
from playhead.eventstore.feed import CAUGHT_UP, PULL_BYTES, PULL_LIMIT, FeedItem, Subscription
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import open_store

QUIET_S = 0.3


@pytest.fixture(params=["memory", *ENGINES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryLog(itertools.count(1).__next__)
        return
    with store_address(request.param, tmp_path) as address, open_store(address) as opened:
        yield opened


def note(text: str) -> NewEvent:
    return NewEvent("feedback/record", {"text": text}, 1)


def made(store: Any, name: str = "s") -> Any:
    return store.create(SessionHeader(SessionId(name), 1))


def texts(items: list[FeedItem]) -> list[str]:
    return [item.json["text"] if isinstance(item, Recorded) else "--" for item in items]


def test_what_was_there_comes_first_then_the_seam_once_then_what_comes(store: Any) -> None:
    session = made(store)
    session.append([note("old 1"), note("old 2")])
    feed = iter(store.subscribe())
    seen = [next(feed), next(feed), next(feed)]
    session.append([note("new 1")])
    made(store, "other").append([note("new 2")])
    seen += [next(feed), next(feed)]
    assert texts(seen) == ["old 1", "old 2", "--", "new 1", "new 2"]
    assert [item.position for item in seen if isinstance(item, Recorded)] == [1, 2, 3, 4]
    feed.close()  # type: ignore[attr-defined]


def test_one_session_is_followed_by_seq_and_none_of_the_others_shows(store: Any) -> None:
    session, other = made(store), made(store, "other")
    session.append([note("0"), note("1")])
    other.append([note("elsewhere")])
    feed = iter(store.subscribe("s", after=0, timeout_s=QUIET_S))
    seen = [next(feed), next(feed)]
    other.append([note("elsewhere too")])
    session.append([note("2")])
    assert texts([*seen, *feed]) == ["1", "--", "2"]


def test_an_empty_store_is_caught_up_at_once_and_a_quiet_feed_ends_when_told(store: Any) -> None:
    assert list(store.subscribe(timeout_s=QUIET_S)) == [CAUGHT_UP]


def test_following_a_session_that_is_not_there_is_refused(store: Any) -> None:
    with pytest.raises(SessionNotFound):
        store.subscribe("missing")


def test_closing_ends_a_wait(store: Any) -> None:
    subscription: Subscription = store.subscribe()
    seen = []
    for item in subscription:
        seen.append(item)
        threading.Timer(0.05, subscription.close).start()
    assert seen == [CAUGHT_UP]


def test_a_loop_can_follow_as_well(store: Any) -> None:
    session = made(store)
    session.append([note("old")])

    async def follow() -> list[FeedItem]:
        seen: list[FeedItem] = []
        async for item in store.subscribe():
            seen.append(item)
            if item is CAUGHT_UP:
                await asyncio.to_thread(session.append, [note("new")])
            if len(seen) == 3:
                break
        return seen

    assert texts(asyncio.run(follow())) == ["old", "--", "new"]


@pytest.mark.parametrize("of", [None, "s"], ids=["all", "one-session"])
def test_large_facts_are_pulled_a_few_at_a_time(store: Any, of: str | None) -> None:
    session = made(store)
    session.append([note(letter * (PULL_BYTES // 2)) for letter in "abcdefg"])
    feed = store.subscribe(of, timeout_s=QUIET_S)
    seen, held = [], []
    for item in feed:
        seen.append(item)
        held.append(len(feed._ready))
    assert [text[:2] for text in texts(seen)] == [*(letter * 2 for letter in "abcdefg"), "--"]
    assert max(held) <= 2


def test_more_than_one_pull_holds_comes_whole_before_the_seam(store: Any) -> None:
    session = made(store)
    session.append([note(str(at)) for at in range(PULL_LIMIT + 5)])
    seen = list(store.subscribe(timeout_s=QUIET_S))
    assert seen[-1] is CAUGHT_UP
    assert [item.seq for item in seen[:-1] if isinstance(item, Recorded)] == list(range(PULL_LIMIT + 5))


def test_facts_of_many_writers_come_once_and_in_order_of_position(store: Any) -> None:
    writers, each = 4, 30

    def write(name: str) -> None:
        session = made(store, name)
        for at in range(each):
            session.append([note(f"{name} {at}")])

    threads = [threading.Thread(target=write, args=(f"w{at}",)) for at in range(writers)]
    feed = iter(store.subscribe())
    for thread in threads:
        thread.start()
    facts: list[Recorded] = []
    while len(facts) < writers * each:
        item = next(feed)
        if isinstance(item, Recorded):
            facts.append(item)
    for thread in threads:
        thread.join()
    assert [fact.position for fact in facts] == list(range(1, writers * each + 1))


APPEND_ELSEWHERE = """
import sys
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import open_store
with open_store(sys.argv[1]) as store:
    store.session("s").append([NewEvent("feedback/record", {"text": "from elsewhere"}, 1)])
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_commit_of_another_process_arrives(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address, open_store(address) as store:
        made(store)
        feed = iter(store.subscribe())
        assert next(feed) is CAUGHT_UP
        subprocess.run([sys.executable, "-c", APPEND_ELSEWHERE, address], check=True)
        assert texts([next(feed)]) == ["from elsewhere"]
        feed.close()  # type: ignore[attr-defined]


def test_a_subscription_that_nobody_iterates_holds_nothing_and_may_be_closed_at_any_time(
    tmp_path: Path,
) -> None:
    with open_store(str(tmp_path / "store.sqlite")) as store:
        made(store)
        idle = [store.subscribe() for _ in range(100)]
        assert store.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        idle[0].close()
        assert list(idle[0]) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_many_subscriptions_share_one_watcher_and_leave_the_pool_alone(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address, open_store(address) as store:
        session = made(store)
        feeds = [iter(store.subscribe()) for _ in range(40)]  # more than there are connections in a pool
        assert [next(feed) for feed in feeds] == [CAUGHT_UP] * 40
        assert store.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        assert [thread.name for thread in threading.enumerate()].count("playhead-watch") == 1
        session.append([note("new")])
        assert texts([next(feed) for feed in feeds]) == ["new"] * 40
        for feed in feeds:
            feed.close()  # type: ignore[attr-defined]
        assert store._watch._followers == 0


def test_a_context_closes_its_subscription(store: Any) -> None:
    with store.subscribe() as subscription:
        assert next(iter(subscription)) is CAUGHT_UP
    assert list(subscription) == []


def test_a_wait_on_a_loop_that_is_cancelled_ends_its_thread_at_once(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playhead.eventstore.feed.SAFETY_S", 3600)
    made(store)

    async def follow(subscription: Subscription) -> None:
        async for _ in subscription:
            pass

    async def run() -> None:
        tasks = [asyncio.ensure_future(follow(store.subscribe())) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(ended, asyncio.CancelledError)
            for ended in await asyncio.gather(*tasks, return_exceptions=True)
        )

    asyncio.run(run())
    for thread in threading.enumerate():
        if thread.name == "playhead-call":
            thread.join(60)  # well below what a wait may take
            assert not thread.is_alive()


def test_followers_on_a_loop_take_no_thread_from_others(store: Any) -> None:
    """Followers that wait must not use up the few threads that a loop has for everybody."""
    made(store)

    async def follow() -> None:
        async for _ in store.subscribe():
            pass

    async def run() -> str:
        tasks = [asyncio.ensure_future(follow()) for _ in range(40)]
        await asyncio.sleep(0)
        told = await asyncio.wait_for(asyncio.to_thread(lambda: "there is room"), 30)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return told

    assert asyncio.run(run()) == "there is room"


def test_a_store_that_fails_is_told_to_who_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(tmp_path / "store.sqlite")) as store:
        feed = iter(store.subscribe())
        assert next(feed) is CAUGHT_UP

        def gone() -> Any:
            raise StoreUnavailable("the server is gone")

        with monkeypatch.context() as broken:
            broken.setattr(store.database, "read", gone)
            store.database.bell.ring()
            with pytest.raises(StoreUnavailable, match="the server is gone"):
                next(feed)
        assert store._watch._followers == 0


def test_a_listener_that_loses_its_connection_is_replaced_and_nothing_is_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        store_address("postgres", tmp_path) as address,
        open_store(address) as store,
        open_store(address) as admin,
    ):
        session = made(store)
        feed = iter(store.subscribe())
        assert next(feed) is CAUGHT_UP
        with admin.database.write() as link:
            ended = link.all(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
        assert len(ended) == 1
        admin.session("s").append([note("meanwhile")])
        assert texts([next(feed)]) == ["meanwhile"]
        until = time.monotonic() + 30
        while "commits of others are not heard" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.5)
        admin.session("s").append([note("heard again")])
        assert texts([next(feed)]) == ["heard again"]
        assert session.next_seq == 2
        feed.close()  # type: ignore[attr-defined]


def test_a_wake_that_got_lost_delays_and_does_not_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playhead.eventstore.feed.SAFETY_S", 0.05)
    log = MemoryLog(itertools.count(1).__next__)
    session = made(log)
    feed = iter(log.subscribe())
    assert next(feed) is CAUGHT_UP
    monkeypatch.setattr(log.bell, "ring", lambda: None)
    session.append([note("unheard")])
    assert texts([next(feed)]) == ["unheard"]
