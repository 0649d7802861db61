"""Reading in pages: of few rows, and of few bytes where rows are large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import ENGINES, store_address

from playhead import NewEvent, open_store
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.sql import reading
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.store import SqlStore

LARGE = reading.PAGE_BYTES // 3


@pytest.fixture(params=[*ENGINES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    with store_address(request.param, tmp_path) as url, open_store(url, create=True) as opened:
        yield opened


def session_of(store: SqlStore, sizes: list[int], id: str = "s") -> SqlSession:
    """A session with texts of these sizes, none of them sealed: many processes wrote it, each a little."""
    store.create(SessionHeader(SessionId(id), 1))
    for size in sizes:
        store.session(id).append([NewEvent("feedback/record", {"text": "x" * size})])
    return store.session(id)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each answer of the database had, from now on."""
    sizes: list[int] = []
    every = Link.all

    def measured(link: Link, sql: str, values: Any = ()) -> Any:
        rows = every(link, sql, values)
        sizes.append(sum(len(cell) for row in rows for cell in row if isinstance(cell, bytes)))
        return rows

    monkeypatch.setattr(Link, "all", measured)
    return sizes


def test_no_read_of_large_rows_takes_more_than_a_page_of_bytes(store: SqlStore, fetched: list[int]) -> None:
    session = session_of(store, [LARGE] * 20)
    texts = ["x" * LARGE] * 20
    assert len(list(session.lines())) == 20
    for read in (session.read, session.events, session.joined_events):
        assert [fact.json["text"] for fact in read()] == texts
    assert [fact.seq for fact in store.read_all()] == list(range(20))
    assert store.verify() == []
    assert max(fetched) <= reading.PAGE_BYTES
    session.seal()
    assert max(fetched) <= reading.PAGE_BYTES
    assert [fact.json["text"] for fact in session.read()] == texts


def test_a_row_larger_than_a_page_is_a_page_of_its_own(store: SqlStore, fetched: list[int]) -> None:
    session = session_of(store, [10, 2 * reading.PAGE_BYTES, 2 * reading.PAGE_BYTES, 10])
    assert [len(fact.json["text"]) for fact in session.read()] == [
        10,
        2 * reading.PAGE_BYTES,
        2 * reading.PAGE_BYTES,
        10,
    ]
    assert max(fetched) < 3 * reading.PAGE_BYTES


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    most=st.integers(1, 150),
    start=st.integers(0, 11),
)
def test_pages_of_any_size_give_every_line_once(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], most: int, start: int
) -> None:
    with open_store("sqlite://", create=True) as store:
        session = session_of(store, sizes)
        whole = list(session.lines())
        monkeypatch.setattr(reading, "PAGE_BYTES", most + 60)
        monkeypatch.setattr(reading, "PAGE_ROWS", 5)
        assert list(session.lines()) == whole
        assert [fact.seq for fact in session.read(start)] == list(range(start, len(sizes)))
        pages = list(reading.pages(reading.paged(store.database.read), session._fresh()))
        for page in pages:
            assert isinstance(page, reading.StoredLines)
            assert page.line_count <= 5
            assert page.line_count == 1 or sum(map(len, page.lines)) <= most + 60
