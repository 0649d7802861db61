"""Published dsh runtimes, each in an environment of its own, and sessions run in them.

    ran = runtime("0.2.1rc2").run(server.url, home, "s-1", ["Say hello."], cwd=workspace)
    assert ran.turns == [Turn("Hello.", "completed")]
    ran.log  # the file that the runtime wrote

An environment is made on first use, with pip and whatever registry that is set up for, in ``.venv-dsh`` in the checkout
or in the folder that ``PLAYHEAD_DSH_RUNTIMES`` names; it stays for the next time. Where that cannot be done the calling
test is skipped with the reason; under CI=true it fails.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from contained import output_of

ROOT: Final = Path(__file__).resolve().parents[2]
DRIVER: Final = Path(__file__).with_name("dsh_driver.py")
PACKAGE: Final = "deepseek-harness-sdk"
INSTALL_S: Final = 600
RUN_S: Final = 600
"""How long a session may take; most take a second or two."""


class Unavailable(Exception):
    """A runtime could not be installed; the message tells why."""


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
    """A version of dsh, installed in ``folder``."""

    version: str
    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter that its SDK is installed for."""
        return self.folder / "bin" / "python"

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
        home.mkdir(parents=True, exist_ok=True)
        told = self._drive(
            home,
            baseUrl=base_url,
            cwd=str(cwd),
            key=key,
            session=session,
            prompts=list(prompts),
            turns=turns,
            maxTokens=max_tokens,
            patches=[str(patch) for patch in patches],
            until=None if until is None else str(until),
        )
        logs = sorted(home.glob(f"sessions/*/{session}/session.*jsonl*"), key=os.path.getmtime)
        assert logs, f"dsh {self.version} wrote no log of {session} below {home}"
        return Ran([Turn(turn["response"], turn["reason"]) for turn in told], logs[-1])

    def start(self) -> None:
        """Start the runtime and end it. The first time it unpacks itself, which is no work for two at once."""
        self._drive(self.folder / "home")

    def _drive(self, home: Path, **job: Any) -> list[dict[str, str]]:
        """What the driver answers. The home folder is the same for all runs: that is where a runtime unpacks."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        env = kept | {"HOME": str(self.folder / "home"), "NO_PROXY": "*"}
        given = json.dumps({"home": str(home), **job})
        answered: list[dict[str, str]] = json.loads(
            output_of([str(self.python), str(DRIVER)], given, env, limit_s=RUN_S)
        )
        return answered


def runtime(version: str) -> Runtime:
    """The runtime of this version, installed where it was not; skips the test where that fails, or fails it in CI."""
    found = _found(version)
    if isinstance(found, Runtime):
        return found
    reason = f"{PACKAGE} {version} cannot be installed: {found}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def _found(version: str) -> Runtime | str:
    """The runtime, or why there is none. Test processes beside this one wait for each other."""
    folder = Path(os.environ.get("PLAYHEAD_DSH_RUNTIMES") or ROOT / ".venv-dsh") / version
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{version}.lock")):
        try:
            return installed(version, folder)
        except Unavailable as error:
            return str(error)


def installed(version: str, folder: Path) -> Runtime:
    """The runtime in ``folder``, installed there unless it is. Raises ``Unavailable``."""
    found, ready = Runtime(version, folder), folder / ".ready"
    wanted = f"{PACKAGE}=={version}, Python {sys.version_info.major}.{sys.version_info.minor}\n"
    with contextlib.suppress(OSError, Unavailable):
        if ready.read_text() == wanted:
            _done([found.python, "-c", "import deepseek_harness"])
            return found
    shutil.rmtree(folder, ignore_errors=True)
    _done([sys.executable, "-m", "venv", folder])
    quiet = ("-q", "--disable-pip-version-check", "--only-binary=:all:")
    _done([found.python, "-m", "pip", "install", *quiet, f"{PACKAGE}=={version}"])
    (folder / "home").mkdir()
    found.start()
    ready.write_text(wanted)
    return found


def _done(command: Sequence[str | Path]) -> None:
    """Run a command that is to succeed. Raises ``Unavailable`` with what it says."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not done in {INSTALL_S} seconds") from None
    if ran.returncode:
        raise Unavailable((ran.stderr or ran.stdout).strip())


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
