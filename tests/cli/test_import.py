from __future__ import annotations

from pathlib import Path

import example_logs
import pytest
from cli_runner import Play


def test_the_summary_counts_files_sessions_and_events(play: Play, home: Path) -> None:
    summary = play("import", "--json", home).json
    assert summary["files"] == {"seen": 9, "imported": 9, "unchanged": 0, "refused": 0, "ignored": 0}
    assert len(summary["sessions"]) == 9
    assert summary["events"] == 5 * 33 + 14 + 16 + 16 + 32


def test_damage_is_told_on_stderr_with_file_line_and_byte_and_exits_1(play: Play, home: Path) -> None:
    ran = play("import", home)
    assert ran.code == 1
    torn = next(home.rglob("torn-v0/*"))
    assert f"{torn}: damaged: torn tail" in ran.err
    assert "(torn-tail, line 26, byte " in ran.err
    assert ran.lines == [
        "9 files: 9 imported",
        "9 new sessions, 243 new events",
        "1 file damaged: kept unchanged, and all that can be read is shown",
    ]


def test_a_clean_import_exits_0_and_says_nothing_on_stderr(play: Play, tmp_path: Path) -> None:
    file = example_logs.write_file(tmp_path / "home", "clean", 4, compressed=True)
    ran = play("import", file)
    assert (ran.code, ran.err) == (0, "")


def test_importing_again_adds_nothing(full: Play, home: Path) -> None:
    summary = full("import", "--json", home).json
    assert (summary["files"]["imported"], summary["files"]["unchanged"]) == (0, 9)
    assert (summary["sessions"], summary["events"]) == ([], 0)


def test_a_missing_path_is_named_and_does_not_stop_the_others(play: Play, home: Path) -> None:
    ran = play("import", home / "nowhere", next(home.rglob("plain-v0/*")))
    assert ran.code == 1
    assert f"{home / 'nowhere'}: not taken" in ran.err
    assert "1 new session, 33 new events" in ran.lines


def test_a_log_on_standard_input_is_taken(play: Play, home: Path) -> None:
    ran = play("import", "-", stdin=next(home.rglob("compressed-v3/*")).read_bytes())
    assert ran.code == 0
    assert "1 new session, 16 new events" in ran.lines


def test_a_file_that_is_no_log_is_refused_with_its_reason(play: Play, tmp_path: Path) -> None:
    noise = tmp_path / "noise.jsonl"
    noise.write_bytes(b"no log\n")
    ran = play("import", "--json", noise)
    assert ran.code == 1
    (refused,) = ran.json["refused"]
    assert (refused["path"], refused["kind"]) == (str(noise), "no-header")


@pytest.mark.parametrize("option", [[], ["--keep-frames"]])
def test_frames_come_back_whether_they_were_kept_or_not(
    play: Play, tmp_path: Path, option: list[str]
) -> None:
    file = example_logs.write_file(tmp_path / "home", "framed", 4, compressed=True)
    play("import", *option, file)
    assert play("export", "framed").out == file.read_bytes()


def test_the_folder_of_the_store_is_made(play: Play, home: Path, tmp_path: Path) -> None:
    where = tmp_path / "new" / "folder" / "store.sqlite"
    play("import", "--store", where, home)
    assert len(play("--store", f"sqlite:///{where}", "sessions").rows) == 9
