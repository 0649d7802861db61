"""Commands run inside the test process, on a store of the test's own."""

from __future__ import annotations

from pathlib import Path

import example_logs
import pytest
from cli_runner import Play, Ran
from log_script import LogScript
from typer.testing import CliRunner

from playhead.cli.app import app
from playhead.cli.main import load_commands


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def play(store_file: Path, tmp_path: Path) -> Play:
    """Runs ``playhead`` with the given words; an unexpected exception fails the test as it is."""
    load_commands()

    def run(*words: object, stdin: bytes | None = None) -> Ran:
        env = {
            "PLAYHEAD_STORE": str(store_file),
            "XDG_DATA_HOME": str(tmp_path / "data"),
            "HOME": str(tmp_path / "home"),
            "DSH_HOME": "",
            "PLAYHEAD_DEBUG": "",
            "COLUMNS": "100",
            "TERM": "dumb",
            "NO_COLOR": "1",
        }
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin, env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout_bytes, result.stderr)

    return run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A dsh home with every example log; ``torn-v0`` is damaged."""
    folder = tmp_path / "dsh-home"
    example_logs.write_home(folder)
    return folder


@pytest.fixture
def full(play: Play, home: Path) -> Play:
    """``play`` on a store into which ``home`` was imported."""
    assert play("import", home).code == 1
    return play


@pytest.fixture
def log(tmp_path: Path) -> LogScript:
    """A log file to be written."""
    return LogScript(tmp_path / "told.jsonl")
