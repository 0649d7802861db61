"""``playhead run``: a conversation with a model, recorded as it goes.

Here are the options; what they ask for is done in ``run_recording.py``, which is loaded when it is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from playhead.cli import output, place
from playhead.cli.app import command
from playhead.eventstore.errors import UsageError


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
        int | None,
        typer.Option(
            min=0, metavar="N", help="How often a call is made again that failed; 5 times if not given."
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Let the model use a tool: read-file, write-file, list-files, shell or end-goal; repeatable.",
        ),
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
    if new_id is not None and not new_id.strip():
        raise UsageError("a session needs an id")
    if system is not None and system_file is not None:
        raise UsageError("--system and --system-file are two prompts: choose one")
    if prompt is not None and not prompt.strip():
        raise UsageError("a prompt needs some text")
    if goal is not None and not goal.strip():
        raise UsageError("a goal needs some text")
    if goal_rounds is not None and goal is None:
        raise UsageError("--goal-rounds goes with --goal")
    from playhead.cli.run_plan import Asked
    from playhead.cli.run_recording import record, talk_of

    from_file = None if script is None or str(script) == "-" else _content(script)
    talk = talk_of(
        prompt,
        (goal, goal_rounds),
        None if from_file is None else (str(script), from_file),
        takes_stdin=script is not None,
        in_terminal=not json and _is_at_terminal(),
    )
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
    return record(place.store_url(store), asked, talk, resume=resume, new_id=new_id, json=json)


def _is_at_terminal() -> bool:
    """Whether a person can type below what streams: both ends are a terminal, and one that moves its cursor."""
    return sys.stdin.isatty() and output.on_terminal() and os.environ.get("TERM", "") not in ("", "dumb")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def _text_of(file: Path) -> str:
    try:
        return _content(file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: this is no UTF-8 text") from None
