"""The helpers that run dsh: what they promise where something goes wrong."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from contained import LeftBehind, output_of
from dsh_runtimes import runtime
from patience import patiently

STARTS_A_SLEEPER = """
import subprocess, sys
sleeper = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True)
open(sys.stdin.read(), "w").write(str(sleeper.pid))
"""


def run(code: str, given: str = "", *, limit_s: float = 30) -> str:
    return output_of([sys.executable, "-c", code], given, os.environ, limit_s=limit_s, parting_s=0.1)


def is_alive(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if " Z " in Path(f"/proc/{pid}/stat").read_text():
                return False
        except (ProcessLookupError, FileNotFoundError):
            return False
        time.sleep(0.01)
    return True


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="what a process started is found by /proc"
)
def test_a_process_that_is_left_behind_is_found_and_ended(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with pytest.raises(LeftBehind, match="sleep 60"):
        run(STARTS_A_SLEEPER, str(told))
    assert not is_alive(int(told.read_text()))


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = "import os, sys, time; open(sys.stdin.read(), 'w').write(str(os.getpid())); time.sleep(600)"

    def check(limit_s: float) -> None:
        with pytest.raises(AssertionError, match=f"did not end in {limit_s:g} seconds"):
            run(code, str(told), limit_s=limit_s)
        assert not is_alive(int(told.read_text()))

    patiently(check, 2)


def test_a_command_that_fails_tells_what_it_said() -> None:
    with pytest.raises(AssertionError, match="it ended with 3\nno luck"):
        run("import sys; print('no luck', file=sys.stderr); sys.exit(3)")


@pytest.mark.heavy
@pytest.mark.parametrize(("in_ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_runtime_that_cannot_be_installed_skips_the_test_and_fails_it_in_ci(
    in_ci: str, outcome: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYHEAD_DSH_RUNTIMES", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("CI", in_ci)
    with pytest.raises(outcome) as raised:
        runtime(f"0.0.{len(in_ci)}")
    assert "deepseek-harness-sdk 0.0" in str(raised.value)
    assert "No matching distribution" in str(raised.value)
