"""The page about read tables is true: tables and columns as declared, every example answered, on both engines."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import eventful_session
import pytest
from stores import ENGINES, store_address

import describe_tables
import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.sql import SqlStore
from playhead.eventstore.sql.querying import answer
from playhead.projections import registry
from playhead.projections.materialised import ProjectedStore

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "read-models.md").read_text(encoding="utf-8")
TABLES = [table for projection in registry.every() for table in projection.tables]
QUERIES = list(describe_tables.examples(PAGE))


@pytest.fixture(scope="module", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """The example sessions and one in which much happened, with all tables filled."""
    folder = tmp_path_factory.mktemp("store")
    with store_address(request.param, folder) as address, playhead.open_store(address) as opened:
        import_paths(opened, [ROOT / "examples" / "sessions"])
        fill(opened)
        yield opened


def fill(store: ProjectedStore) -> None:
    """Add the session in which much happened, and make all tables."""
    eventful_session.write(store)
    for projection in store.projections():
        if projection.projection.tables:
            projection.catch_up()


def engine_of(store: SqlStore) -> str:
    return "postgres" if store.database.engine.dialect.name == "postgresql" else "sqlite"


def ask(store: SqlStore, sql: str) -> list[dict[str, Any]]:
    with answer(store.database, sql, timeout_s=60) as found:
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_the_page_says_of_the_tables_what_the_projections_declare() -> None:
    assert describe_tables.rewritten(PAGE) == PAGE, "run `python examples/describe_tables.py`"


def test_every_table_and_every_column_has_its_meaning_on_the_page() -> None:
    for table in TABLES:
        section = PAGE.split(f"### {table.name}\n")[1].split("\n### ")[0]
        assert table.meaning in section
        assert re.findall(r"(?m)^\| `(\w+)` \|", section) == [column.name for column in table.columns]
        assert all(len(column.meaning) > 3 and "|" not in column.meaning for column in table.columns)


def test_there_are_examples_for_what_people_ask() -> None:
    headings = {heading for heading, _, _ in QUERIES}
    assert headings >= {
        "Slowest tools",
        "Retries by provider",
        "Longest-waiting messages",
        "Lost messages",
        "Tokens per day and model",
        "Goal rounds per session",
    }
    assert PAGE.count("```sql") == len(QUERIES)


@pytest.mark.parametrize(("heading", "engine", "query"), QUERIES, ids=[f"{q[0]}-{q[1]}" for q in QUERIES])
def test_an_example_query_is_answered(store: SqlStore, heading: str, engine: str, query: str) -> None:
    if engine and engine != engine_of(store):
        pytest.skip(f"{heading}: this form is for {engine}")
    assert ask(store, query)


def test_the_examples_find_what_happened(store: SqlStore) -> None:
    def example(heading: str) -> list[dict[str, Any]]:
        fitting = [
            query for name, engine, query in QUERIES if name == heading and engine in ("", engine_of(store))
        ]
        return [row for row in ask(store, fitting[0]) if row.get("session") in (None, "eventful")]

    (lost,) = example("Lost messages")
    assert (lost["message_id"], lost["text"], lost["claimed_turn"]) == ("m2", "And some soup.", 3)
    (retry,) = [row for row in example("Retries by provider") if row["failure_code"] == "RATE_LIMIT"]
    assert (retry["provider"], retry["failed"], retry["tried_again"], retry["waited_ms"]) == (
        "deepseek",
        1,
        1,
        500,
    )
    (goal,) = example("Goal rounds per session")
    assert (goal["objective"], goal["phase"], goal["rounds"]) == ("Bake bread.", "complete", 1)
    (job,) = example("Jobs that did not end well")
    assert (job["label"], job["status"], job["duration_ms"]) == ("make", "failed", 400)
    (compaction,) = example("What compactions saved")
    assert (compaction["kind"], compaction["gone"], compaction["written"]) == ("summary", 700, 60)
    assert [row["value"] for row in example("When the sandbox was opened")] == ["danger-full-access"]
    assert [row["state"] for row in example("Sessions that a crash left behind")] == ["open"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_is_there_with_its_columns_and_has_rows(store: SqlStore, table: Any) -> None:
    rows = ask(store, f"SELECT * FROM {table.name} WHERE session = 'eventful'")
    assert rows
    common = [column.name for column in describe_tables.COMMON_COLUMNS]
    assert list(rows[0]) == common + [column.name for column in table.columns]


def test_facts_and_events_agree(store: SqlStore) -> None:
    count = "SELECT type, count(*) AS n FROM {} WHERE session = 'eventful' AND type <> 'assistant/chunk' GROUP BY type"
    events = ask(store, count.format("read_event"))
    assert sum(row["n"] for row in events) == 39
    if engine_of(store) == "sqlite":
        assert ask(store, count.format("fact")) == events


# Dashboards


def panels(engine: str) -> list[dict[str, Any]]:
    name = {"sqlite": "sqlite", "postgres": "postgresql"}[engine]
    file = ROOT / "examples" / "grafana" / "dashboards" / f"playhead-{name}.json"
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["panels"]
    return found


def test_the_panels_of_the_dashboard_are_answered(store: SqlStore) -> None:
    engine = engine_of(store)
    for panel in panels(engine):
        for target in panel["targets"]:
            query = target["queryText"] if engine == "sqlite" else target["rawSql"]
            query = query.replace("$__from", "0").replace("$__to", "9007199254740991")
            assert ask(store, query), panel["title"]


def test_both_dashboards_have_the_same_panels() -> None:
    sqlite, postgres = ([(panel["title"], panel["type"]) for panel in panels(engine)] for engine in ENGINES)
    assert sqlite == postgres
    assert len(sqlite) >= 6


def test_the_dashboards_use_the_data_sources_that_are_provisioned() -> None:
    for engine, name in (("sqlite", "sqlite"), ("postgres", "postgresql")):
        source = ROOT / "examples" / "grafana" / "provisioning" / "datasources" / f"playhead-{name}.yaml"
        uid = re.search(r"(?m)^ +uid: (\S+)$", source.read_text(encoding="utf-8"))
        type = re.search(r"(?m)^ +type: (\S+)$", source.read_text(encoding="utf-8"))
        assert uid is not None
        assert type is not None
        used = {(panel["datasource"]["uid"], panel["datasource"]["type"]) for panel in panels(engine)}
        assert used == {(uid[1], type[1])}


def test_the_pages_of_datasette_are_answered(tmp_path: Path) -> None:
    written = describe_tables.METADATA.read_text(encoding="utf-8")
    metadata = describe_tables.metadata(PAGE)
    assert written == describe_tables.as_file(metadata), "run `python examples/describe_tables.py`"
    file = tmp_path / "playhead.sqlite"
    with playhead.open_store(str(file)) as store:
        import_paths(store, [ROOT / "examples" / "sessions"])
        fill(store)
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        for name, page in metadata["databases"]["playhead"]["queries"].items():
            assert connection.execute(page["sql"]).fetchall(), name


def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with playhead.open_store(str(tmp_path / "playhead.sqlite")) as store:
        eventful_session.write(store)
        store.projection("transcript").catch_up()
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert capsys.readouterr().out.startswith("shell 1 ")
