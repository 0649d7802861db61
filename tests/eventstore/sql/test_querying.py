"""Queries of users: what they see, and what they cannot do, on both engines."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import example_logs
import pytest
from stores import ENGINES, postgres_url

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import SqlStore, fact_view
from playhead.eventstore.sql.querying import QueryTimedOut, answer

STATEMENTS = [
    "INSERT INTO type (name) VALUES ('x')",
    "UPDATE session SET next_seq = 0",
    "DELETE FROM commit_log",
    "DROP TABLE commit_log",
    "CREATE TABLE mine (a int)",
    "ALTER TABLE type RENAME TO kind",
    "ATTACH 'other.sqlite' AS other",
    "PRAGMA writable_schema = ON",
    "VACUUM",
    "REINDEX",
    "COPY type TO '/tmp/types'",
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "DO $$ BEGIN DELETE FROM type; END $$",
    "SET TRANSACTION READ WRITE",
    "COMMIT",
    "CALL nothing()",
    "LOCK TABLE type",
    "SELECT 1; DROP TABLE commit_log",
    "SELECT 1; COMMIT; DROP TABLE commit_log",
    "EXPLAIN SELECT 1; DROP TABLE commit_log",
    "EXPLAIN ANALYZE DELETE FROM commit_log",
    "WITH x AS (SELECT 1) INSERT INTO type (name) SELECT 'x' FROM x",
    "WITH gone AS (DELETE FROM type RETURNING id) SELECT * FROM gone",
    "SELECT 1 INTO mine",
    "SELECT * FROM type FOR UPDATE",
    "SELECT load_extension('mine')",
    "SELECT * FROM pragma_journal_mode('delete')",
    "SELECT nextval('type_id_seq')",
    "SELECT lo_import('/etc/hostname')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "/* SELECT */ DELETE FROM type",
    "-- SELECT\nDELETE FROM type",
]


@pytest.fixture(scope="module", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """A store with every example log, and a session of its own whose last events are not sealed."""
    folder = tmp_path_factory.mktemp("query")
    example_logs.write_home(folder / "home")
    if request.param == "sqlite":
        with playhead.open_store(str(folder / "store.sqlite")) as opened:
            _fill(opened, folder)
            yield opened
        return
    with postgres_url() as url, playhead.open_store(url) as opened:
        _fill(opened, folder)
        yield opened


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    folder = tmp_path_factory.mktemp("facts")
    example_logs.write_home(folder / "home")
    with playhead.open_store(str(folder / "store.sqlite")) as opened:
        _fill(opened, folder)
        yield opened


def _fill(store: SqlStore, folder: Path) -> None:
    import_paths(store, [folder / "home"])
    session = store.create(SessionHeader(SessionId("un~sealed"), 1))
    for turn in range(3):
        session.append([NewEvent("turn/start", {"turn": turn}, 10 + turn)])
        if turn == 1:
            session.seal()


def ask(store: SqlStore, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    with answer(store.database, sql, **options) as found:
        return [tuple(row) for row in found.rows]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_is_no_query_is_refused_and_changes_nothing(store: SqlStore, statement: str) -> None:
    def state() -> list[tuple[Any, ...]]:
        return ask(store, "SELECT count(*), (SELECT count(*) FROM commit_log), max(name) FROM type")

    before = state()
    with pytest.raises(UsageError):
        ask(store, statement)
    assert state() == before


@pytest.mark.parametrize("text", ["", "  ", "-- nothing", "/* nothing */", "();", "\0", "SELECT '\udcff'"])
def test_what_is_not_even_a_statement_is_refused(store: SqlStore, text: str) -> None:
    with pytest.raises(UsageError):
        ask(store, text)


def test_an_answer_names_its_columns_also_without_rows(store: SqlStore) -> None:
    with answer(store.database, "SELECT key AS session, lines FROM session WHERE key = 'nobody'") as found:
        assert found.columns == ("session", "lines")
        assert list(found.rows) == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "  select 1 ;  ",
        "-- one\nSELECT 1 -- more",
        "/* one */ WITH x AS (SELECT 1 AS a) SELECT a FROM x",
        "VALUES (1)",
        "SELECT '%s', '%' || 'x' WHERE 1 = 1",
    ],
)
def test_queries_are_answered_however_they_begin_and_end(store: SqlStore, query: str) -> None:
    assert len(ask(store, query)) == 1


def test_a_plan_is_shown(store: SqlStore) -> None:
    assert ask(store, "EXPLAIN SELECT * FROM session")


def test_rows_come_in_order_and_all_of_them(store: SqlStore) -> None:
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2345)"
    numbers = f"{counting} SELECT i FROM n ORDER BY i"
    assert ask(store, numbers) == [(i,) for i in range(1, 2346)]


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT 1\n  FROM type x y", "line 2, column 15: "),
        ("SELECT nothing FROM type", "line 1, column 8: "),
        ("SELECT name\n  FROM nowhere", "line 2, column 8: "),
        ("SELECT nofunction(1)", "line 1, column 8: "),
    ],
)
def test_the_error_of_a_query_tells_its_place(store: SqlStore, query: str, place: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask(store, query)
    assert str(refused.value).startswith(place)
    assert "\n" not in str(refused.value)


def test_the_place_is_the_one_where_the_parser_stopped(sqlite: SqlStore) -> None:
    with pytest.raises(UsageError, match=r'^line 1, column 20: near "FROM"'):
        ask(sqlite, "SELECT a FROM type FROM type")
    with pytest.raises(UsageError, match=r"^line 1, column 9: incomplete input"):
        ask(sqlite, "SELECT (")


def test_an_endless_query_stops_in_time(store: SqlStore) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(QueryTimedOut, match=r"0\.2 s"):
        ask(store, endless, timeout_s=0.2)


def test_a_first_row_comes_before_an_endless_answer_ends(store: SqlStore) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    with answer(store.database, endless) as found:
        assert [row[0] for row in islice(found.rows, 3)] == [1, 2, 3]


def test_a_store_in_memory_says_that_it_cannot_be_asked() -> None:
    with playhead.open_store("sqlite://") as store, pytest.raises(UsageError, match="in memory"):
        ask(store, "SELECT 1")


def test_every_fact_is_in_the_view_wherever_it_lies(sqlite: SqlStore) -> None:
    rows = ask(sqlite, "SELECT session, seq, position, time_ms, type, data FROM fact")
    facts = [
        (info.id, fact.seq, fact.position, fact.time_ms, fact.type, fact.raw.decode())
        for info in sqlite.sessions()
        if info.id != "un~sealed"
        for fact in sqlite.session(info.id).read()
    ]
    assert sorted(row for row in rows if row[0] != "un~007Esealed") == sorted(facts)
    assert len(facts) > 200


def test_sealed_and_unsealed_facts_are_alike(sqlite: SqlStore) -> None:
    (sealed,) = ask(sqlite, "SELECT sealed_lines FROM session WHERE key = 'un~007Esealed'")
    assert sealed == (2,)
    rows = ask(
        sqlite, "SELECT seq, time_ms, data FROM fact WHERE session = 'un~007Esealed' ORDER BY position"
    )
    assert rows == [(seq, 10 + seq, f'{{"turn":{seq}}}') for seq in range(3)]


@pytest.mark.parametrize("column", fact_view.COLUMNS)
def test_a_column_is_the_same_alone_and_among_all(sqlite: SqlStore, column: str) -> None:
    at = list(fact_view.COLUMNS).index(column)
    alone = ask(sqlite, f"SELECT {column} FROM fact")
    assert alone == [(row[at],) for row in ask(sqlite, "SELECT * FROM fact")]
    assert any(value is not None for (value,) in alone)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max(data) FROM (SELECT seq, data FROM fact)",
        "SELECT data FROM fact NATURAL JOIN (SELECT max(data) AS data FROM fact)",
        "SELECT max(data) FROM fact a JOIN (SELECT max(data) AS data FROM fact) USING (data)",
        "WITH f AS (SELECT * FROM fact) SELECT data FROM f ORDER BY data DESC LIMIT 1",
        "SELECT (SELECT max(f.data) FROM fact f)",
    ],
)
def test_data_is_there_however_a_query_comes_to_it(sqlite: SqlStore, query: str) -> None:
    (largest,) = ask(sqlite, "SELECT max(data) FROM fact")
    assert largest[0]
    assert set(ask(sqlite, query)) == {largest}


def test_a_line_comes_with_the_first_of_its_facts(sqlite: SqlStore) -> None:
    rows = ask(sqlite, "SELECT seq, line FROM fact WHERE session = 'packed-v0' ORDER BY seq")
    stored = [line.decode() for line in sqlite.session("packed-v0").lines()]
    assert [line for _, line in rows if line is not None] == stored
    assert len(rows) == 33 > len(stored)


def test_a_join_on_a_named_column_reads_no_others(sqlite: SqlStore) -> None:
    with closing(connect(sqlite)) as connection:
        plan = "EXPLAIN SELECT f.type FROM fact f JOIN session s ON 1 JOIN (SELECT 1 AS seq) USING ( seq )"
        assert fact_view.columns_used(connection, plan, lambda *_: sqlite3.SQLITE_OK) == {"type", "seq"}
        plan = "EXPLAIN SELECT 1 FROM fact NATURAL JOIN (SELECT 1 AS seq)"
        assert fact_view.columns_used(connection, plan, lambda *_: sqlite3.SQLITE_OK) == set(
            fact_view.COLUMNS
        )


def connect(store: SqlStore) -> sqlite3.Connection:
    connection = sqlite3.connect(str(store.database.file))
    fact_view.FactLists(connection, ())
    fact_view.create(connection)
    return connection


def test_the_facts_of_a_session_are_found_by_its_index(sqlite: SqlStore) -> None:
    plan = " ".join(
        row[3] for row in ask(sqlite, "EXPLAIN QUERY PLAN SELECT type FROM fact WHERE session = 'x'")
    )
    assert "SCAN s" not in plan
    assert "SCAN g" not in plan
    assert "SCAN e" not in plan


def test_strange_types_and_texts_are_shown_as_text_can(tmp_path: Path) -> None:
    log = tmp_path / "strange.jsonl"
    head = SessionHeader(SessionId("strange"), 1).line()
    line = rb'{"type":"a\u0000\ud800\"","seq":0,"time":-5,"data":["\ud83d",1.0,"'
    log.write_bytes(head + b"\n" + line + '💥"]}\n'.encode())
    with playhead.open_store(str(tmp_path / "store.sqlite")) as store:
        import_paths(store, [log])
        (row,) = ask(store, "SELECT type, time_ms, data FROM fact")
    assert row == ('a\ufffd\ufffd"', -5, '["\\ud83d",1.0,"💥"]')


def test_facts_that_cannot_be_decoded_are_no_empty_answer(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    example_logs.write_file(tmp_path, "hurt", 0)
    with playhead.open_store(str(file)) as store:
        import_paths(store, [tmp_path])
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE segment SET body = substr(body, 1, length(body) - 9)")
        with pytest.raises(CorruptLog, match="hurt"):
            ask(store, "SELECT count(*) FROM fact")
