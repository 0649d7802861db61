"""A conversation without a terminal: its lines come from a file, or from stdin as they are written.

A line of text is a prompt with a turn of its own, and the next line is read when nothing runs any more; commands go on
at once. Blank lines, and lines that begin with ``#``, say nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from playhead.cli.app import DONE, FOUND_A_PROBLEM, STOPPED
from playhead.cli.run_commands import Command, Quit, Say, Send, Wait, parsed
from playhead.cli.run_conversation import Conversation
from playhead.cli.run_signals import heeded
from playhead.eventstore.errors import UsageError
from playhead.projections.inbox_lists import NEXT_TURN

_PIECE = 2**16


def command_of(line: bytes, where: str) -> Command | None:
    """The command of a line; None where it says nothing. Raises ``UsageError`` that begins with ``where``."""
    try:
        text = line.decode("utf-8").rstrip("\r\n")
        return None if not text.strip() or text.startswith("#") else parsed(text)
    except UnicodeDecodeError:
        raise UsageError(f"{where}: this line is no UTF-8") from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def commands_of(content: bytes, name: str) -> list[Command]:
    """The commands of a whole script. Raises ``UsageError`` that names the file and the line."""
    lines = enumerate(content.removeprefix(BOM_UTF8).splitlines(), 1)
    found = (command_of(line, f"{name}:{number}") for number, line in lines)
    return [command for command in found if command is not None]


async def play(conversation: Conversation, first: Iterable[Command], *, reads_stdin: bool) -> int:
    """Do what ``first`` says, then what comes on stdin if that is read, to the end; the exit code.

    Ctrl-C stops the turn and leaves. Raises ``UsageError`` for a command that cannot be done, and what the log of the
    conversation failed with.
    """
    playing = asyncio.ensure_future(_played(conversation, first, reads_stdin))
    watching = asyncio.ensure_future(conversation.watch())

    def interrupt() -> None:
        conversation.cancel(keep=True)
        playing.cancel()

    try:
        with heeded(interrupt, playing.cancel):
            ended, _ = await asyncio.wait([playing, watching], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (playing, watching):
            task.cancel()
        await asyncio.gather(playing, watching, return_exceptions=True)
    for task in ended:
        if not task.cancelled():
            task.result()
    if playing.cancelled():
        return STOPPED
    return FOUND_A_PROBLEM if conversation.failed else DONE


async def _played(conversation: Conversation, first: Iterable[Command], reads_stdin: bool) -> None:
    for command in first:
        if not await _done(conversation, command):
            return
    if reads_stdin:
        number = 0
        async for line in _lines(sys.stdin.fileno()):
            number += 1
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            command_read = command_of(line, f"stdin:{number}")
            if command_read is not None and not await _done(conversation, command_read):
                return
    await conversation.quiet()


async def _done(conversation: Conversation, command: Command) -> bool:
    """Do what ``command`` says, and wait where it waits; False for the one that leaves."""
    if isinstance(command, Quit):
        return False
    if isinstance(command, Say):
        conversation.act(Send(NEXT_TURN, True, command.text))
    else:
        conversation.view.say(conversation.act(command))
    if isinstance(command, Say | Wait):
        await conversation.quiet()
    return True


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """The lines of a file as they come. A thread reads them, which nobody need wait for at the end."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        rest = b""
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            while piece := os.read(descriptor, _PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    loop.call_soon_threadsafe(queue.put_nowait, line)
            if rest:
                loop.call_soon_threadsafe(queue.put_nowait, rest)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="playhead-stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line
