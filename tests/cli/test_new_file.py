from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from playhead.cli.new_file import new_file, new_file_below, new_folder
from playhead.eventstore.errors import UsageError


def put(path: Path, text: bytes, *, force: bool = False) -> None:
    with new_file(path, force=force) as file:
        file.write(text)


def put_below(root: Path, path: str, text: bytes = b"new", *, force: bool = False) -> None:
    with new_file_below(root, path.split("/"), force=force) as file:
        file.write(text)


def everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_a_file_is_there_when_the_context_ended_well(tmp_path: Path) -> None:
    put(tmp_path / "out", b"bytes")
    assert everything(tmp_path) == {"out": b"bytes"}


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with new_file(tmp_path / "out", force=True) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert everything(tmp_path) == {}


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(UsageError, match="--force replaces it"):
        put(tmp_path / "out", b"new")
    assert everything(tmp_path) == {"out": b"old"}
    put(tmp_path / "out", b"new", force=True)
    assert everything(tmp_path) == {"out": b"new"}


def test_a_file_system_without_hard_links_gets_the_same_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    put(tmp_path / "out", b"bytes")
    with pytest.raises(UsageError, match="is there already"):
        put(tmp_path / "out", b"new")
    assert everything(tmp_path) == {"out": b"bytes"}


Step = tuple[str, str, int]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """What is done to the disk, in order: what, to which file or folder, and how many bytes the file had."""
    steps: list[Step] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        held = os.fstat(handle)
        path = next(path for path in [tmp_path, *tmp_path.rglob("*")] if path.stat().st_ino == held.st_ino)
        steps.append(("sync", path.suffix or path.name, 0 if path.is_dir() else held.st_size))
        fsync(handle)

    def replaced(*names: str, **folders: int) -> None:
        steps.append(("name", names[1], 0))
        replace(*names, **folders)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return steps


@pytest.mark.parametrize("force", [False, True])
def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, disk: list[Step], force: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    put(folder / "out", b"bytes", force=force)
    assert disk == [("sync", ".partial", 5), ("name", "out", 0), ("sync", "folder", 0)]


def test_folders_that_are_made_reach_the_disk(tmp_path: Path, disk: list[Step]) -> None:
    new_folder(tmp_path / "a" / "b")
    assert disk == [("sync", tmp_path.name, 0), ("sync", "a", 0)]
    disk.clear()
    new_folder(tmp_path / "a" / "b")
    assert disk == []
    put_below(tmp_path / "a" / "b", "c/out")
    assert disk == [
        ("sync", "b", 0),
        ("sync", ".partial", 3),
        ("name", "out", 0),
        ("sync", "c", 0),
    ]


def failing_sync(monkeypatch: pytest.MonkeyPatch, code: int, *, folders: bool) -> None:
    fsync = os.fsync

    def fails(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) == folders:
            raise OSError(code, os.strerror(code))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fails)


def test_bytes_that_do_not_reach_the_disk_get_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_bytes(b"old")
    failing_sync(monkeypatch, errno.EIO, folders=False)
    with pytest.raises(OSError, match="Input/output error"):
        put(tmp_path / "out", b"new", force=True)
    assert everything(tmp_path) == {"out": b"old"}


def test_a_file_system_that_has_no_sync_for_folders_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_sync(monkeypatch, errno.EINVAL, folders=True)
    put_below(tmp_path, "a/out")
    assert everything(tmp_path) == {"a": None, "a/out": b"new"}
    failing_sync(monkeypatch, errno.EIO, folders=True)
    with pytest.raises(OSError, match="Input/output error"):
        put_below(tmp_path, "a/other")


@pytest.mark.parametrize("force", [False, True])
def test_a_link_in_place_of_the_file_is_never_written_through(tmp_path: Path, force: bool) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(victim)
    if force:
        put_below(root, "out", force=True)
        assert (root / "out").read_bytes() == b"new"
        assert not (root / "out").is_symlink()
    else:
        with pytest.raises(UsageError):
            put_below(root, "out")
    assert victim.read_bytes() == b"precious"


def test_a_broken_link_counts_as_an_existing_file(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        put(tmp_path / "out", b"new")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("force", [False, True])
def test_a_linked_folder_below_the_root_is_not_entered(tmp_path: Path, force: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "inner").symlink_to(outside)
    with pytest.raises(UsageError, match="inner is in the way"):
        put_below(root, "inner/out", force=force)
    assert everything(outside) == {}


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    put_below(tmp_path, "a/b/c")
    put_below(tmp_path, "a/b/d")
    assert everything(tmp_path) == {"a": None, "a/b": None, "a/b/c": b"new", "a/b/d": b"new"}


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../x", "a/../../x", "/etc/x", "a//b", "a/\0b", "a/.", "\ud800"]
)
def test_a_path_that_would_lead_out_of_the_root_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(UsageError, match="is no place below"):
        put_below(root, path, force=True)
    assert everything(tmp_path) == {"root": None}


def test_a_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for force in (False, True):
        with pytest.raises(UsageError):
            put(tmp_path / "out", b"new", force=force)
    assert everything(tmp_path) == {"out": None}
