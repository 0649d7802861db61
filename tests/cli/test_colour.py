from __future__ import annotations

import pytest

from playhead.cli import colour, output


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_colour_that_ends_with_the_text() -> None:
    assert colour.paint("lost", "bold red") == "\x1b[1;31mlost\x1b[0m"
    assert colour.paint("", "red") == ""
    assert colour.paint("plain", "") == "plain"


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")])
def test_who_wants_no_colour_gets_none(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert colour.paint("lost", "red") == "lost"


def test_a_pipe_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: False)
    monkeypatch.setenv("TERM", "xterm")
    assert colour.paint("lost", "red") == "lost"
