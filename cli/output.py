"""Where output goes: data to stdout as bytes, everything else to stderr as lines of text."""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO, TextIO

from playhead.eventstore import json_text


def data(block: bytes) -> None:
    """Write bytes to stdout as they are."""
    sys.stdout.buffer.write(block)


def line(text: str) -> None:
    """Write one line of text to stdout, in UTF-8."""
    data(text.encode("utf-8", "backslashreplace") + b"\n")


def flush() -> None:
    """Let what was written to stdout be seen now."""
    sys.stdout.flush()


def json_line(value: Any) -> None:
    """Write one JSON value as one line to stdout."""
    write_json(sys.stdout.buffer, value)


def write_json(file: BinaryIO, value: Any) -> None:
    """Write one JSON value as one line: standard JSON in UTF-8, lone surrogates as escapes."""
    file.write(json_text.dumps(value) + b"\n")


def note(text: str) -> None:
    """Say something on stderr; a reader who went away misses it."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        silence(sys.stdout)
    try:
        print(f"playhead: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Send what is still to be written to ``stream`` nowhere, so that the interpreter can end in peace."""
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, stream.fileno())
    except (OSError, ValueError):
        return
    finally:
        os.close(sink)


def on_terminal() -> bool:
    """True when a person looks at stdout."""
    return sys.stdout.isatty()
