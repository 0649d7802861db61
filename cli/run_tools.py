"""The tools that ``playhead run`` offers to a model, each only when it is named.

Paths are taken from the working folder and may lead anywhere that the user may go. What a tool gives is bounded, and
says what it left out. Files are regular ones: a device or a pipe may have no end, or never begin. A turn that is
stopped waits for what is being written, not for what is being looked up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.errors import UsageError
from playhead.eventstore.in_thread import in_thread

if TYPE_CHECKING:
    from playhead.live.tools import Tools

END_GOAL = "end-goal"
"""The name of a tool that comes from ``run_goal_tool.py``, once there are goals."""

NAMES = ("read-file", "write-file", "list-files", "shell", END_GOAL)

OUTPUT_BYTES = 64 * 1024
"""The most that a tool gives."""

ENTRIES = 1000
"""The most files that are listed."""

_LINGER_S = 0.5
"""How long what a command left running may still write."""


def tools(names: Sequence[str], hidden: Collection[str] = ()) -> Tools:
    """The named tools, in this order, but for ``END_GOAL``. ``hidden`` are variables that no command sees.

    Raises ``UsageError`` for a name that is none.
    """
    from playhead.live.tools import Tools

    box = Tools()
    for name in dict.fromkeys(names):
        if name == END_GOAL:
            continue
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


async def read_file(path: str, token: CancelToken, first_line: int = 1, lines: int = 2000) -> str:
    """The text of a file, from first_line on (1 is the first), at most so many lines."""
    if first_line < 1 or lines < 1:
        raise ValueError("first_line and lines are numbers from 1 on")
    return await _unless_stopped(lambda: _part(Path(path), first_line, lines, token), token)


def write_file(path: str, text: str) -> str:
    """Make a file of this text, or replace what the file held; missing folders are made."""
    file = Path(path)
    if file.exists():
        _require_regular(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    size_bytes = file.write_bytes(text.encode())
    return f"{path} has {size_bytes} bytes now"


async def list_files(token: CancelToken, folder: str = ".", pattern: str = "*") -> str:
    """What is in a folder, one name a line, folders with a slash; the pattern **/*.py looks below it too."""
    return await _unless_stopped(lambda: _listing(Path(folder), pattern), token)


async def _unless_stopped(look: Callable[[], str], token: CancelToken) -> str:
    """What ``look`` gives, from a thread of its own. Raises ``Cancelled`` as soon as the turn is stopped."""
    looking = asyncio.ensure_future(in_thread(look))

    def give_up() -> None:
        looking.cancel()

    remove = token.on_cancel(give_up)
    try:
        return await looking
    except asyncio.CancelledError:
        token.check()
        raise
    finally:
        remove()


def _part(file: Path, first_line: int, most: int, token: CancelToken) -> str:
    found: list[bytes] = []
    size_bytes = 0
    _require_regular(file)
    with file.open("rb") as content:
        for number, line in enumerate(_lines(content), 1):
            token.check()
            if number < first_line:
                continue
            size_bytes += len(line)
            if len(found) == most or size_bytes > OUTPUT_BYTES:
                if not found:
                    raise ValueError(f"line {number} alone has more than {OUTPUT_BYTES} bytes")
                return f"{_text(found)}\n[it goes on at line {number}]"
            found.append(line)
    return _text(found)


def _lines(content: BinaryIO) -> Iterator[bytes]:
    """The lines; of one that is too long to be given no more than shows that."""
    most = OUTPUT_BYTES + 1
    while line := content.readline(most):
        yield line
        while len(line) == most and not line.endswith(b"\n"):
            line = content.readline(most)


def _text(lines: Sequence[bytes]) -> str:
    return b"".join(lines).decode("utf-8")


def _listing(place: Path, pattern: str) -> str:
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is no folder")
    names = [
        f"{found.relative_to(place)}{'/' if found.is_dir() else ''}"
        for found in islice(place.glob(pattern), ENTRIES + 1)
    ]
    more = [f"[there are more than {ENTRIES}]"] if len(names) > ENTRIES else []
    return "\n".join([*sorted(names[:ENTRIES]), *more]) or "[nothing]"


def _require_regular(file: Path) -> None:
    mode = file.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder says itself what is wrong
        raise ValueError(f"{file} is no regular file")


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
