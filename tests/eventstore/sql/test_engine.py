"""What an address must have to be a store that can be reached."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from playhead.eventstore.errors import StoreUnavailable
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.sql import open_store


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUnavailable, match=r"needs psycopg.*pip install 'playhead\[postgres\]'"):
        open_store("postgresql://localhost/nowhere")


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite", "sqlite+aiosqlite", "sqlite+nothing"])
def test_a_sqlite_store_has_one_driver_whatever_the_address_asks_for(scheme: str, tmp_path: Path) -> None:
    with open_store(f"{scheme}:///{tmp_path}/s.sqlite") as store:
        assert store.position == 0


def test_an_in_memory_store_says_that_it_was_closed() -> None:
    with open_store("sqlite://") as store:
        session = store.create(SessionHeader(SessionId("a"), 1))
    for use in (store.sessions, lambda: list(session.read())):
        with pytest.raises(StoreUnavailable, match="the in-memory store: it was closed, and is gone"):
            use()
