"""Ids, paths and places that try to lead somewhere else: nothing is written outside the target."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from children import header_line, log, tree
from children import playhead_here as playhead
from reference import shared_path

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import session_row
from playhead.eventstore.sql.artifacts import ArtifactRow

IDS = [
    "../../outside/pwned",
    "/tmp/playhead-pwned",
    "a/b",
    "a~002Fb",
    "..",
    ".",
    "~",
    "CON",
    "a\0b",
    "x" * 300,
    "ünï-cødé",
    "é" * 200,
    "Case",
    "case",
    "a.jsonl",
    "-o",
    "\ud800",
    "x" * 300 + "y",
    "line\nbreak\x1b[2J",
]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder deep enough for ``../..`` to stay in sight; a test compares all of it."""
    inside = tmp_path / "outside" / "deep" / "here"
    inside.mkdir(parents=True)
    return inside


def everything(tmp_path: Path, but: Path) -> set[Path]:
    """All files and folders below ``tmp_path`` that are neither of the store nor below ``but``."""
    return {
        path
        for path in tmp_path.rglob("*")
        if not path.name.startswith("store.sqlite") and but not in (path, *path.parents)
    }


def test_the_hostile_logs_that_were_reported_come_back_as_twelve_files(tmp_path: Path, world: Path) -> None:
    case = shared_path("cases/23-hostile-session-ids")
    expected = json.loads((case / "expected.json").read_bytes())
    store, out = tmp_path / "store.sqlite", world / "out"
    assert playhead("import", case / "in", store=store, cwd=world).code == 0
    before = everything(tmp_path, out)
    assert playhead("export", "--all", "-o", out, store=store, cwd=world).code == 0
    assert everything(tmp_path, out) == before
    assert not (world / "a").exists()
    assert not Path("/tmp/pwned").exists()
    names = [path.name for path in out.iterdir()]
    assert len({name.casefold() for name in names}) == len(names) == 12
    assert all(len(name.encode()) <= 255 for name in names)
    with open_store(str(tmp_path / "again.sqlite")) as again:
        import_paths(again, [out])
        infos = again.sessions()
        assert sorted(info.id for info in infos) == sorted(expected["ids"])
        assert {info.events for info in infos} == {expected["events_each"]}


def test_an_id_that_looks_like_a_path_never_reads_the_file_there(tmp_path: Path, world: Path) -> None:
    store = tmp_path / "store.sqlite"
    victim = tmp_path / "outside" / "pwned"
    victim.write_bytes(log("victim", 3))
    wanted = "../../pwned"
    assert (world / wanted).resolve() == victim
    with open_store(str(store)) as held:
        held.create(SessionHeader(SessionId("other"), 1))
    ran = playhead("events", wanted, store=store, cwd=world)
    assert (ran.code, ran.out) == (2, b"")
    assert "no session" in ran.err
    with open_store(str(store)) as held:
        held.create(SessionHeader(SessionId(wanted), 1)).append([NewEvent("x/mine", {})])
    ran = playhead("events", wanted, store=store, cwd=world)
    assert ran.code == 0
    assert b"x/mine" in ran.out


@pytest.mark.parametrize("kind", ["imported", "native"])
def test_hostile_ids_stay_inside_the_target(tmp_path: Path, world: Path, kind: str) -> None:
    store, out, logs = tmp_path / "store.sqlite", world / "out", tmp_path / "logs"
    logs.mkdir()
    with open_store(str(store)) as held:
        for number, id in enumerate(IDS):
            header = SessionHeader(SessionId(id), 1)
            if kind == "native":
                held.create(header).append([NewEvent("x/count", {"n": number})])
            else:
                (logs / f"{number}.jsonl").write_bytes(header.line() + b"\n")
        import_paths(held, [logs])
        assert sorted(info.id for info in held.sessions()) == sorted(IDS)
    before = everything(tmp_path, out)
    ran = playhead("export", "--all", "-o", out, store=store, cwd=world)
    assert ran.code == 0, ran.err
    assert everything(tmp_path, out) == before
    names = [path.name for path in out.iterdir()]
    assert len({name.casefold() for name in names}) == len(names) == len(IDS)
    assert all(len(name.encode()) <= 255 for name in names)
    with open_store(str(tmp_path / "again.sqlite")) as again:
        import_paths(again, [out])
        assert sorted(info.id for info in again.sessions()) == sorted(IDS)


