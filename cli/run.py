"""``playhead run``: a conversation with a model, recorded as it goes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from playhead.cli import output, place
from playhead.cli.app import command
from playhead.cli.run_commands import ChangeGoal, Command, Say
from playhead.cli.run_opening import conversation_in
from playhead.cli.run_plan import RETRIES, Asked, Plan, last_header, planned
from playhead.cli.run_script import commands_of, play
from playhead.cli.run_terminal import Terminal
from playhead.cli.run_tools import NAMES
from playhead.cli.run_views import JsonView, TextView, to_stdout
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import SessionExists, UsageError
from playhead.live.goals import DEFAULT_MAX_ROUNDS

if TYPE_CHECKING:
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.sql_session import SqlSession

_WIDEST = 120


@dataclass(frozen=True, slots=True)
class _Talk:
    """What is said: ``first`` these commands, and then what comes from elsewhere."""

    first: list[Command]
    then: Literal["terminal", "stdin", "nothing"]


@command("run")
def run(
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="What to say first.")] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the provider is, as other clients take it.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model to ask.")] = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How the provider speaks; if not given, as its host does, else openai-chat."
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The variable that holds the key; else the usual one of the dialect."
        ),
    ] = None,
    no_key: Annotated[
        bool, typer.Option("--no-key", help="The provider wants no key, as is taken of this machine.")
    ] = False,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system prompt.")] = None,
    system_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that holds the system prompt.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The most tokens of one answer.")
    ] = None,
    effort: Annotated[
        str | None, typer.Option(metavar="NAME", help="How much the model reasons, as the provider names it.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(metavar="X", help="The sampling temperature.")] = None,
    context_window: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="What the model can hold, in tokens, for the log.")
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="How often a call is made again that failed.")
    ] = RETRIES,
    tool: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Let the model use a tool: {', '.join(NAMES)}; repeatable."),
    ] = None,
    goal: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Work towards this, round after round.")
    ] = None,
    goal_rounds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The most rounds of --goal; 256 if not given.")
    ] = None,
    new_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The id of the new session; a random one if not given."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Go on with a session that was recorded here.")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Take what is said from a file; - is stdin, as without a terminal."
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="The events, as JSON lines as they come, in place of the text.")
    ] = False,
    no_wire: Annotated[
        bool, typer.Option("--no-wire", help="Do not keep the bytes of the calls beside the log.")
    ] = False,
    store: place.StoreOption = None,
) -> int:
    """Talk to a model, and record everything as it comes.

    In a terminal, type at any time: what is typed while the model works joins its next step, and /help lists the
    commands. Elsewhere the lines of stdin are the script, if no PROMPT is given. Exits 1 if the last turn failed.
    """
    if resume is not None and new_id is not None:
        raise UsageError("--resume goes on with a session and --id names a new one: choose one")
    if new_id == "":
        raise UsageError("a session needs an id")
    if system is not None and system_file is not None:
        raise UsageError("--system and --system-file are two prompts: choose one")
    if prompt is not None and not prompt.strip():
        raise UsageError("a prompt needs some text")
    if goal_rounds is not None and goal is None:
        raise UsageError("--goal-rounds goes with --goal")
    goals = [] if goal is None else [ChangeGoal("create", goal, goal_rounds or DEFAULT_MAX_ROUNDS)]
    talk = _talk(prompt, goals, script, in_terminal=not json and sys.stdin.isatty() and output.on_terminal())
    asked = Asked(
        base_url=base_url,
        dialect=dialect,
        key_env=key_env,
        no_key=no_key,
        model=model,
        system=system if system_file is None else _text_of(system_file),
        effort=effort,
        temperature=temperature,
        max_tokens=max_tokens,
        context_window=context_window,
        retries=retries,
        tools=tool or (),
        keeps_wire=not no_wire,
    )
    if resume is None:
        plan = planned(asked, None, os.environ)
        with place.open_store(store, create=True) as held:
            return _recorded(held, _created(held, new_id), plan, talk, json)
    with place.open_store(store) as held:
        log = _native(held, resume)
        return _recorded(held, log, planned(asked, last_header(log), os.environ), talk, json)


def _talk(prompt: str | None, goals: list[ChangeGoal], script: Path | None, *, in_terminal: bool) -> _Talk:
    """The goal comes first: its rounds are sent when nothing else is queued, but not before the prompt."""
    first: list[Command] = [*goals]
    first += [] if prompt is None else [Say(prompt)]
    if script is not None and str(script) != "-":
        return _Talk(first + commands_of(_content(script), str(script)), "nothing")
    if script is None and in_terminal:
        return _Talk(first, "terminal")
    return _Talk(first, "stdin" if script is not None or prompt is None else "nothing")


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


def _recorded(store: SqlStore, log: SqlSession, plan: Plan, talk: _Talk, json: bool) -> int:
    before = signal.getsignal(signal.SIGTERM)
    try:
        return asyncio.run(_converse(store, log, plan, talk, json))
    finally:
        signal.signal(signal.SIGTERM, before)
        output.note(f"recorded as {safe(log.id)}; `playhead show {safe(log.id)}` shows it")


async def _converse(store: SqlStore, log: SqlSession, plan: Plan, talk: _Talk, json: bool) -> int:
    if talk.then == "terminal":
        terminal = Terminal()
        view = TextView(log.header, terminal.write, measure=_width, rubs_out=True, aside=terminal.aside)
        try:
            async with conversation_in(store, log, plan, view) as conversation:
                return await terminal.talk(conversation, talk.first)
        finally:
            terminal.rest()
    plain = JsonView() if json else TextView(log.header, to_stdout, measure=_width)
    async with conversation_in(store, log, plan, plain) as conversation:
        return await play(conversation, talk.first, reads_stdin=talk.then == "stdin")


def _width() -> int | None:
    """The width to wrap to; None where nobody looks."""
    return min(get_terminal_size().columns - 1, _WIDEST) if output.on_terminal() else None


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def _text_of(file: Path) -> str:
    try:
        return _content(file).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: this is no UTF-8 text") from None
