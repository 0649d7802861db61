"""A conversation from its first word to its last, in a store: a new session, or one that goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Literal

from playhead.cli import output, place
from playhead.cli.run_commands import ChangeGoal, Command, Say
from playhead.cli.run_opening import conversation_in
from playhead.cli.run_plan import Asked, Plan, last_header, planned
from playhead.cli.run_script import commands_of, play
from playhead.cli.run_signals import put_back
from playhead.cli.run_terminal import Terminal
from playhead.cli.run_views import JsonView, TextView, to_stdout
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import SessionExists, UsageError
from playhead.live.goals import DEFAULT_MAX_ROUNDS

if TYPE_CHECKING:
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.sql_session import SqlSession

_WIDEST = 120


@dataclass(frozen=True, slots=True)
class Talk:
    """What is said: ``first`` these commands, and then what comes from elsewhere."""

    first: list[Command]
    then: Literal["terminal", "stdin", "nothing"]


def talk_of(
    prompt: str | None,
    goal: tuple[str | None, int | None],
    script: tuple[str, bytes] | None,
    *,
    takes_stdin: bool,
    in_terminal: bool,
) -> Talk:
    """What is said for these options: a prompt; a goal and its most rounds; the name and content of a script.

    The goal comes first: its rounds are sent when nothing else is queued, so not before the prompt. Raises
    ``UsageError`` for a script that makes no sense.
    """
    objective, rounds = goal
    first: list[Command] = []
    if objective is not None:
        first.append(ChangeGoal("create", objective, rounds or DEFAULT_MAX_ROUNDS))
    if prompt is not None:
        first.append(Say(prompt))
    if script is not None:
        name, content = script
        return Talk(first + commands_of(content, name), "nothing")
    if in_terminal and not takes_stdin:
        return Talk(first, "terminal")
    return Talk(first, "stdin" if takes_stdin or prompt is None else "nothing")


def record(url: str, asked: Asked, talk: Talk, *, resume: str | None, new_id: str | None, json: bool) -> int:
    """Have the conversation in the store at ``url``; the exit code. A new one is not begun unless it can be had."""
    if resume is None:
        plan = planned(asked, None, os.environ)
        with place.open_store(url, create=True) as held:
            return _recorded(held, _created(held, new_id), plan, talk, json)
    with place.open_store(url) as held:
        log = _native(held, resume)
        return _recorded(held, log, planned(asked, last_header(log), os.environ), talk, json)


def _created(store: SqlStore, id: str | None) -> SqlSession:
    from playhead.eventstore.header import SessionHeader
    from playhead.eventstore.ids import SessionId
    from playhead.live.options import now_ms

    new = SessionId(str(uuid.uuid4()) if id is None else id)
    try:
        return store.create(SessionHeader(new, now_ms(), cwd=os.getcwd()))
    except SessionExists:
        raise UsageError(
            f"there is a session {new!r}: --resume goes on with it, another --id begins anew"
        ) from None


def _native(store: SqlStore, session: str) -> SqlSession:
    from playhead.eventstore.dialect import Native

    log = store.find(session)
    if log.info.dialect != Native.name:
        raise UsageError(
            f"session {log.id!r} was imported and stays as it is: `playhead fork {log.id}` makes one that goes on "
            "from it; resume that"
        )
    return log


def _recorded(store: SqlStore, log: SqlSession, plan: Plan, talk: Talk, json: bool) -> int:
    try:
        with put_back():
            return asyncio.run(_converse(store, log, plan, talk, json))
    finally:
        with suppress(OSError):  # nobody may be there to read it
            output.note(f"recorded as {safe(log.id)}; `playhead show {quote(safe(log.id))}` shows it")


async def _converse(store: SqlStore, log: SqlSession, plan: Plan, talk: Talk, json: bool) -> int:
    if talk.then == "terminal":
        terminal = Terminal()
        view = TextView(log.header, terminal.write, measure=_width, rubs_out=True, aside=terminal.aside)
        try:
            async with conversation_in(store, log, plan, view) as conversation:
                return await terminal.talk(conversation, talk.first)
        finally:
            terminal.rest()
    if talk.then == "stdin" and sys.stdin.isatty():
        output.note("each line is a prompt or a command; Ctrl-D ends")
    plain = JsonView() if json else TextView(log.header, to_stdout, measure=_width)
    async with conversation_in(store, log, plan, plain) as conversation:
        return await play(conversation, talk.first, reads_stdin=talk.then == "stdin")


def _width() -> int | None:
    """The width to wrap to; None where nobody looks."""
    return min(get_terminal_size().columns - 1, _WIDEST) if output.on_terminal() else None
