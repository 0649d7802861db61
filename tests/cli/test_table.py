from __future__ import annotations

import sys

import pytest

from playhead.cli import output, table

HEADINGS = ("ID", ">N", "TEXT")
ROWS = [("a-very-long-identifier", "1", "[bold]not markup[/bold]"), ("b", "1234", "tab\there :tada:")]


def test_a_program_gets_one_tab_separated_line_per_row(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    table.show(HEADINGS, ROWS)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == (
        b"a-very-long-identifier\t1\t[bold]not markup[/bold]\nb\t1234\ttab\\there :tada:\n"
    )


def test_a_person_gets_aligned_columns_with_headings(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    table.show(HEADINGS, ROWS)
    sys.stdout.flush()
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines == [
        "ID                         N  TEXT",
        "a-very-long-identifier     1  [bold]not markup[/bold]",
        "b                       1234  tab\\there :tada:",
    ]


def test_a_narrow_terminal_cuts_the_last_column_and_no_other(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    table.show(HEADINGS, [("a-very-long-identifier", "1234", "漢" * 100)])
    sys.stdout.flush()
    row = capfdbinary.readouterr().out.decode().splitlines()[1]
    assert row == "a-very-long-identifier  1234  漢漢漢漢漢…"
