"""The fixture ``playhead_replay``: its example in the docs, and when it fails a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "playhead.web.pytest_plugin"

_HEAD = """
import httpx

def ask(recorded, **headers):
    return httpx.post(recorded.base_url + "/chat/completions", json={"messages": []}, headers=headers)

"""


def run(test: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest on one file, with the plugin and no other than pytest's own."""
    file = cwd / "test_it.py"
    file.write_text(test)
    words = ["-m", "pytest", "-q", "-p", "no:playhead", "-p", PLUGIN, "-p", "no:cacheprovider", "test_it.py"]
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", **env},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples, as the page with the example test has them beside it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def test_the_plugin_is_an_entry_point_of_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"playhead": PLUGIN}
    assert import_module(PLUGIN).playhead_replay is not None


def test_loading_the_plugin_loads_no_server_and_no_store() -> None:
    code = f"import sys, {PLUGIN}; print(*sorted({{'starlette', 'uvicorn', 'httpx', 'sqlalchemy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_without_the_server_the_fixture_says_what_to_install_and_other_tests_run(folder: Path) -> None:
    done = run(
        """
import sys
sys.modules["starlette"] = None

def test_with(playhead_replay):
    playhead_replay("any.jsonl")

def test_without():
    pass
""",
        folder,
    )
    assert "1 passed, 1 error" in done.stdout
    assert "playhead_replay: starlette is not installed; pip install 'playhead[web]'" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_examples_of_the_docs_pass(folder: Path) -> None:
    page = (ROOT / "docs" / "replaying-in-tests.md").read_text(encoding="utf-8")
    example, without_pytest = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = run(example, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", without_pytest]
    alone = subprocess.run(
        program, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=True
    )
    assert alone.stdout.startswith("http://127.0.0.1:")


def test_a_miss_fails_the_test_that_made_it_and_says_what_was_missed(folder: Path) -> None:
    done = run(
        _HEAD
        + """
def test_too_many(playhead_replay):
    recorded = playhead_replay("examples/tour/goal.jsonl", override=[])
    assert ask(recorded).status_code == 422
    assert recorded.misses[0].path == "/chat/completions"

def test_strict(playhead_replay):
    ask(playhead_replay("examples/sessions/native-pancakes.jsonl", match="strict"))
""",
        folder,
    )
    assert done.returncode == 1
    assert "2 errors" in done.stdout
    assert "the script is exhausted" in done.stdout
    assert "does not match: messages[0]" in done.stdout
    assert "Traceback" not in done.stdout


def test_calls_that_nobody_asked_for_fail_a_test_that_is_to_be_complete(folder: Path) -> None:
    done = run(
        """
def test_half(playhead_replay):
    recorded = playhead_replay("examples/sessions/native-pancakes.jsonl", complete=True)
    assert recorded.served == 0 and recorded.unserved[0].calls == 4
    assert recorded.dialect.endswith("chat")

def test_half_is_enough(playhead_replay):
    playhead_replay("examples/sessions/native-pancakes.jsonl")
""",
        folder,
    )
    assert "1 error" in done.stdout
    assert "2 passed" in done.stdout
    assert "session 'native-pancakes' has 4 calls, 0 were asked for" in done.stdout


def test_sessions_of_a_store_are_served_with_what_they_started(folder: Path) -> None:
    done = run(
        _HEAD
        + """
import playhead
from playhead.adapters.dsh.importer import import_paths

def test_it(playhead_replay, tmp_path, monkeypatch):
    with playhead.open_store(str(tmp_path / "s.sqlite"), create=True) as store:
        import_paths(store, ["examples/sessions/native-pancakes.jsonl"])
        child = playhead.SessionHeader(playhead.SessionId("child"), 1, origin="subagent",
                                       parent=playhead.SessionId("native-pancakes"))
        store.create(child)
    recorded = playhead_replay("native-p", store=tmp_path / "s.sqlite")
    assert [script.session for script in recorded.endpoint.scripts] == ["native-pancakes", "child"]
    monkeypatch.setenv("PLAYHEAD_STORE", str(tmp_path / "s.sqlite"))
    assert playhead_replay("native-pancakes").base_url != recorded.base_url
""",
        folder,
    )
    assert done.returncode == 0, done.stdout


def test_what_is_not_there_is_an_error_that_says_what_to_do(folder: Path) -> None:
    done = run(
        """
import pytest
from playhead import NotALog, StoreUnavailable, UsageError

def test_it(playhead_replay, monkeypatch, tmp_path):
    monkeypatch.delenv("PLAYHEAD_STORE", raising=False)
    with pytest.raises(UsageError, match="no such file"):
        playhead_replay("none.jsonl")
    with pytest.raises(UsageError, match="PLAYHEAD_STORE"):
        playhead_replay("some-id")
    with pytest.raises(UsageError, match="name a session"):
        playhead_replay()
    with pytest.raises(StoreUnavailable, match="no store at"):
        playhead_replay("some-id", store=tmp_path / "misspelt.sqlite")
    assert not (tmp_path / "misspelt.sqlite").exists()
    (tmp_path / "bad.jsonl").write_text("{}")
    with pytest.raises(NotALog):
        playhead_replay(tmp_path / "bad.jsonl")
    (tmp_path / "over.json").write_text("[")
    with pytest.raises(UsageError, match="over.json: not JSON"):
        playhead_replay("examples/sessions/native-pancakes.jsonl", override=tmp_path / "over.json")
""",
        folder,
    )
    assert done.returncode == 0, done.stdout


def test_what_is_asked_for_wrongly_is_shown_with_the_line_of_the_test_alone(folder: Path) -> None:
    done = run(
        """
import pytest

PANCAKES = "examples/sessions/native-pancakes.jsonl"

def test_match(playhead_replay):
    playhead_replay(PANCAKES, match="Strict")

def test_speed(playhead_replay):
    playhead_replay(PANCAKES, speed="1x")

def test_twice(playhead_replay):
    playhead_replay(PANCAKES, PANCAKES)
""",
        folder,
    )
    assert "3 failed" in done.stdout
    for said in (
        "no way to match is called 'Strict'; there are ordered and strict",
        "a speed of '1x': it must be a number, and more than 0",
        "session 'native-pancakes' is named twice",
    ):
        assert f"UsageError: {said}\n" in done.stdout
    assert "contextlib.py" not in done.stdout
    assert "replayed.py" not in done.stdout
