"""The bytes of model calls, kept beside a log: in memory, on SQLite, on PostgreSQL."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import MemorySource, event_line, header
from stores import ENGINES, store_address
from wire_exchanges import exchanges

from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.exchange import Exchange, ExchangeRecorder
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.sql import SqlStore, open_store

BACKENDS = ("memory", *ENGINES)
CALL = Exchange(
    dialect="openai",
    path="/chat/completions",
    request=b'{"model":"m"}',
    end="complete",
    began_ms=1,
    ended_ms=9,
    status=200,
    head_ms=2,
    body=b"data: 1\n\ndata: 2\n\n",
    pieces=((0, 3), (9, 5)),
)
_names = itertools.count()


@pytest.fixture(scope="module", params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryLog(lambda: 0)
        return
    with (
        store_address(request.param, tmp_path_factory.mktemp("exchanges")) as address,
        open_store(address) as made,
    ):
        yield made


def new_session(store: Any) -> Any:
    return store.create(header(f"s{next(_names)}"))


# The contract


@given(kept=st.lists(exchanges(), max_size=12))
@settings(max_examples=25)
def test_exchanges_come_back_as_they_were_kept_in_their_order(store: Any, kept: list[Exchange]) -> None:
    session = new_session(store)
    assert [session.keep_exchange(exchange) for exchange in kept] == list(range(len(kept)))
    assert list(session.exchanges()) == kept
    for turn, step in {(exchange.turn, exchange.step) for exchange in kept}:
        expected = [found for found in kept if turn in (None, found.turn) and step in (None, found.step)]
        assert list(session.exchanges(turn=turn, step=step)) == expected


def test_exchanges_change_nothing_of_the_log(store: Any) -> None:
    session = new_session(store)
    session.append([NewEvent("x/note", {"n": 1})])
    before, position, lines = session.info, store.position, list(session.lines())
    session.keep_exchange(CALL)
    assert (session.info, store.position, list(session.lines())) == (before, position, lines)
    assert session.append([NewEvent("x/note", {"n": 2})], expected_seq=1).position == position + 1
    assert list(session.exchanges()) == [CALL]


def test_exchanges_of_one_session_are_not_those_of_another(store: Any) -> None:
    one, other = new_session(store), new_session(store)
    one.keep_exchange(CALL)
    other.keep_exchange(CALL.placed(turn=1))
    assert list(one.exchanges()) == [CALL]
    assert list(other.exchanges(turn=1)) == [CALL.placed(turn=1)]
    assert list(other.exchanges(turn=2)) == []


def test_a_call_is_found_by_the_attempt_that_it_was(store: Any) -> None:
    session = new_session(store)
    places = [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1)]
    for turn, step, number in places:
        session.keep_exchange(CALL.placed(turn=turn, step=step, number=number, seq=turn * 10 + step))
    session.keep_exchange(CALL)
    assert [found.number for found in session.exchanges(turn=1, step=1)] == [1, 2]
    assert [found.turn for found in session.exchanges()] == [1, 1, 1, 2, None]


def test_a_session_may_be_read_while_exchanges_are_kept(store: Any) -> None:
    session = new_session(store)
    for _ in range(20):
        session.keep_exchange(CALL)
    reader = session.exchanges()
    assert next(reader) == CALL
    session.keep_exchange(CALL.placed(turn=7))
    assert sum(1 for _ in reader) >= 19


@pytest.mark.parametrize("engine", ENGINES)
def test_writers_side_by_side_get_numbers_of_their_own(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address, open_store(address) as store:
        store.create(header("s"))
        numbers: list[int] = []

        def keep() -> None:
            session = store.session("s")
            numbers.extend(session.keep_exchange(CALL) for _ in range(10))

        threads = [threading.Thread(target=keep) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(40))
        assert store.verify() == []


# A store


@pytest.mark.parametrize("engine", ENGINES)
def test_an_imported_session_keeps_exchanges_and_exports_as_before(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address, open_store(address) as store:
        lines = [event_line(at) for at in range(3)]
        store.ingest(MemorySource(header("imported"), lines, path="a.jsonl"))
        heads = store.heads()
        store.session("imported").keep_exchange(CALL)
        assert store.heads() == heads
        assert store.compare_heads(heads) == []
        store.ingest(MemorySource(header("imported"), [*lines, event_line(3)], path="a.jsonl"))
        assert list(store.session("imported").exchanges()) == [CALL]
        assert [problem for problem in store.verify() if problem.severity == "error"] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_the_status_of_a_store_counts_exchanges(engine: str, tmp_path: Path) -> None:
    with store_address(engine, tmp_path) as address, open_store(address) as store:
        assert (store.status()["exchanges"], store.status()["exchange_bytes"]) == (0, 0)
        session = store.create(header("s"))
        session.keep_exchange(CALL)
        session.keep_exchange(CALL)
        assert store.status()["exchanges"] == 2
        assert store.status()["exchange_bytes"] > 0


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SqlStore]:
    with open_store(str(tmp_path / "store.sqlite")) as store:
        session = store.create(header("s"))
        for turn in (1, 2, 3):
            session.keep_exchange(CALL.placed(turn=turn))
        yield store


@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        ("UPDATE exchange SET body = x'00' WHERE exchange_no = 1", {"exchange-check"}),
        ("UPDATE exchange SET turn = 9 WHERE exchange_no = 1", {"exchange-check"}),
        ("UPDATE exchange SET exchange_no = 7 WHERE exchange_no = 2", {"exchange-check", "exchange-missing"}),
        ("DELETE FROM exchange WHERE exchange_no = 1", {"exchange-missing", "exchange-count"}),
        ("DELETE FROM exchange WHERE exchange_no = 2", {"exchange-count"}),
        ("UPDATE store SET exchanges = 4", {"exchange-count"}),
    ],
)
def test_verify_finds_what_was_done_to_an_exchange(kept: SqlStore, damage: str, kinds: set[str]) -> None:
    with kept.database.write() as link:
        link.run(damage)
    problems = kept.verify()
    assert {problem.kind for problem in problems} == kinds
    assert all(problem.session == "s" for problem in problems if problem.kind != "exchange-count")
    of_session = {problem.kind for problem in kept.verify(kept.session("s"))}
    assert of_session == kinds - {"exchange-count"}


@pytest.mark.parametrize("column", ["body", "pieces", "request", "headers", "ending", "dialect"])
def test_an_exchange_that_was_changed_is_not_given_out(kept: SqlStore, column: str) -> None:
    with kept.database.write() as link:
        link.run(
            f"UPDATE exchange SET {column} = ? WHERE exchange_no = 1",
            (b"\x28\xb5" if column != "ending" else "x",),
        )
    reader = kept.session("s").exchanges()
    assert next(reader) == CALL.placed(turn=1)
    with pytest.raises(CorruptLog, match="playhead verify") as caught:
        next(reader)
    assert caught.value.kind == "bad-exchange"


# Secrets


SECRET = "Planted/Key-0+1=2~z"
PASSWORD = "pa55-W0rd_planted"
CRUMB = "crumb.4711-planted"


def spellings(secret: str) -> set[bytes]:
    """Every spelling of a secret that would give it away."""
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    plain = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        quote(secret, safe=""),
    }
    return {
        spelling.encode() for spelling in {*plain, encoded, "".join(f"\\u{ord(sign):04x}" for sign in secret)}
    }


def opened(value: Any) -> bytes:
    """The bytes of a column, decompressed."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        return repr(raw).encode()
    return zstandard.ZstdDecompressor().decompress(raw) if raw.startswith(b"\x28\xb5\x2f\xfd") else raw