@pytest.mark.parametrize("id", [id for id in IDS if "\0" not in id and "\ud800" not in id and id != "-o"])
def test_every_command_takes_a_hostile_id_or_refuses_it_in_one_line(
    tmp_path: Path, world: Path, id: str
) -> None:
    store = tmp_path / "store.sqlite"
    with open_store(str(store)) as held:
        held.create(SessionHeader(SessionId(id), 1)).append([NewEvent("x/mine", {})])
    for words in (["events", id], ["verify", id], ["export", id]):
        ran = playhead(*words, store=store, cwd=world)
        assert ran.code == 0, (words, ran.err)
        assert b"\x1b" not in ran.err.encode()
        assert "\n" not in ran.err[:-1]


def tampered(store: Path, **columns: str) -> None:
    """Write other values into the row of the only file, its check made to fit."""
    with closing(sqlite3.connect(store)) as connection, connection:
        names = ", ".join(ArtifactRow._fields)
        row = ArtifactRow(*connection.execute(f"SELECT {names} FROM artifact").fetchone())._replace(**columns)
        connection.execute(
            'UPDATE artifact SET root = ?, path = ?, "check" = ?', (row.root, row.path, row.check())
        )


@pytest.mark.parametrize(
    "columns",
    [
        {"path": "../../x.jsonl"},
        {"path": "/etc/playhead-x"},
        {"path": "a/../../../x"},
        {"path": ""},
        {"path": "."},
        {"path": ".."},
        {"path": "a//b"},
        {"path": "a~0000b"},
        {"path": "x" * 300},
        {"path": "~D800"},
        {"root": "../../.."},
        {"root": "/a/../../.."},
        {"root": "relative"},
        {"root": ""},
        {"root": "-", "path": "../x"},
    ],
    ids=str,
)
def test_a_place_that_was_tampered_with_leads_nowhere_else(
    tmp_path: Path, world: Path, columns: dict[str, str]
) -> None:
    store, out = tmp_path / "store.sqlite", world / "out"
    file = tmp_path / "s.jsonl"
    file.write_bytes(log("s", 3))
    with open_store(str(store)) as held:
        import_paths(held, [file])
    tampered(store, **columns)
    before = everything(tmp_path, out)
    ran = playhead("export", "--all", "-o", out, store=store, cwd=world)
    assert everything(tmp_path, out) == before
    assert not Path("/etc/playhead-x").exists()
    written = tree(out)
    assert (ran.code, len(written)) in ((1, 0), (0, 1)), ran.err
    assert all(content == file.read_bytes() for content in written.values())
    assert ("not written" in ran.err) == (ran.code == 1)


def symlinked_folder(out: Path, outside: Path) -> None:
    (out / "folder").symlink_to(outside)


def symlink_at_the_file(out: Path, outside: Path) -> None:
    (out / "folder").mkdir()
    (out / "folder" / "s.jsonl").symlink_to(outside / "target")


def symlink_at_the_file_to_one_that_is_there(out: Path, outside: Path) -> None:
    (outside / "target").write_bytes(b"mine")
    symlink_at_the_file(out, outside)


def file_in_the_place_of_the_folder(out: Path, outside: Path) -> None:  # noqa: ARG001
    (out / "folder").write_bytes(b"mine")


