"""The frame: what a command's end means for the exit code, and what a user sees of an error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from playhead.cli.app import command
from playhead.eventstore.errors import (
    CorruptLog,
    NotALog,
    PlayheadError,
    SessionNotFound,
    StoreUnavailable,
    UnknownEventType,
    UsageError,
)


def ending(run: Callable[[], int]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command that does what ``run`` does."""
    app = typer.Typer()
    command("it", of=app)(run)
    result = CliRunner().invoke(app, [])
    return result.exit_code, result.stdout, result.stderr


def raising(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


@pytest.mark.parametrize("code", [0, 1])
def test_what_a_command_returns_is_its_exit_code(code: int) -> None:
    assert ending(lambda: code) == (code, "", "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("--to 1 lies before --from 2"), 2),
        (SessionNotFound("x"), 2),
        (CorruptLog("x", "cut off", line=3), 1),
        (NotALog("no-header", "no log"), 1),
        (UnknownEventType("new/thing", 7), 1),
        (StoreUnavailable("no store at x; `playhead import` makes one"), 3),
        (PlayheadError("anything else"), 3),
        (FileNotFoundError(2, "No such file or directory", "missing.jsonl"), 3),
    ],
)
def test_each_kind_of_error_is_one_line_on_stderr_with_its_exit_code(error: Exception, code: int) -> None:
    exit_code, out, err = ending(raising(error))
    assert (exit_code, out) == (code, "")
    assert err.startswith("playhead: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_an_operating_system_error_names_the_file_and_the_reason() -> None:
    _, _, err = ending(raising(PermissionError(13, "Permission denied", "/some/file")))
    assert err == "playhead: /some/file: Permission denied\n"


def test_control_characters_in_an_error_are_escaped() -> None:
    _, _, err = ending(raising(UsageError("no session \x1b[2J\nforged")))
    assert err == "playhead: no session \\x1b[2J\\nforged\n"


def test_an_unexpected_error_is_one_line_that_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PLAYHEAD_DEBUG", raising=False)
    exit_code, _, err = ending(raising(ZeroDivisionError("division by zero")))
    assert exit_code == 3
    assert "ZeroDivisionError: division by zero" in err
    assert "PLAYHEAD_DEBUG=1" in err
    assert err.count("\n") == 1


def test_the_debug_variable_adds_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_DEBUG", "1")
    _, _, err = ending(raising(ZeroDivisionError("division by zero")))
    assert err.startswith("Traceback")


def test_ctrl_c_ends_with_130_and_no_traceback() -> None:
    assert ending(raising(KeyboardInterrupt())) == (130, "", "playhead: stopped\n")


def test_a_reader_who_went_away_ends_the_command_silently() -> None:
    assert ending(raising(BrokenPipeError())) == (141, "", "")


def test_paragraphs_of_help_are_wrapped_to_the_terminal_and_not_where_the_docstring_is() -> None:
    app = typer.Typer()

    def run() -> int:
        """Do it.

        This is said on a line
        and on the next.
        """
        return 0

    command("it", of=app)(run)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    assert "Do it." in shown
    assert "This is said on a line and on the next." in shown
