"""What a line in a conversation asks for: text for the model, or a command that begins with a slash.

``//`` at the front stands for a slash that is part of the text. Source: docs/cli.md, "playhead run".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from playhead.eventstore.errors import UsageError
from playhead.live.goals import DEFAULT_MAX_ROUNDS
from playhead.projections.inbox_lists import NEXT_STEP, NEXT_TURN, Target

HELP = """\
TEXT                 a prompt; while the model works it joins the next step
/steer TEXT          join the next step, and begin if nothing runs
/followup TEXT       a turn of its own, behind what is queued
/inject TEXT         join the next step, whenever there is one
/send LIST WAKE TEXT next-turn or next-step, wake or park
/inbox               what is queued; /inbox edit ID TEXT, /inbox remove ID
/cancel [keep]       stop the turn; what is queued goes too, unless keep
/goal [TEXT]         the goal, or a new one, worked on round after round
/goal DO             pause, resume, complete, clear, edit TEXT or rounds N
/wake                go on with what is queued
/status              the session so far
/wait                in a script: until nothing runs
/quit                leave; what is queued waits in the session"""


@dataclass(frozen=True, slots=True)
class Say:
    """Text without a command: where it goes depends on what runs."""

    text: str


@dataclass(frozen=True, slots=True)
class Send:
    """A message for one of the two lists of the inbox; ``wakeup`` begins to work if nothing runs."""

    target: Target
    wakeup: bool
    text: str


@dataclass(frozen=True, slots=True)
class ShowInbox:
    """What is pending."""


@dataclass(frozen=True, slots=True)
class ChangeInbox:
    """Another ``text`` for the pending message whose id begins with ``id``; None takes it out."""

    id: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop what runs, and discard what is pending unless ``keep``."""

    keep: bool


GoalOperation: TypeAlias = Literal["show", "create", "pause", "resume", "complete", "clear", "edit", "rounds"]


@dataclass(frozen=True, slots=True)
class ChangeGoal:
    """``text`` is the objective for ``create`` and ``edit``; ``rounds`` the most rounds for ``create``, ``rounds``."""

    operation: GoalOperation
    text: str = ""
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Wake:
    """Go on with what is pending."""


@dataclass(frozen=True, slots=True)
class Status:
    """Where the session stands."""


@dataclass(frozen=True, slots=True)
class Help:
    """What can be typed."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Until nothing runs."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave."""


Command: TypeAlias = (
    Say | Send | ShowInbox | ChangeInbox | Cancel | ChangeGoal | Wake | Status | Help | Wait | Quit
)


def parsed(line: str) -> Command:
    """The command in ``line``. Raises ``UsageError`` for one that makes no sense."""
    if not line.startswith("/"):
        return Say(_text(line, "a prompt"))
    if line.startswith("//"):
        return Say(line[1:])
    name, rest = _split(line)
    read = _READERS.get(name)
    if read is None:
        raise UsageError(f"there is no command {name}; /help lists them, and // begins a text with a slash")
    return read(rest)


def _split(text: str) -> tuple[str, str]:
    """The first word and what follows it, as it was typed."""
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""


def _text(text: str, what: str) -> str:
    if not text.strip():
        raise UsageError(f"{what} needs some text")
    return text


def _nothing(command: Command, name: str) -> Callable[[str], Command]:
    def read(rest: str) -> Command:
        if rest:
            raise UsageError(f"{name} takes nothing behind it")
        return command

    return read


def _sender(name: str, target: Target, wakeup: bool) -> Callable[[str], Command]:
    return lambda rest: Send(target, wakeup, _text(rest, name))


def _send(rest: str) -> Command:
    target, rest = _split(rest)
    wake, text = _split(rest)
    if wake not in ("wake", "park") or target not in (NEXT_TURN, NEXT_STEP):
        raise UsageError("/send next-turn or next-step, then wake or park, then the text")
    return Send(NEXT_TURN if target == NEXT_TURN else NEXT_STEP, wake == "wake", _text(text, "/send"))


def _inbox(rest: str) -> Command:
    action, rest = _split(rest)
    id, text = _split(rest)
    match action:
        case "":
            return ShowInbox()
        case "remove" if id and not text:
            return ChangeInbox(id, None)
        case "edit" if text:
            return ChangeInbox(id, text)
    raise UsageError("/inbox lists what is queued; /inbox remove ID and /inbox edit ID TEXT change it")


def _cancel(rest: str) -> Command:
    if rest not in ("", "keep"):
        raise UsageError("/cancel discards what is queued, /cancel keep leaves it there")
    return Cancel(rest == "keep")


def _goal(rest: str) -> Command:
    word, more = _split(rest)
    match word:
        case "":
            return ChangeGoal("show")
        case "pause" | "resume" | "complete" | "clear" if not more:
            return ChangeGoal(word)
        case "edit" if more:
            return ChangeGoal("edit", more)
        case "rounds":
            if not (more.isascii() and more.isdigit()):
                raise UsageError(f"/goal rounds {more}: give the most rounds as a number")
            return ChangeGoal("rounds", rounds=int(more))
    return ChangeGoal("create", rest, DEFAULT_MAX_ROUNDS)


_READERS: Mapping[str, Callable[[str], Command]] = {
    "/steer": _sender("/steer", NEXT_STEP, True),
    "/followup": _sender("/followup", NEXT_TURN, True),
    "/inject": _sender("/inject", NEXT_STEP, False),
    "/send": _send,
    "/inbox": _inbox,
    "/cancel": _cancel,
    "/goal": _goal,
    "/wake": _nothing(Wake(), "/wake"),
    "/status": _nothing(Status(), "/status"),
    "/help": _nothing(Help(), "/help"),
    "/wait": _nothing(Wait(), "/wait"),
    "/quit": _nothing(Quit(), "/quit"),
}
