"""`make demo`: every byte comes back, and nothing of the user's is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import demo
import playhead
from playhead import SessionId
from playhead.replay.attempt import attempts


def play(folder: Path | str, cwd: Path = demo.ROOT) -> subprocess.CompletedProcess[str]:
    """Run the demo as `make demo` does, without a terminal."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PLAYHEAD_")}
    program = [sys.executable, str(demo.ROOT / "examples" / "demo.py"), str(folder)]
    return subprocess.run(program, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)


def test_the_demo_brings_every_file_back_also_where_an_earlier_one_was(tmp_path: Path) -> None:
    for name in (demo.STORE, demo.ONE, f"{demo.ALL}/native-pancakes.jsonl"):
        left = tmp_path / "shown" / name
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_text("of an earlier demo")
    ran = play("shown", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("same SHA-256") == len([*demo.originals()]) + 1
    assert "0 errors; 0 warnings" in ran.stderr
    assert "$ playhead export --all -o shown/exported" in ran.stdout
    for file in demo.originals():
        copy = tmp_path / "shown" / "exported" / file.relative_to(demo.SESSIONS)
        assert copy.read_bytes() == file.read_bytes()

    first_call = ran.stdout.partition("--as chunks")[2].partition("\n\n")[0].splitlines()[1:]
    assert [json.loads(line)["event"] for line in first_call] == ["begin", *["chunk"] * 4, "end"]
    assert json.loads(first_call[-1])["ending"] == "cut"
    compared = re.findall(r"\$ playhead diff (.*)\n(.*)\n", ran.stdout)
    assert [told for _, told in compared] == ["no difference in 33 events", "no difference in 23 events"]
    assert "playhead: 3 calls served" in ran.stderr
    assert ran.stdout.count("\n") < 180
    with playhead.open_store(str(tmp_path / "shown" / demo.STORE)) as store:
        [parent] = [each.header.parent for each in store.sessions() if each.id == "what-if"]
        assert parent == demo.MIGRATED
        again = [call.outcome for call in attempts(store.session(SessionId("again")))]
    assert again == ["finished"] * 3


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


def test_the_demo_fails_when_nothing_asks_for_what_is_served() -> None:
    with (
        pytest.raises(demo.Failed, match="never made"),
        demo.served(demo.SERVED, wait_s=0.2) as url,
    ):
        assert url.startswith("http://127.0.0.1:")


def test_the_demo_fails_when_a_session_cannot_be_served(tmp_path: Path) -> None:
    with (
        pytest.raises(demo.Failed, match="did not start: playhead: "),
        demo.served(tmp_path / "absent.jsonl"),
    ):
        pytest.fail("nothing is served")


def test_the_demo_fails_when_a_command_does(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(demo.Failed, match="export ended with exit code 2"):
        demo.run("export")
    assert "$ playhead export" in capfd.readouterr().out
