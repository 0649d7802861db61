"""What ``import playhead`` offers: every public name is there, and what is not asked for is not loaded."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import playhead


@pytest.mark.parametrize("name", playhead.__all__)
def test_a_public_name_is_there_and_is_named_so_where_it_comes_from(name: str) -> None:
    found = getattr(playhead, name)
    assert name in dir(playhead)
    assert getattr(found, "__name__", name) == name


def test_nothing_else_is_offered() -> None:
    assert {name for name in dir(playhead) if not name.startswith("__")} == set(playhead.__all__)


def test_a_store_is_opened_by_its_path_however_that_is_written(tmp_path: Path) -> None:
    with playhead.open_store(tmp_path / "s.sqlite") as made:
        made.create(playhead.SessionHeader(playhead.SessionId("a"), 1))
    with playhead.open_store(str(tmp_path / "s.sqlite"), create=False) as again:
        assert again.session("a").id == "a"


def test_the_command_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "playhead", "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"playhead {version('playhead')}\n", "")


def test_every_name_that_is_loaded_later_is_public() -> None:
    assert set(playhead._LATER) <= set(playhead.__all__)


def test_a_name_that_is_not_there_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = playhead.Nothing
    assert not hasattr(playhead, "Nothing")


def test_importing_playhead_loads_neither_agents_nor_databases_nor_the_event_loop() -> None:
    script = (
        "import sys, playhead\n"
        "heavy = {'asyncio', 'sqlalchemy', 'httpx', 'playhead.live', 'playhead.adapters'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
