from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_runner import Play

from playhead.cli.export import destinations
from playhead.eventstore.sql.artifacts import StoredFile


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["plain-v0", "packed-v0", "compressed-v2", "compressed-v4", "torn-v0"])
def test_the_file_of_a_session_comes_back_bit_for_bit(full: Play, home: Path, name: str) -> None:
    original = next(home.rglob(f"{name}/*")).read_bytes()
    assert full("export", name).out == original
    ran = full("export", name, "-o", home / "copy")
    assert (ran.code, ran.out) == (0, b"")
    assert (home / "copy").read_bytes() == original


def test_all_files_come_back_under_their_paths(full: Play, home: Path, tmp_path: Path) -> None:
    ran = full("export", "--all", "-o", tmp_path / "out")
    assert ran.code == 0
    assert tree(tmp_path / "out") == tree(home)


def test_decoded_gives_the_plain_lines(full: Play) -> None:
    decoded = full("export", "compressed-v4", "--decoded").out
    header, first, *_ = decoded.splitlines()
    assert json.loads(header)["id"] == "compressed-v4"
    assert b'"seq":0,' in first
    assert decoded.count(b"\n") == 17


def test_a_log_file_goes_through_without_a_store(play: Play, home: Path, store_file: Path) -> None:
    file = next(home.rglob("compressed-v4/*"))
    assert play("export", file).out == file.read_bytes()
    assert not store_file.exists()


def test_an_existing_file_is_kept_unless_forced(full: Play, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    ran = full("export", "plain-v0", "-o", target)
    assert ran.code == 2
    assert "--force" in ran.err
    assert target.read_bytes() == b"mine"
    assert full("export", "plain-v0", "-o", target, "--force").code == 0
    assert target.read_bytes().startswith(b'{"type":"session"')


def test_one_file_in_the_way_does_not_stop_the_others(full: Play, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert full("export", "--all", "-o", out).code == 0
    written = tree(out)
    shutil.rmtree(next(out.rglob("plain-v0")))
    ran = full("export", "--all", "-o", out)
    assert ran.code == 1
    assert ran.err.count("not written: ") == 8
    assert tree(out) == written == tree(home)
    assert full("export", "--all", "-o", out, "--force").code == 0


def test_a_linked_folder_in_the_target_is_not_followed(full: Play, tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (out / "sessions").symlink_to(outside)
    ran = full("export", "--all", "-o", out, "--force")
    assert ran.code == 1
    assert "sessions is in the way" in ran.err
    assert tree(outside) == {}


def test_earlier_versions_come_out_on_request(full: Play, home: Path, tmp_path: Path) -> None:
    file = next(home.rglob("plain-v0/*"))
    before = file.read_bytes()
    file.write_bytes(before.replace(b"plan.md", b"PLAN.md"))
    full("import", home)
    ran = full("export", "--all", "-o", tmp_path / "newest")
    assert "1 earlier version left out, --versions writes them too" in ran.err
    assert tree(tmp_path / "newest") == tree(home)
    full("export", "--all", "--versions", "-o", tmp_path / "all")
    name = file.relative_to(home).as_posix()
    assert tree(tmp_path / "all") == tree(home) | {f"{name}.~1~": before}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--all"],
        ["--all", "plain-v0", "-o", "x"],
        ["--all", "--decoded", "-o", "x"],
        ["--all", "--generation", "1", "-o", "x"],
        ["plain-v0", "--versions"],
        ["nobody"],
    ],
)
def test_a_wrong_combination_of_options_is_wrong_usage(full: Play, words: list[str]) -> None:
    assert full("export", *words).code == 2


def stored(
    id: int, root: str, path: str, *, version: int = 1, newest: bool = True, taken_ms: int = 0
) -> StoredFile:
    return StoredFile(id, root, path, version, b"%d" % id, 0, "jsonl", None, newest, "", taken_ms)


def places(*files: StoredFile, versions: bool = False) -> dict[str, int]:
    return {"/".join(parts): file.id for parts, file in destinations(list(files), versions).items()}


def test_files_of_one_folder_go_to_their_paths_below_it() -> None:
    assert places(stored(1, "/a/b", "x"), stored(2, "/a/b", "c/y")) == {"x": 1, "c/y": 2}


def test_files_of_several_folders_go_below_what_they_have_in_common() -> None:
    assert places(stored(1, "/a/b", "x"), stored(2, "/a/c/d", "x")) == {"b/x": 1, "c/d/x": 2}


def test_one_file_imported_by_two_ways_goes_to_one_place() -> None:
    assert places(stored(1, "/a", "b/x"), stored(2, "/a/b", "x")) == {"b/x": 2}


def test_of_one_file_imported_by_two_ways_the_bytes_that_came_last_are_the_newest() -> None:
    files = (
        stored(1, "/a", "b/x", taken_ms=1, newest=False),
        stored(2, "/a/b", "x", taken_ms=2),
        stored(3, "/a", "b/x", taken_ms=3, version=2),
    )
    assert places(*files) == {"b/x": 3}
    assert places(*files, versions=True) == {"b/x": 3, "b/x.~1~": 1, "b/x.~2~": 2}


def test_a_folder_named_stdin_and_standard_input_do_not_share_a_place() -> None:
    assert places(stored(1, "/a", "Stdin/x"), stored(2, "-", "x")) == {"Stdin/x": 1, "stdin~/x": 2}


def test_what_came_from_standard_input_has_a_folder_of_its_own() -> None:
    assert places(stored(1, "/a", "x"), stored(2, "-", "x")) == {"x": 1, "stdin/x": 2}


def test_versions_are_numbered_like_backups() -> None:
    files = (stored(1, "/a", "x", newest=False), stored(2, "/a", "x", version=2))
    assert places(*files) == {"x": 2}
    assert places(*files, versions=True) == {"x.~1~": 1, "x": 2}
