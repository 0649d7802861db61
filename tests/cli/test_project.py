"""``playhead project``: tables for SQL from the command line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from cli_runner import Play
from stores import postgres_url

from playhead import open_store
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.projections import registry
from playhead.projections.materialised import Materialised

WITH_TABLES = [found.name for found in registry.every() if found.tables and not found.on_request]


def test_all_projections_with_tables_are_brought_up_to_date(full: Play) -> None:
    assert all(row[1] == "missing" for row in full("project", "--status").rows)
    ran = full("project")
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err.startswith(f"playhead: {len(WITH_TABLES)} projections, ")
    status = {row[0]: row for row in full("project", "--status").rows}
    assert sorted(status) == [found.name for found in registry.every()]
    for name in WITH_TABLES:
        assert status[name][1] == "current"
        assert status[name][4] == "0"
        assert status[name][5] == "9"


def test_named_projections_are_brought_up_to_date_and_no_other(full: Play) -> None:
    assert [row["projection"] for row in full("project", "inbox", "inbox", "--json").json_lines] == ["inbox"]
    for row in full("project", "--status", "--json").json_lines:
        assert row["state"] == ("current" if row["projection"] == "inbox" else "missing")


def test_a_rebuild_gives_the_same_tables(full: Play) -> None:
    before = full("project", "--json").out
    assert full("project", "--rebuild", "--json").out == before


def test_new_facts_show_as_lag_until_the_next_run(full: Play, store_file: Path) -> None:
    full("project", "inbox")
    with open_store(str(store_file)) as store:
        new = store.create(SessionHeader(SessionId("new"), 1))
        new.append([NewEvent("turn/start", {"turn": 1})])
    (row,) = full("project", "inbox", "--status").rows
    assert (row[1], row[4], row[5]) == ("behind", "1", "9")
    full("project", "inbox")
    (row,) = full("project", "inbox", "--status").rows
    assert (row[1], row[4], row[5]) == ("current", "0", "10")


def test_events_that_nobody_knows_are_told_and_exit_1(full: Play, store_file: Path) -> None:
    with open_store(str(store_file)) as store:
        store.create(SessionHeader(SessionId("odd"), 1)).append([NewEvent("nobody/knows", {})])
    ran = full("project", "inbox", "--json")
    assert ran.code == 1
    assert ran.err == "playhead: session odd: interpretation incomplete: nobody/knows, seq 0 (inbox)\n"
    problem = {"session": "odd", "generation": 1, "unknown": [{"type": "nobody/knows", "seq": 0}]}
    assert ran.json["problems"] == [problem]
    assert full("project", "inbox", "--status").code == 1
    ran = full("project", "inbox", "usage")
    assert ran.err.startswith(
        "playhead: session odd: interpretation incomplete: nobody/knows, seq 0 (2 projections)\n"
    )


def test_a_session_that_cannot_be_read_is_named_and_exits_1(full: Play, store_file: Path) -> None:
    with open_store(str(store_file)) as store:
        for at in range(22):
            store.create(SessionHeader(SessionId(f"bad{at:02}"), 1)).append(
                [NewEvent("turn/start", {"turn": 1})]
            )
        store.seal()
        with store.database.write() as link:
            link.run(
                "UPDATE segment SET body = ? WHERE session_id IN (SELECT id FROM session WHERE key LIKE 'bad%')",
                (b"noise",),
            )
    ran = full("project", "inbox")
    assert ran.code == 1
    lines = ran.err.splitlines()
    assert lines[0].startswith("playhead: session bad00 could not be folded: CorruptLog: ")
    assert lines[20] == "playhead: 2 more problems; --json lists all"
    assert len(full("project", "inbox", "--status", "--json").json["problems"]) == 22


def test_tables_of_a_newer_release_are_left_alone(full: Play, store_file: Path) -> None:
    later = dataclasses.replace(registry.find("inbox"), version=1000)
    with open_store(str(store_file)) as store:
        Materialised(store, later).catch_up()
    ran = full("project")
    assert ran.code == 1
    assert "use a newer Playhead" in ran.err
    assert {row[0]: row[1] for row in full("project", "--status").rows}["inbox"] == "newer"


@pytest.mark.parametrize("words", [["nobody"], ["--rebuild", "--status"]])
def test_what_cannot_be_asked_for_exits_2(full: Play, words: list[str]) -> None:
    assert full("project", *words).code == 2


def test_the_tables_are_the_same_on_postgresql(full: Play, home: Path) -> None:
    full("project")
    with postgres_url() as url:
        full("import", home, "--store", url)
        assert full("project", "--store", url).code == 0
        expected = full("project", "--status", "--json").out
        assert full("project", "--status", "--json", "--store", url).out == expected
