"""Which live session gets which recorded script, and how far each has come.

Scripts stand in line: that of the primary session first, then those of its children, the oldest first (among equals the
lower id). A live session that calls for the first time takes the script of its own id where that is free, else the next
one that is. Calls that name no session share one cursor, as if they were one session. A cursor moves on when a call
comes, before anything of the answer is known. Source: docs/replaying-in-tests.md, "Which session answers".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from playhead.eventstore.errors import PlayheadError

T = TypeVar("T")


class Unanswerable(PlayheadError):
    """A call for which nothing was recorded."""

    code = "unanswerable"


class ScriptExhausted(Unanswerable):
    """The session was asked more often than it was recorded; ``number`` counts the calls from 1."""

    code = "script-exhausted"

    def __init__(self, session: str, number: int) -> None:
        self.session = session
        self.number = number
        calls = "call" if number == 2 else "calls"
        super().__init__(
            f"call {number} of session {session!r}: the script is exhausted, it has {number - 1} {calls}"
        )


class TooManySessions(Unanswerable):
    """More sessions came than were recorded."""

    code = "too-many-sessions"

    def __init__(self, live: str | None, recorded: int) -> None:
        who = "calls that name no session" if live is None else f"session {live!r}"
        sessions = "session is" if recorded == 1 else "sessions are"
        super().__init__(
            f"nothing is left for {who}: {recorded} {sessions} served, and others have taken them"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Script(Generic[T]):
    """The calls of one recorded session, in order."""

    session: str
    created_ms: int
    entries: Sequence[T]


@dataclass(frozen=True, slots=True)
class Unserved:
    """A script that was not played to its end: ``served`` of its ``calls``; ``claimed`` is False for never begun."""

    session: str
    claimed: bool
    served: int
    calls: int


class Cursor(Generic[T]):
    """Where a live session is in its script."""

    def __init__(self, script: Script[T]) -> None:
        self.script = script
        self.at = 0

    @property
    def next(self) -> T:
        """The entry of the next call. Raises ``ScriptExhausted``."""
        if self.at >= len(self.script.entries):
            raise ScriptExhausted(self.script.session, self.at + 1)
        return self.script.entries[self.at]

    def advance(self) -> None:
        """The call has come."""
        self.at += 1


class Claims(Generic[T]):
    """The scripts, and who took them. ``scripts`` stand in the order in which they are taken, see ``in_line``."""

    def __init__(self, scripts: Sequence[Script[T]]) -> None:
        self.scripts = tuple(scripts)
        self._free = list(scripts)
        self._cursors: dict[str | None, Cursor[T]] = {}

    def cursor(self, live: str | None) -> Cursor[T]:
        """The cursor of the live session, or of all calls without one. Raises ``TooManySessions``."""
        cursor = self._cursors.get(live)
        if cursor is None:
            own = next((script for script in self._free if script.session == live), None)
            script = own or next(iter(self._free), None)
            if script is None:
                raise TooManySessions(live, len(self.scripts))
            self._free.remove(script)
            cursor = self._cursors[live] = Cursor(script)
        return cursor

    def unserved(self) -> list[Unserved]:
        """The scripts of which a call was never asked for, in line."""
        places = {id(cursor.script): cursor.at for cursor in self._cursors.values()}
        found = [
            Unserved(script.session, id(script) in places, places.get(id(script), 0), len(script.entries))
            for script in self.scripts
        ]
        return [script for script in found if script.served < script.calls]


def in_line(primary: Script[T], children: Iterable[Script[T]]) -> list[Script[T]]:
    """The scripts in the order in which live sessions take them."""
    return [primary, *sorted(children, key=lambda script: (script.created_ms, script.session))]
