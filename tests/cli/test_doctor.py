from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import example_logs
import pytest
from cli_runner import Play


def test_it_tells_where_things_are_and_which_versions_work(full: Play, store_file: Path) -> None:
    report = full("doctor", "--json").json
    assert report["address"] == str(store_file)
    assert report["store"]["sessions"] == 9
    assert report["versions"]["playhead"] == version("playhead")
    assert report["versions"]["libzstd"]


def test_a_damaged_session_is_a_problem(full: Play) -> None:
    ran = full("doctor")
    assert ran.code == 1
    assert any(line.startswith("problem ") and "1 session damaged" in line for line in ran.lines)


def test_a_missing_store_is_a_problem_that_names_its_remedy(play: Play) -> None:
    ran = play("doctor")
    assert ran.code == 1
    assert "playhead import" in ran.out.decode()


def test_without_problems_it_exits_0(play: Play, tmp_path: Path) -> None:
    play("import", example_logs.write_file(tmp_path / "somewhere", "clean", 4))
    ran = play("doctor")
    assert ran.code == 0
    assert "problems  none" in ran.lines


def test_logs_of_a_home_are_compared_with_the_store(play: Play, tmp_path: Path) -> None:
    home = tmp_path / "home" / ".dsh"
    known = example_logs.write_file(home, "known", 0)
    grown = example_logs.write_file(home, "grown", 0)
    play("import", home)
    example_logs.write_file(home, "fresh", 0)
    grown.write_bytes(grown.read_bytes() + b'{"type":"x/y","seq":33,"time":1,"data":1}\n')
    (found,) = play("doctor", "--json").json["homes"]
    assert (found["path"], found["logs"], found["new"], found["changed"]) == (str(home), 3, 1, 1)
    assert known.exists()


def test_a_folder_without_permission_is_a_problem(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playhead.adapters.dsh import discover

    home = tmp_path / "home" / ".dsh"
    home.mkdir(parents=True)

    def refuse(_path: str) -> None:
        raise PermissionError(13, "Permission denied", str(home))

    monkeypatch.setattr(discover.os, "scandir", refuse)
    ran = play("doctor")
    assert ran.code == 1
    assert f"cannot be read: {home}: Permission denied" in ran.out.decode()


def test_another_libzstd_than_the_recipes_need_is_a_problem(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playhead.cli import doctor

    play("import", example_logs.write_file(tmp_path / "somewhere", "framed", 4, compressed=True))
    assert play("doctor").code == 0
    monkeypatch.setattr(doctor, "LIBRARY", "9.9.9")
    ran = play("doctor")
    assert ran.code == 1
    assert "9.9.9 is installed here" in ran.out.decode()
