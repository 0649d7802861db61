"""Lines of a conversation: what they ask for, and what is said about those that make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.cli.run_commands import (
    HELP,
    Cancel,
    ChangeGoal,
    ChangeInbox,
    Command,
    Help,
    Quit,
    Say,
    Send,
    ShowInbox,
    Status,
    Wait,
    Wake,
    parsed,
)
from playhead.cli.run_script import command_of, commands_of
from playhead.eventstore.errors import UsageError


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("hello  there ", Say("hello  there ")),
        ("//etc/hosts, what is it?", Say("/etc/hosts, what is it?")),
        ("/steer  go  on ", Send("next-step", True, "go  on ")),
        ("/followup then", Send("next-turn", True, "then")),
        ("/inject by the way", Send("next-step", False, "by the way")),
        ("/send next-turn wake a", Send("next-turn", True, "a")),
        ("/send next-turn park a b", Send("next-turn", False, "a b")),
        ("/send next-step wake a", Send("next-step", True, "a")),
        ("/send next-step park a", Send("next-step", False, "a")),
        ("/inbox", ShowInbox()),
        ("/inbox remove ab12", ChangeInbox("ab12", None)),
        ("/inbox edit ab12 say  this", ChangeInbox("ab12", "say  this")),
        ("/cancel", Cancel(False)),
        ("/cancel keep", Cancel(True)),
        ("/goal", ChangeGoal("show")),
        ("/goal write a poem", ChangeGoal("create", "write a poem", 256)),
        ("/goal pause the music", ChangeGoal("create", "pause the music", 256)),
        ("/goal pause", ChangeGoal("pause")),
        ("/goal resume", ChangeGoal("resume")),
        ("/goal complete", ChangeGoal("complete")),
        ("/goal clear", ChangeGoal("clear")),
        ("/goal edit write prose", ChangeGoal("edit", "write prose")),
        ("/goal rounds 12", ChangeGoal("rounds", rounds=12)),
        ("/wake", Wake()),
        ("/status", Status()),
        ("/help", Help()),
        ("/wait", Wait()),
        ("/quit", Quit()),
    ],
)
def test_a_line_is_the_command_that_it_names(line: str, command: Command) -> None:
    assert parsed(line) == command


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  ", "a prompt needs some text"),
        ("/nope", "there is no command /nope"),
        ("/steer", "/steer needs some text"),
        ("/send next-turn", "wake or park"),
        ("/send nowhere wake x", "/send next-turn or next-step"),
        ("/send next-turn wake", "/send needs some text"),
        ("/inbox remove", "/inbox lists"),
        ("/inbox edit a", "/inbox lists"),
        ("/inbox remove a b", "/inbox lists"),
        ("/cancel all", "/cancel keep"),
        ("/goal rounds many", "give the most rounds as a number"),
        ("/quit now", "/quit takes nothing behind it"),
    ],
)
def test_a_line_that_makes_no_sense_is_said(line: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parsed(line)


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_line_is_a_command_or_a_wrong_one(line: str) -> None:
    try:
        command = parsed(line)
    except UsageError:
        return
    if isinstance(command, Say):
        assert command.text == (line[1:] if line.startswith("//") else line)


@given(st.text(st.characters(exclude_categories=("Cs",))).filter(lambda text: text.strip()))
def test_every_text_can_be_said(text: str) -> None:
    assert parsed(f"/{text}" if text.startswith("/") else text) == Say(text)


def test_a_script_passes_over_comments_and_blank_lines_and_names_the_line_that_is_wrong() -> None:
    assert commands_of(b"# one\n\n  \nhi\r\n/quit", "s") == [Say("hi"), Quit()]
    assert commands_of(b"\xef\xbb\xbf# one\nhi", "s") == [Say("hi")]
    with pytest.raises(UsageError, match=r"^s:3: there is no command /x"):
        commands_of(b"hi\n# x\n/x\n", "s")
    with pytest.raises(UsageError, match=r"^s:2: this line is no UTF-8"):
        commands_of(b"hi\n\xff\n", "s")
    assert command_of(b"\n", "s") is None


def test_the_help_names_every_command_and_fits_a_terminal() -> None:
    names = "steer followup inject send inbox cancel goal wake status wait quit"
    for name in names.split():
        assert f"\n/{name}" in HELP
    assert max(len(line) for line in HELP.splitlines()) <= 76
