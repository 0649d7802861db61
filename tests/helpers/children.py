"""Commands and Python code run in processes of their own: measured, limited, and killed.

``playhead`` runs a command to its end. ``start`` begins one that a test will stop in the middle. ``playhead_here``
is for the many commands of which nothing but their result matters: it runs them in the process of the test.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from playhead.cli.app import app
from playhead.cli.main import load_commands
from playhead.eventstore import zstd_frames

ROOT = Path(__file__).resolve().parents[2]

_MEASURED = """
import sys
from playhead.cli.main import main
peak_file, sys.argv = sys.argv[1], ["playhead", *sys.argv[2:]]
try:
    main()
finally:
    if peak_file:
        with open("/proc/self/status") as status, open(peak_file, "w") as out:
            out.write(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


@dataclass(frozen=True)
class Ended:
    """How a process ended. ``peak_bytes`` is the most memory it held; 0 where nobody asked."""

    code: int
    out: bytes
    err: str
    peak_bytes: int = 0


def environment(store: str | None = None) -> dict[str, str]:
    """What a child sees: this checkout, the given store, no colours."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100", "PLAYHEAD_DEBUG": ""}
    return env | ({} if store is None else {"PLAYHEAD_STORE": store})


def playhead(
    *words: object,
    store: object = None,
    measure: bool = False,
    before: Callable[[], None] | None = None,
    stdout: int | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> Ended:
    """The command ``playhead WORDS``, run to its end; a traceback on its stderr fails the test.

    ``before`` runs in the child before the command. With ``measure`` the result tells the peak of memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "peak"
        command = [sys.executable, "-c", _MEASURED, str(peak) if measure else "", *map(str, words)]
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env=environment(None if store is None else str(store)) | (env or {}),
            cwd=cwd,
            preexec_fn=before,
            timeout=600,
            check=False,
        )
        err = ran.stderr.decode()
        assert "Traceback" not in err, err
        assert "this is a bug" not in err, err
        bytes_held = int(peak.read_text()) * 1024 if measure else 0
    return Ended(ran.returncode, ran.stdout or b"", err, bytes_held)


def playhead_here(*words: object, store: object, cwd: Path | None = None) -> Ended:
    """The command ``playhead WORDS``, run inside this process."""
    load_commands()
    with contextlib.chdir(cwd or os.getcwd()):
        env = {"PLAYHEAD_STORE": str(store), "PLAYHEAD_DEBUG": "", "NO_COLOR": "1", "COLUMNS": "100"}
        ran = CliRunner().invoke(app, [str(word) for word in words], env=env)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert "this is a bug" not in ran.stderr, ran.stderr
    return Ended(ran.exit_code, ran.stdout_bytes, ran.stderr)


def start(code: str, *words: object, store: object = None) -> subprocess.Popen[bytes]:
    """A Python process that runs ``code`` with ``words`` as its arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(None if store is None else str(store)),
    )


def start_playhead(*words: object, store: object) -> subprocess.Popen[bytes]:
    """The command ``playhead WORDS``, running."""
    return start(_MEASURED, "", *words, store=store)


def kill_after(process: subprocess.Popen[bytes], seconds: float, how: int = signal.SIGKILL) -> bool:
    """Send a signal after some time; False when the process had ended by itself before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    if process.poll() is not None:
        return False
    process.send_signal(how)
    return True


def obey_permissions() -> None:
    """Let permission bits count in this (child) process from its next program on, also for root.

    Root passes over them by two capabilities, CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which are given up.
    """
    if os.geteuid() == 0:
        drop = 24  # PR_CAPBSET_DROP
        for capability in (1, 2):
            ctypes.CDLL(None, use_errno=True).prctl(drop, capability, 0, 0, 0)


def wait_for(true: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Wait until something is so, or the process has ended."""
    deadline = time.monotonic() + seconds
    while not true() and process.poll() is None:
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def log(session: str, events: int, *, seed: int = 0, version: int = 0) -> bytes:
    """The bytes of a log: ``events`` events of which most are token deltas."""
    draw = random.Random(f"{session}/{seed}")
    time_ms = 1_780_000_000_000
    lines = [header_line(session, version)]
    for seq in range(events):
        time_ms += draw.randrange(60)
        if seq % 40 == 0:
            turn = (seq, time_ms, seq // 40 + 1)
            lines.append(b'{"type":"turn/start","seq":%d,"time":%d,"data":{"turn":%d}}\n' % turn)
            continue
        lines.append(
            b'{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":%d,"step":1,'
            b'"chunk":{"type":"text-delta","index":0,"text":"%b"}}}\n'
            % (seq, time_ms, seq // 40 + 1, draw.choice(_WORDS))
        )
    return b"".join(lines)


def header_line(session: str, version: int = 0) -> bytes:
    """A header line with its line end."""
    return b'{"type":"session","version":%d,"id":"%b","createdAt":1780000000000,"delegationDepth":0}\n' % (
        version,
        session.encode(),
    )


_WORDS = [b" the", b" of", b" store", b"ing", b" a", b" log", b"\\n", b" seq", b" frame", b"s", b" and"]


def frames(log: bytes, lines_each: int) -> bytes:
    """The log compressed as dsh does it: a frame for the header, one for each so many lines."""
    lines = [line + b"\n" for line in log.split(b"\n")[:-1]]
    batches: Sequence[list[bytes]] = [lines[:1]]
    batches += [lines[at : at + lines_each] for at in range(1, len(lines), lines_each)]
    return b"".join(zstd_frames.write_frame(b"".join(batch)) for batch in batches)


def tree(folder: Path) -> dict[str, bytes]:
    """Every regular file below a folder, links among them left out: relative path to bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
