"""Published dsh runtimes, each in an environment of its own, and sessions run in them.

    ran = runtime("0.2.1rc2").run(server.url, home, "s-1", ["Say hello."])
    assert ran.turns == [Turn("Hello.", "completed")]
    ran.log  # the file that the runtime wrote

An environment is made on first use, with pip and whatever registry that is set up for, in ``.venv-dsh`` in the
checkout or in the folder that ``PLAYHEAD_DSH_RUNTIMES`` names; it stays for the next run. Where that cannot be done the
calling test is skipped with the reason; under CI=true it fails.

A session runs in a process group of its own, which is gone when ``run`` returns. A runtime that leaves a process behind
fails the test.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "deepseek-harness-sdk"
INSTALL_S: Final = 600
RUN_S: Final = 60
"""How long a session may take; a hundred times what it takes."""
PARTING_S: Final = 10
"""How long what a runtime started may outlive it."""
_MARK: Final = "PLAYHEAD_DSH_RUN"


class Turn(NamedTuple):
    """What came of a prompt: the text of the answer, and how the turn ended."""

    response: str
    reason: str


@dataclass(frozen=True)
class Ran:
    """A session that a runtime has run. ``log`` is the file of its newest format."""

    turns: list[Turn]
    log: Path


@dataclass(frozen=True)
class Runtime:
    """A version of dsh that is installed; ``python`` is the interpreter beside it."""

    version: str
    python: Path

    def run(
        self,
        base_url: str,
        home: Path,
        session: str,
        prompts: Sequence[str],
        *,
        cwd: Path,
        turns: int = 0,
        key: str = "sk-anything",
        max_tokens: int | None = None,
        patches: Sequence[Path] = (),
        until: Path | None = None,
    ) -> Ran:
        """Send the prompts one after the other, in a dsh home that is made where it is missing.

        The runtime stays until the session has ended ``turns`` turns, and with ``until`` until that file is there.
        ``patches`` are laid over its profile, from 0.1.2 on.
        """
        job = {
            "cwd": str(cwd),
            "home": str(home),
            "baseUrl": base_url,
            "session": session,
            "prompts": list(prompts),
            "turns": turns,
            "key": key,
            "maxTokens": max_tokens,
            "patches": [str(patch) for patch in patches],
            "until": None if until is None else str(until),
        }
        home.mkdir(parents=True, exist_ok=True)
        answer = _driven([str(self.python), str(ROOT / "tests/helpers/dsh_driver.py")], json.dumps(job), home)
        logs = sorted(
            home.glob(f"sessions/*/{session}/session.*jsonl*"), key=lambda log: log.stat().st_mtime_ns
        )
        assert logs, f"dsh {self.version} wrote no log of {session} below {home}"
        return Ran([Turn(turn["response"], turn["reason"]) for turn in json.loads(answer)], logs[-1])


def runtime(version: str) -> Runtime:
    """The runtime of this version, installed where it was not; skips the test where that fails, and fails it in CI."""
    found = _installed(version)
    if isinstance(found, Runtime):
        return found
    reason = f"{PACKAGE} {version} cannot be installed: {found}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def _installed(version: str) -> Runtime | str:
    """The runtime, or why there is none. Test processes beside this one wait for each other."""
    folder = Path(os.environ.get("PLAYHEAD_DSH_RUNTIMES") or ROOT / ".venv-dsh") / version
    wanted = f"{PACKAGE}=={version}, Python {sys.version_info.major}.{sys.version_info.minor}\n"
    ready, python = folder / ".ready", folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{version}.lock")):
        if ready.is_file() and ready.read_text() == wanted and _works(python):
            return Runtime(version, python)
        shutil.rmtree(folder, ignore_errors=True)
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--only-binary=:all:",
        ]
        for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, f"{PACKAGE}=={version}"]):
            try:
                made = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=INSTALL_S,
                    check=False,
                    stdin=subprocess.DEVNULL,
                )
            except subprocess.TimeoutExpired:
                return f"not done in {INSTALL_S} seconds"
            if made.returncode:
                return (made.stderr or made.stdout).strip()
        ready.write_text(wanted)
    return Runtime(version, python)


def _works(python: Path) -> bool:
    """Whether the interpreter still runs, and what it runs is there."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        ran = subprocess.run(
            [python, "-c", "import deepseek_harness"], capture_output=True, timeout=60, check=False
        )
        return ran.returncode == 0
    return False


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _driven(command: Sequence[str], job: str, home: Path) -> str:
    """What the driver says on stdout; fails the test when it does not come to its end, or leaves something running."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(home) | {_MARK: mark},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(job, timeout=RUN_S)
        _wait_until_gone(mark)
        left = [*_marked(mark).values()]
    except subprocess.TimeoutExpired:
        _kill(process.pid, mark)
        out, err = process.communicate()
        pytest.fail(f"the session did not end in {RUN_S} seconds\n{err}")
    finally:
        _kill(process.pid, mark)
    assert process.returncode == 0, f"the driver ended with {process.returncode}\n{err}"
    assert not left, f"the runtime left processes behind: {left}"
    return out


def _environment(home: Path) -> dict[str, str]:
    """As little as a runtime needs, so that a session does not depend on who runs it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(home), "NO_PROXY": "*"}


def _kill(group: int, mark: str) -> None:
    """End everything that a run started, whatever process group it went into."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait_until_gone(mark: str) -> None:
    deadline = time.monotonic() + PARTING_S
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)


def _marked(mark: str) -> dict[int, str]:
    """The processes of a run, by the mark in their environment, with their command lines. Needs ``/proc``."""
    sought, found = f"{_MARK}={mark}".encode(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if sought in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = command.strip()
    return found
