"""`make demo`: every byte comes back, and nothing of the user's is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import demo


def play(folder: Path | str, cwd: Path = demo.ROOT) -> subprocess.CompletedProcess[str]:
    """Run the demo as `make demo` does, without a terminal."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PLAYHEAD_")}
    program = [sys.executable, str(demo.ROOT / "examples" / "demo.py"), str(folder)]
    return subprocess.run(program, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_the_demo_brings_every_file_back_and_can_be_run_again(tmp_path: Path) -> None:
    for _ in range(2):
        ran = play("shown", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("same SHA-256") == len([*demo.originals()]) + 1
        assert "0 errors; 0 warnings" in ran.stderr
        assert ran.stdout.count("\n") < 80
        assert "$ playhead export --all -o shown/exported" in ran.stdout
    for file in demo.originals():
        copy = tmp_path / "shown" / "exported" / file.relative_to(demo.SESSIONS)
        assert copy.read_bytes() == file.read_bytes()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "exported" / "mine.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    old = tmp_path / demo.STORE
    old.write_text("an older store")
    ran = play(tmp_path)
    assert ran.returncode == 2
    assert "exported/mine.txt" in ran.stderr
    assert (kept.read_text(), old.read_text()) == ("mine", "an older store")


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "demo"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / demo.ALL).symlink_to(elsewhere)
    assert play(folder).returncode == 2
    assert (folder / demo.ALL).is_symlink()


def test_the_folder_must_be_named_and_be_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert play(file).returncode == 2
    assert subprocess.run([sys.executable, demo.__file__], capture_output=True).returncode == 2


@pytest.mark.parametrize("content", [b"other bytes", None])
def test_the_demo_fails_when_a_file_differs_or_is_missing(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = [*demo.originals()][-1]
    run = demo.run

    def spoiled(*words: object) -> None:
        run(*words)
        if words[0] == "export" and content is None:
            (tmp_path / demo.ONE).unlink(missing_ok=True)
        elif "--all" in words:
            (tmp_path / demo.ALL / last.relative_to(demo.SESSIONS)).write_bytes(content or b"")

    monkeypatch.setattr(demo, "run", spoiled)
    monkeypatch.setenv("PLAYHEAD_STORE", "")
    assert demo.main(tmp_path) == 1


def test_the_demo_fails_when_a_command_does(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(demo.Failed, match="export ended with exit code 2"):
        demo.run("export")
    assert "$ playhead export" in capfd.readouterr().out
