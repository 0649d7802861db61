from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import example_logs
from cli_runner import Play

import playhead
from playhead import NewEvent


def test_status_tells_counts_and_sizes(full: Play, store_file: Path) -> None:
    figures = full("store", "status", "--json").json
    assert (figures["sessions"], figures["files"], figures["events"]) == (9, 9, 243)
    assert figures["size_bytes"] > 0
    shown = full("store", "status").lines
    assert any(line.split() == ["sessions", "9"] for line in shown)
    assert any(line.split() == ["store", str(store_file)] for line in shown)


def test_seal_compresses_what_was_appended_and_changes_no_head(play: Play, store_file: Path) -> None:
    with playhead.open_store(str(store_file)) as store:
        store.create(example_logs.header("mine")).append([NewEvent("x/y", n) for n in range(20)])
    before = play("sessions", "--json").json["head"]
    assert play("store", "status", "--json").json["unsealed_lines"] == 20
    ran = play("store", "seal")
    assert (ran.code, ran.err) == (0, "playhead: 1 session sealed\n")
    assert play("store", "status", "--json").json["unsealed_lines"] == 0
    assert play("sessions", "--json").json["head"] == before


def test_upgrade_of_a_current_store_changes_nothing(full: Play) -> None:
    ran = full("store", "upgrade")
    assert ran.code == 0
    assert "already" in ran.err


def test_a_store_of_a_newer_release_is_not_opened(full: Play, store_file: Path) -> None:
    with closing(sqlite3.connect(store_file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    for words in (["sessions"], ["store", "upgrade"]):
        ran = full(*words)
        assert ran.code == 3
        assert "use a newer Playhead" in ran.err


def test_a_missing_store_is_not_made(play: Play, store_file: Path) -> None:
    for words in (["store", "status"], ["store", "seal"], ["store", "upgrade"]):
        assert play(*words).code == 3
    assert not store_file.exists()
