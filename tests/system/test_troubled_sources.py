"""Sources that cannot be read, or change under our hands: named, counted, and no harm to the others."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from children import Ended, frames, log, obey_permissions, playhead, playhead_here, tree

from playhead import open_store
from playhead.adapters.dsh.importer import Progress, import_paths
from playhead.adapters.dsh.report import Report
from playhead.eventstore.sql import SqlStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with open_store(str(tmp_path / "store.sqlite")) as opened:
        yield opened


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(log("a", 5))
    (folder / "z.jsonl").write_bytes(log("z", 5))
    return folder


def refused(report: Report) -> dict[str, str]:
    return {Path(problem.path).name: problem.finding.kind for problem in report.refused}


def sound(store: SqlStore) -> bool:
    return not [problem for problem in store.verify() if problem.severity == "error"]


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.zstd"])
def test_an_empty_file_is_refused_kept_and_given_back(tmp_path: Path, logs: Path, name: str) -> None:
    (logs / name).touch()
    address = tmp_path / "store.sqlite"
    ran = playhead_here("import", "--json", logs, store=address)
    assert ran.code == 1
    assert "the file is empty: no header" in ran.err
    assert json.loads(ran.out)["files"]["imported"] == 2
    assert playhead_here("export", "--all", "-o", tmp_path / "out", store=address).code == 0
    assert tree(tmp_path / "out") == tree(logs)


Change = Callable[[Path], object]
Bound = Callable[..., Ended]


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def deleted(file: Path) -> None:
    file.unlink()


def replaced_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replaced_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def rewritten_in_place(file: Path) -> None:
    content = bytearray(file.read_bytes())
    at = content.index(b'"time":1', len(content) // 2) + len(b'"time":')
    content[at : at + 1] = b"2"
    with file.open("r+b") as opened:
        opened.write(content)


def replaced_by_another_log(file: Path) -> None:
    file.write_bytes(log("another", 25_000))


def grown(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"more, without an end")


def changing(file: Path, change: Change, *, in_the_middle: bool) -> Callable[[Progress], None]:
    """Changes the file once: when it is its turn, or when a part of it has been read."""
    waiting = [change]

    def hear(progress: Progress) -> None:
        begun = progress.path == str(file) and (progress.file_bytes_done > 0 or not in_the_middle)
        if waiting and begun:
            waiting.pop()(file)

    return hear


@pytest.mark.parametrize("change", [deleted, replaced_by_a_folder, replaced_by_a_pipe])
def test_a_file_that_vanishes_before_its_turn_is_named_and_the_others_are_taken(
    store: SqlStore, logs: Path, change: Change
) -> None:
    file = logs / "m.jsonl"
    file.write_bytes(log("m", 5))
    report = import_paths(store, [logs], on_file=changing(file, change, in_the_middle=False))
    assert refused(report) == {"m.jsonl": "unreadable"}
    assert {info.id for info in store.sessions()} == {"a", "z"}
    assert sound(store)


@pytest.mark.parametrize(
    "change", [truncated, emptied, rewritten_in_place, replaced_by_another_log, grown, deleted]
)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_a_file_that_changes_while_it_is_read_is_never_taken_half(
    store: SqlStore, logs: Path, tmp_path: Path, change: Change, compressed: bool
) -> None:
    if compressed and change is rewritten_in_place:
        change = lambda file: file.write_bytes(frames(log("m", 30_000, seed=2), 50))  # noqa: E731
    content = log("m", 30_000)
    file = logs / "m.jsonl"
    file.write_bytes(frames(content, 50) if compressed else content)
    before = file.read_bytes()
    report = import_paths(store, [logs], on_file=changing(file, change, in_the_middle=True))
    assert sound(store)
    taken = {name: data for name, data in exported(store, tmp_path).items() if name == "m.jsonl"}
    now = {"m.jsonl": file.read_bytes()} if file.exists() else {}
    assert taken in ({"m.jsonl": before}, now) or refused(report) == {"m.jsonl": "no-header"}
    import_paths(store, [logs])
    assert sound(store)
    assert exported(store, tmp_path) == {"m.jsonl": before} | tree(logs)


def exported(store: SqlStore, tmp_path: Path) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        ran = playhead_here("export", "--all", "-o", folder, store=store.database.name)
        assert ran.code == 0, ran.err
        return tree(Path(folder))


@pytest.fixture
def bound() -> Bound:
    """Runs a command to which permission bits apply; skips the test where that cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder) / "closed"
        closed.mkdir(mode=0)
        looking = subprocess.run(["ls", str(closed)], preexec_fn=obey_permissions, capture_output=True)
    if looking.returncode == 0:
        pytest.skip("permission bits do not apply to this user, who cannot give that up")
    return partial(playhead, before=obey_permissions)


def test_a_folder_and_a_file_without_permission_are_named_and_the_others_are_taken(
    bound: Bound, tmp_path: Path
) -> None:
    logs = _some_logs(tmp_path)
    (logs / "closed").mkdir()
    (logs / "closed" / "x.jsonl").write_bytes(log("x", 5))
    (logs / "secret.jsonl").write_bytes(log("y", 5))
    (logs / "closed").chmod(0)
    (logs / "secret.jsonl").chmod(0)
    ran = bound("import", logs, store=tmp_path / "store.sqlite")
    assert ran.code == 1
    assert f"{logs}/closed: not taken: Permission denied (unreadable)" in ran.err
    assert f"{logs}/secret.jsonl: not taken: Permission denied (unreadable)" in ran.err
    assert b"2 new sessions" in ran.out
    (logs / "closed").chmod(0o700)


def test_a_target_that_cannot_be_written_to_is_said_in_one_line(bound: Bound, tmp_path: Path) -> None:
    logs, address = _some_logs(tmp_path), tmp_path / "store.sqlite"
    assert bound("import", logs, store=address).code == 0
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    ran = bound("export", "--all", "-o", closed, store=address)
    assert ran.code == 1
    assert ran.err.count("not written: ") == 2
    assert "Permission denied" in ran.err
    ran = bound("export", "--all", "-o", closed / "inner", store=address)
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert "Permission denied" in ran.err
    assert tree(closed) == {}


def test_a_store_that_cannot_be_opened_or_written_exits_3(bound: Bound, tmp_path: Path) -> None:
    logs, closed = _some_logs(tmp_path), tmp_path / "closed"
    closed.mkdir()
    with open_store(str(closed / "store.sqlite")):
        pass
    for words, mode in ((["sessions"], 0o000), (["import", logs], 0o555)):
        closed.chmod(mode)
        ran = bound(*words, store=closed / "store.sqlite")
        assert (ran.code, ran.err.count("\n")) == (3, 1), ran.err
        assert "store.sqlite" in ran.err
    closed.chmod(0o700)


def _some_logs(folder: Path) -> Path:
    logs = folder / "some"
    logs.mkdir()
    for name in ("a", "b"):
        (logs / f"{name}.jsonl").write_bytes(log(name, 5))
    return logs
