"""What is found under a path, and what is left alone."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from playhead.adapters.dsh.discover import APPLICATION_ID, Discovered, discover, is_database


def database(file: Path, application: int = APPLICATION_ID) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA application_id = {application}")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of dsh with one file of each kind."""
    session = tmp_path / "home" / "sessions" / "--w--" / "s1"
    session.mkdir(parents=True)
    for name in ("session.jsonl", "session.v4.jsonl.zstd", "session.lock", "session.jsonl.0a1b2c3d4e5f.tmp"):
        (session / name).write_bytes(b"x")
    (session / "link.jsonl").symlink_to("session.jsonl")
    (session.parent / "loop").symlink_to(session.parent)
    caches = tmp_path / "home" / "storages" / "session_projcache" / "sessions"
    caches.mkdir(parents=True)
    (caches / "s1.json").write_bytes(b"{}")
    (tmp_path / "home" / ".anonymous-user-id").write_text("id")
    database(tmp_path / "home" / "b.db")
    database(tmp_path / "home" / "foreign.db", 7)
    (tmp_path / "home" / "b.db-wal").write_bytes(b"")
    os.mkfifo(tmp_path / "home" / "pipe.jsonl")
    return tmp_path / "home"


def names(found: Discovered) -> list[str]:
    return [candidate.path for candidate in found.candidates]


def test_a_home_gives_its_logs_and_databases_in_the_order_of_the_names(home: Path) -> None:
    found = discover(str(home))
    assert names(found) == [
        "b.db",
        "sessions/--w--/s1/session.jsonl",
        "sessions/--w--/s1/session.v4.jsonl.zstd",
    ]
    assert [candidate.kind for candidate in found.candidates] == ["database", "log", "log"]
    assert {candidate.root for candidate in found.candidates} == {str(home)}
    assert found.troubles == []


def test_locks_caches_links_pipes_and_unfinished_files_are_counted_as_ignored(home: Path) -> None:
    # id file, foreign database, pipe, cache; then lock, temporary file, two links in the sessions
    assert discover(str(home)).ignored == 8


@pytest.mark.parametrize("part", ["sessions", "sessions/--w--", "sessions/--w--/s1"])
def test_any_folder_may_be_asked_for_and_is_the_root(home: Path, part: str) -> None:
    found = discover(str(home / part))
    assert len(found.candidates) == 2
    for candidate in found.candidates:
        assert candidate.root == str(home / part)
        assert os.path.join(candidate.root, candidate.path) == candidate.file


def test_a_named_file_is_a_candidate_below_its_folder_whatever_it_is(home: Path) -> None:
    session = home / "sessions" / "--w--" / "s1"
    for name in ("session.lock", "link.jsonl", "session.jsonl.0a1b2c3d4e5f.tmp"):
        [candidate] = discover(str(session / name)).candidates
        assert (candidate.root, candidate.path, candidate.kind) == (str(session), name, "log")
    [candidate] = discover(str(home / "foreign.db")).candidates
    assert candidate.kind == "database"


def test_a_relative_path_has_the_same_root_as_the_absolute_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    assert discover("sessions").candidates == discover(str(home / "sessions")).candidates


def test_a_link_to_a_folder_that_was_named_is_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(home)
    assert len(discover(str(tmp_path / "named")).candidates) == 3


@pytest.mark.parametrize("path", ["missing", "missing/below", "nul\0byte"])
def test_a_path_that_is_not_there_is_a_finding(tmp_path: Path, path: str) -> None:
    [trouble] = discover(str(tmp_path / path)).troubles
    assert trouble.finding.kind == "missing"


def test_a_named_pipe_is_a_finding(home: Path) -> None:
    found = discover(str(home / "pipe.jsonl"))
    assert (found.candidates, found.troubles[0].finding.kind) == ([], "unreadable")


def test_a_folder_that_cannot_be_read_is_a_finding_and_the_others_are_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("s1"):
            raise PermissionError(13, "Permission denied", path)
        if path.endswith("storages"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = discover(str(home))
    assert names(found) == ["b.db"]
    assert sorted(os.path.basename(trouble.path) for trouble in found.troubles) == ["s1", "storages"]
    assert {trouble.finding.kind for trouble in found.troubles} == {"unreadable"}


@pytest.mark.parametrize("application", [APPLICATION_ID, 0, 7])
def test_a_database_whose_first_page_lies_in_its_wal_is_told_by_it(tmp_path: Path, application: int) -> None:
    file = tmp_path / "new.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.execute(f"PRAGMA application_id = {application}")
    try:
        assert file.read_bytes()[68:72] == bytes(4)
        assert is_database(str(file)) == (application == APPLICATION_ID)
        assert len(discover(str(tmp_path)).candidates) == (application == APPLICATION_ID)
    finally:
        connection.close()


def test_a_deep_tree_is_walked_without_recursion(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 600)
    deep.mkdir(parents=True)
    (deep / "session.jsonl").write_bytes(b"")
    assert names(discover(str(tmp_path))) == ["d/" * 600 + "session.jsonl"]
