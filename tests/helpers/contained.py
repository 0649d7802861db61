"""A process with everything that it starts: run to its end, limited, and gone afterwards.

What it started is known by a mark in the environment, whatever process group it went into; that needs ``/proc``.
Elsewhere only the process group is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_MARK: Final = "PLAYHEAD_CONTAINED"


class LeftBehind(AssertionError):
    """The process ended, and something that it had started did not."""


def output_of(
    command: Sequence[str],
    given: str,
    env: Mapping[str, str],
    *,
    limit_s: float,
    parting_s: float = 60,
    cwd: Path | None = None,
) -> str:
    """What the command says on stdout, with ``given`` on its stdin.

    Raises ``AssertionError`` when it fails or takes longer than ``limit_s``, and ``LeftBehind`` when a process that it
    started lives on for ``parting_s``. Nothing of it is left in any case.
    """
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**env, _MARK: mark},
        cwd=cwd,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(given, timeout=limit_s)
        left = _left_after(mark, parting_s)
    except subprocess.TimeoutExpired:
        _kill(process.pid, mark)
        _, err = process.communicate()
        raise AssertionError(f"it did not end in {limit_s:g} seconds\n{err}") from None
    finally:
        _kill(process.pid, mark)
    assert process.returncode == 0, f"it ended with {process.returncode}\n{err}"
    if left:
        raise LeftBehind(f"it left processes behind: {', '.join(left)}")
    return out


def _left_after(mark: str, seconds: float) -> list[str]:
    """The command lines of what lives on for so long."""
    deadline = time.monotonic() + seconds
    while (alive := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [*alive.values()]


def _kill(group: int, mark: str) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> dict[int, str]:
    """The processes of a run with their command lines."""
    sought, found = f"{_MARK}={mark}".encode(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if sought in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = command.strip()
    return found
