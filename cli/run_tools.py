"""The tools that ``playhead run`` offers to a model, each only when it is named.

Paths are taken from the working folder and may lead anywhere that the user may go. What a tool gives is bounded, and
says what it left out.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.errors import UsageError

if TYPE_CHECKING:
    from playhead.live.tools import Tools

NAMES = ("read-file", "write-file", "list-files", "shell")

OUTPUT_BYTES = 64 * 1024
"""The most that a tool gives."""

ENTRIES = 1000
"""The most files that are listed."""

_LINGER_S = 0.5
"""How long what a command left running may still write."""


def tools(names: Sequence[str], hidden: Collection[str] = ()) -> Tools:
    """The named tools, in this order. ``hidden`` are variables of the environment that no command sees.

    Raises ``UsageError`` for a name that is none.
    """
    from playhead.live.tools import Tools

    box = Tools()
    for name in dict.fromkeys(names):
        match name:
            case "read-file":
                box.add(read_file, name=name)
            case "write-file":
                box.add(write_file, name=name, exclusive=True)
            case "list-files":
                box.add(list_files, name=name)
            case "shell":
                box.add(Shell(hidden).run, name=name, exclusive=True)
            case _:
                raise UsageError(f"no tool is named {name!r}; there are {', '.join(NAMES)}")
    return box


def read_file(path: str, first_line: int = 1, lines: int = 2000) -> str:
    """The text of a file, from first_line on (1 is the first), at most so many lines."""
    if first_line < 1 or lines < 1:
        raise ValueError("first_line and lines are numbers from 1 on")
    found: list[str] = []
    size_bytes = 0
    with Path(path).open(encoding="utf-8", errors="strict", newline="") as file:
        for number, line in enumerate(islice(file, first_line - 1, None), first_line):
            size_bytes += len(line.encode())
            if len(found) == lines or size_bytes > OUTPUT_BYTES:
                if not found:
                    raise ValueError(f"line {number} alone has more than {OUTPUT_BYTES} bytes")
                return f"{''.join(found)}\n[it goes on at line {number}]"
            found.append(line)
    return "".join(found)


def write_file(path: str, text: str) -> str:
    """Make a file of this text, or replace what the file held; missing folders are made."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    size_bytes = file.write_bytes(text.encode())
    return f"{path} has {size_bytes} bytes now"


def list_files(folder: str = ".", pattern: str = "*") -> str:
    """What is in a folder, one name a line, folders with a slash; the pattern **/*.py looks below it too."""
    place = Path(folder)
    if not place.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    names = [
        f"{found.relative_to(place)}{'/' if found.is_dir() else ''}"
        for found in islice(place.glob(pattern), ENTRIES + 1)
    ]
    more = [f"[there are more than {ENTRIES}]"] if len(names) > ENTRIES else []
    return "\n".join([*sorted(names[:ENTRIES]), *more]) or "[nothing]"


class Shell:
    """Commands of the shell, which do not see the variables in ``hidden``."""

    def __init__(self, hidden: Collection[str] = ()) -> None:
        self._hidden = frozenset(hidden)

    async def run(self, command: str, token: CancelToken, timeout_s: float = 120) -> str:
        """Run a command with /bin/sh, and give what it wrote, and its exit code unless that is 0.

        It has no input, and is ended after timeout_s seconds with everything that it began.
        """
        # A pipe of our own: that of a process would hold up its end while what it left running has it open.
        read_end, write_end = os.pipe()
        output = _Output()
        reading = asyncio.ensure_future(output.take(read_end))
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                env={name: value for name, value in os.environ.items() if name not in self._hidden},
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        remove = token.on_cancel(lambda: _end(process.pid))
        timed_out = False
        try:
            try:
                await asyncio.wait_for(process.wait(), timeout_s)
            except TimeoutError:
                timed_out = True
                _end(process.pid)
                await process.wait()
            await asyncio.wait([reading], timeout=_LINGER_S)
        finally:
            remove()
            _end(process.pid)
            reading.cancel()
            await asyncio.wait([reading])
        token.check()
        if timed_out:
            return output.text + f"\n[ended after {timeout_s:g} s]"
        code = process.returncode
        return output.text + (f"\n[exit code {code}]" if code else "")


def _end(group: int) -> None:
    """End every process of the group of a command, if there are any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class _Output:
    """The first and the last of what comes."""

    def __init__(self) -> None:
        self._first = self._last = b""
        self._size_bytes = 0

    async def take(self, descriptor: int) -> None:
        """Read a pipe to its end, and close it."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb")
        )
        try:
            while piece := await stream.read(2**16):
                self._add(piece)
        finally:
            transport.close()

    def _add(self, piece: bytes) -> None:
        half = OUTPUT_BYTES // 2
        self._size_bytes += len(piece)
        room = half - len(self._first)
        self._first += piece[:room]
        self._last = (self._last + piece[room:])[-half:]

    @property
    def text(self) -> str:
        left_out = self._size_bytes - len(self._first) - len(self._last)
        between = b"\n[%d bytes left out]\n" % left_out if left_out else b""
        return (self._first + between + self._last).decode("utf-8", "replace")
