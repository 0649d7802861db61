"""What the owners of invariants have in common: what they find, and how they are fed."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded


class Fault(NamedTuple):
    """The rule that an event breaks, and in what way."""

    rule: str
    message: str


class Violation(NamedTuple):
    """An event that breaks a rule of ``owner``. ``rule`` is a stable code; the message is for people."""

    owner: str
    rule: str
    seq: int
    message: str


class Owner(Protocol):
    """The rules of one package, as a state machine over the facts of one session.

    ``types`` are the events it wants to see; None stands for all. After a fault the state goes on from what
    the log says, so that one fault is not reported again with every later event.
    """

    types: ClassVar[frozenset[str] | None]

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks. Any data will do."""


BOUNDARIES = frozenset({"turn/start", "turn/end", "step/start", "step/end"})


class Place:
    """The open turn and the open step, by the boundaries of the log; None where nothing is open."""

    __slots__ = ("step", "turn")

    def __init__(self) -> None:
        self.turn: float | None = None
        self.step: float | None = None

    def follow(self, fact: Recorded) -> bool:
        """Take a boundary; False for any other fact."""
        match fact.type:
            case "turn/start":
                self.turn, self.step = members.number(members.of(fact), "turn"), None
            case "turn/end":
                self.turn, self.step = None, None
            case "step/start":
                self.step = members.number(members.of(fact), "step")
            case "step/end":
                self.step = None
            case _:
                return False
        return True

    def outside_turn(self) -> Fault | None:
        """The fault of an event that needs an open turn, where there is none."""
        return None if self.turn is not None else Fault("outside-turn", "no turn is open")


_BLANKS = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_BLANKS += "\u2028\u2029\u202f\u205f\u3000\ufeff"


def is_trimmed(text: str | None) -> bool:
    """True for text that is not empty and has no blank at either end, as JavaScript counts blanks."""
    return bool(text) and text == trimmed(text)  # type: ignore[arg-type]


def trimmed(text: str) -> str:
    """``text`` without the blanks at both ends, as JavaScript counts blanks."""
    return text.strip(_BLANKS)
