"""The frame of every command: names and help, exit codes, and how an error is shown.

Exit codes: 0 done; 1 done, and a problem was found; 2 wrong usage; 3 could not run; 130 stopped by Ctrl-C;
141 the reader of our output went away. A command is a function that returns 0 or 1; whatever it raises is
shown as one line on stderr, never as a traceback. Source: docs/cli.md.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from typing import Annotated, ParamSpec

import typer

from playhead.cli import place
from playhead.cli.output import note, silence
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import CorruptLog, NotALog, PlayheadError, UnknownEventType, UsageError

P = ParamSpec("P")

DONE, FOUND_A_PROBLEM, WRONG_USAGE, COULD_NOT_RUN = 0, 1, 2, 3
STOPPED, READER_GONE = 130, 141

app = typer.Typer(
    name="playhead",
    help="Keep AI-agent sessions, look at them, and get back exactly what was kept.",
    epilog="Where the store is: --store, else PLAYHEAD_STORE, else a SQLite file in your data folder.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(name: str, *, of: typer.Typer = app) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Makes a function the command ``name``; its docstring is the help, what it returns the exit code."""

    def register(run: Callable[P, int]) -> Callable[P, int]:
        of.command(name, help=_help(run))(_guarded(run))
        return run

    return register


def _help(run: Callable[..., int]) -> str:
    """The docstring of ``run``, each paragraph one line: a terminal has its own width."""
    paragraphs = getdoc(run) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs.split("\n\n"))


def group(name: str, help: str) -> typer.Typer:
    """A command with sub-commands; hand it to ``command`` as ``of``."""
    sub = typer.Typer(name=name, help=help, no_args_is_help=True, pretty_exceptions_enable=False)
    app.add_typer(sub)
    return sub


def _guarded(run: Callable[P, int]) -> Callable[P, None]:
    @wraps(run)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = run(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            silence(sys.stdout)
            code = READER_GONE
        except KeyboardInterrupt:
            note("stopped")
            code = STOPPED
        except Exception as error:
            if isinstance(error, typer.Exit | typer.Abort | typer.BadParameter):
                raise
            code = show(error)
        raise typer.Exit(code)

    return guarded


def show(error: Exception) -> int:
    """Say on stderr what went wrong, in one line; the exit code that goes with it."""
    trace(error)
    match error:
        case UsageError():
            code = WRONG_USAGE
        case CorruptLog() | NotALog() | UnknownEventType():
            code = FOUND_A_PROBLEM
        case _:
            code = COULD_NOT_RUN
    note(explain(error))
    return code


def trace(error: Exception) -> None:
    """Print the traceback of ``error`` where the user asked for such things."""
    if os.environ.get("PLAYHEAD_DEBUG") == "1":
        traceback.print_exception(error)
    try:
        sys.stdout.flush()
    except (
        OSError
    ):  # a full disk: what could not be written stays in the way, and would fail again at the end
        silence(sys.stdout)


def explain(error: Exception) -> str:
    """The one line that says what ``error`` means to the user."""
    match error:
        case PlayheadError():
            return safe(str(error))
        case OSError(strerror=str(reason)):
            return safe(f"{error.filename}: {reason}" if error.filename else reason)
        case _:
            what = safe(f"{type(error).__name__}: {error}", limit=300)
            return (
                f"unexpected {what}; this is a bug in playhead: please report it with the output "
                "of the same command under PLAYHEAD_DEBUG=1"
            )


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"playhead {version('playhead')}")
        raise typer.Exit


@app.callback()
def options(
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The store: sqlite:///FILE, a file, or postgresql://..."),
    ] = None,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    place.chosen = store