def everything(folder: Path) -> bytes:
    """All bytes of a store: its files as they lie on disk, and every column decompressed."""
    found = [file.read_bytes() for file in sorted(folder.iterdir())]
    connection = sqlite3.connect(next(folder.glob("*.sqlite")))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            found += [opened(value) for value in row]
    connection.close()
    return b"\n".join(found)


def spelled(draw: st.DrawFn, name: str) -> str:
    """A header's name in any case, with ``_`` for ``-`` at will."""
    cased = "".join(draw(st.sampled_from([sign.lower(), sign.upper()])) for sign in name)
    return cased.replace("-", draw(st.sampled_from("-_")))


@st.composite
def leaky_calls(draw: st.DrawFn) -> dict[str, Any]:
    """A request that has its credentials everywhere, and an answer that repeats them."""
    key_name = draw(st.sampled_from(["authorization", "x-api-key", "api-key", "apikey", "x-goog-api-key"]))
    scheme = draw(st.sampled_from(["Bearer ", "bearer ", "BEARER  ", "Token ", ""]))
    basic = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    headers = [
        (spelled(draw, key_name), scheme + SECRET),
        (spelled(draw, "proxy-authorization"), f"Basic {basic}"),
        (spelled(draw, "cookie"), f"a=1; b={CRUMB}"),
        (spelled(draw, "user-agent"), f"tool/1 ({draw(st.sampled_from(['', 'key ']))}{SECRET})"),
        (spelled(draw, "x-unheard-of"), SECRET),
        ("content-type", "application/json"),
    ]
    member = draw(
        st.sampled_from(["api_key", "apiKey", "x-api-key", "Authorization", "note", "access-token"])
    )
    nested = json.dumps(
        {member: SECRET, "cookie": f"b={CRUMB}", "url": f"https://me:{PASSWORD}@host/?key={SECRET}"}
    )
    body = {
        "model": "m",
        member: SECRET,
        "messages": [
            {"role": "user", "content": f"my key is {SECRET}, Bearer {SECRET}; {member}={SECRET}"},
            {"role": "tool", "content": nested},
            {"role": "tool", "content": json.dumps({"deeper": nested})},
        ],
        "password": PASSWORD,
    }
    text = json.dumps(body, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 2])))
    if draw(st.booleans()):
        text = text.replace("/", "\\/")
    if draw(st.booleans()):
        text = text.replace(SECRET, "".join(f"\\u{ord(sign):04x}" for sign in SECRET))
    parameter = draw(st.sampled_from(["key", "k", "token"]))
    return {
        "url": f"https://me:{quote(PASSWORD)}@127.0.0.1:1/v1/chat/completions?{parameter}={quote(SECRET, safe='')}",
        "headers": headers,
        "body": text.encode(),
    }


