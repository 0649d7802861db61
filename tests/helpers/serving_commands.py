"""Commands that serve until Ctrl-C, running in a process of their own.

with serving_command("serve", "--replay", log) as served:
    ...  # a client at served.url
assert served.code == 0 and served.told["misses"] == []
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from children import start_playhead

PARTING_S: Final = 60


@dataclass
class Served:
    """A command that serves at ``url``. When it is over: its exit ``code``, its last line of JSON, and its stderr."""

    url: str
    code: int | None = None
    told: dict[str, Any] = field(default_factory=dict)
    err: str = ""


@contextmanager
def serving_command(*words: object, store: object = None) -> Iterator[Served]:
    """``playhead WORDS --json`` for as long as the block runs; then it gets Ctrl-C."""
    process = start_playhead(*words, "--json", store=store)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, f"it did not begin to serve: {process.communicate()[1].decode()}"
        served = Served(json.loads(first)["url"])
        yield served
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PARTING_S)
        served.code, served.err = process.returncode, err.decode()
        served.told = json.loads(out) if out.strip() else {}
        assert "Traceback" not in served.err, served.err
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it did not end within {PARTING_S} seconds of Ctrl-C") from None
    finally:
        process.kill()
        process.communicate()