def folder_in_the_place_of_the_file(out: Path, outside: Path) -> None:  # noqa: ARG001
    (out / "folder" / "s.jsonl").mkdir(parents=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "trap",
    [
        symlinked_folder,
        symlink_at_the_file,
        symlink_at_the_file_to_one_that_is_there,
        file_in_the_place_of_the_folder,
        folder_in_the_place_of_the_file,
    ],
)
def test_what_stands_in_the_target_is_neither_followed_nor_destroyed(
    tmp_path: Path, trap: Callable[[Path, Path], None], force: bool
) -> None:
    store, out, outside, logs = (tmp_path / name for name in ("store.sqlite", "out", "outside", "logs"))
    for folder in (out, outside, logs / "folder"):
        folder.mkdir(parents=True)
    (logs / "folder" / "s.jsonl").write_bytes(log("s", 3))
    (logs / "t.jsonl").write_bytes(log("t", 3))
    trap(out, outside)
    before = tree(outside), tree(out)
    playhead("import", logs, store=store)
    words = ["export", "--all", "-o", out, *(["--force"] if force else [])]
    ran = playhead(*words, store=store)
    replaced = force and trap in (symlink_at_the_file, symlink_at_the_file_to_one_that_is_there)
    assert tree(outside) == before[0]
    expected = before[1] | {"t.jsonl": log("t", 3)}
    if replaced:
        expected["folder/s.jsonl"] = log("s", 3)
    assert tree(out) == expected
    assert ran.code == (0 if replaced else 1)
    assert replaced or "folder" in ran.err


def test_the_target_itself_may_be_a_link(tmp_path: Path) -> None:
    store, real = tmp_path / "store.sqlite", tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "s.jsonl").write_bytes(log("s", 3))
    playhead("import", tmp_path / "s.jsonl", store=store)
    assert playhead("export", "--all", "-o", tmp_path / "link", store=store).code == 0
    assert tree(real) == {"s.jsonl": log("s", 3)}


def test_an_export_into_the_imported_folder_writes_over_nothing(tmp_path: Path) -> None:
    store, logs = tmp_path / "store.sqlite", tmp_path / "logs"
    logs.mkdir()
    (logs / "s.jsonl").write_bytes(log("s", 3))
    playhead("import", logs, store=store)
    (logs / "s.jsonl").write_bytes(log("s", 9))
    ran = playhead("export", "--all", "-o", logs, store=store)
    assert ran.code == 1
    assert "--force" in ran.err
    assert tree(logs) == {"s.jsonl": log("s", 9)}
    inner = logs / "deep" / "out"
    assert playhead("export", "--all", "-o", inner, store=store).code == 0
    assert tree(inner) == {"s.jsonl": log("s", 3)}


@pytest.mark.parametrize("target", [".", "..", "/", "missing/x", "folder", "s.jsonl/x"])
def test_an_odd_target_for_one_session_is_refused_in_one_line(tmp_path: Path, target: str) -> None:
    store = tmp_path / "store.sqlite"
    (tmp_path / "folder").mkdir()
    (tmp_path / "s.jsonl").write_bytes(log("s", 3))
    playhead("import", tmp_path / "s.jsonl", store=store)
    before = tree(tmp_path)
    for force in ([], ["--force"]):
        ran = playhead("export", "s", "-o", target, *force, store=store, cwd=tmp_path)
        assert ran.code in (2, 3), ran.err
        assert ran.err.count("\n") == 1
    assert {name for name in tree(tmp_path) if not name.startswith("store")} == {
        name for name in before if not name.startswith("store")
    }


def test_a_header_without_a_usable_id_is_refused_and_kept(tmp_path: Path) -> None:
    store, logs = tmp_path / "store.sqlite", tmp_path / "logs"
    logs.mkdir()
    (logs / "number.jsonl").write_bytes(header_line("x").replace(b'"x"', b"7"))
    (logs / "none.jsonl").write_bytes(header_line("x").replace(b'"id":"x",', b""))
    (logs / "big.jsonl").write_bytes(header_line("x" * 100_000))
    ran = playhead("import", "--json", logs, store=store)
    assert ran.code == 1
    refused = {Path(one["path"]).name: one["kind"] for one in json.loads(ran.out)["refused"]}
    assert refused == {"number.jsonl": "bad-header", "none.jsonl": "bad-header"}
    assert playhead("export", "--all", "-o", tmp_path / "out", store=store).code == 0
    assert tree(tmp_path / "out") == tree(logs)
    with open_store(str(store)) as held, held.database.read() as link:
        assert [len(row.session) for row in session_row.every(link)] == [100_000]
