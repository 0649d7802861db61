"""Subscriptions: everything once and in order, across the seam, on every backend and between processes."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stores import ENGINES, store_address

from playhead.eventstore.errors import SessionNotFound
from playhead.eventstore.feed import CAUGHT_UP, PULL_LIMIT, FeedItem, Subscription
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
    threading.Timer(0.05, subscription.close).start()
    assert list(subscription) == [CAUGHT_UP]


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