@given(calls=st.lists(leaky_calls(), min_size=1, max_size=3), cut=st.integers(1, 30))
@settings(max_examples=30)
def test_no_credential_in_any_spelling_is_anywhere_in_the_store(
    tmp_path_factory: pytest.TempPathFactory, calls: list[dict[str, Any]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("secrets")
    with open_store(str(folder / "store.sqlite")) as store:
        session = store.create(header("s"))
        for call in calls:
            recorder = ExchangeRecorder("openai", began_ms=1, **call)
            echo = f"data: no key {SECRET}, {quote(SECRET, safe='')}, {json.dumps(SECRET)}, {CRUMB}, {PASSWORD}\n\n"
            recorder.head(
                401, [("Content-Type", "text/plain"), ("Set-Cookie", CRUMB), ("X-Request-Id", SECRET)], 2
            )
            for at in range(0, len(echo), cut):
                recorder.piece(echo[at : at + cut].encode(), 3)
            session.keep_exchange(recorder.ended("complete", 4))
        found = everything(folder)  # while the store is open: its write-ahead log lies beside it
        kept = list(session.exchanges())
    for secret in (SECRET, PASSWORD, CRUMB):
        assert [spelling for spelling in spellings(secret) if spelling in found] == []
    for exchange in kept:
        assert json.loads(exchange.request)["model"] == "m"
        assert exchange.body.startswith(b"data: no key ***")
        assert dict(exchange.request_headers)["content-type"] == "application/json"
        assert exchange.path.startswith("/v1/chat/completions?")


def test_the_search_for_secrets_finds_one_that_is_there(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "store.sqlite")) as store:
        session = store.create(header("s"))
        session.keep_exchange(dataclasses.replace(CALL, body=SECRET.encode(), pieces=((0, 1),)))
        assert SECRET.encode() in everything(tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_store_cleans_what_nobody_cleaned_before(backend: str, tmp_path: Path) -> None:
    leaky = dataclasses.replace(
        CALL,
        path=f"https://me:{PASSWORD}@h/chat/completions?api_key={quote(SECRET)}",
        request=json.dumps({"model": "m", "api_key": SECRET}).encode(),
        request_headers=(("Authorization", SECRET), ("User-Agent", f"t Bearer {SECRET}")),
        headers=(("Set-Cookie", CRUMB), ("Retry-After", "2")),
    )

    def check(store: Any) -> None:
        session = store.create(header("s"))
        session.keep_exchange(leaky)
        (kept,) = session.exchanges()
        assert kept == leaky.cleaned()
        assert not any(secret in repr(kept) for secret in (SECRET, PASSWORD, CRUMB))
        assert kept.headers == (("retry-after", "2"),)

    if backend == "memory":
        check(MemoryLog(lambda: 0))
        return
    with store_address(backend, tmp_path) as address, open_store(address) as store:
        check(store)
