"""The inbox: two ordered lists of pending messages, and every way to change them.

``next-turn`` holds prompts that get a turn of their own, ``next-step`` what joins the nearest step. There is one
primitive, ``splice``; everything else is said in it. Its numbers are forgiving (``projections/inbox_lists.py`` has
the arithmetic); a splice that changes nothing leaves no trace.

Order of a change: the event is in the log, then the list changes, then the notices follow, ``discarded`` for what
was removed and ``inserted`` for what came. The log holds whole messages where they come in and only numbers where
they go out. No id may be pending twice, in the two lists together, and only messages of the role ``user`` wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from playhead.eventstore import members
from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.messages import Message
from playhead.eventstore.recorded import Recorded
from playhead.live.notices import Notices
from playhead.live.session import LiveSession
from playhead.projections.inbox_lists import (
    NEXT_STEP,
    NEXT_TURN,
    Lists,
    Misfit,
    Splice,
    Target,
    fitted,
    normalised,
)
from playhead.projections.inbox_lists import read as said_by

SPLICED = "agent/inbox/spliced"


class InvalidSplice(UsageError):
    """A change that the inbox cannot take; nothing was appended and nothing changed.

    ``kind`` is ``duplicate-pending-id``, ``missing-id``, ``wrong-role`` or ``unknown-target``.
    """

    code = "invalid-splice"

    def __init__(self, session: str, kind: str, reason: str) -> None:
        self.session = session
        self.kind = kind
        super().__init__(f"session {session!r}: {reason}; nothing was changed")


class Inbox:
    """The pending messages of the agent of ``session``."""

    def __init__(self, session: LiveSession, notices: Notices) -> None:
        self._session = session
        self._notices = notices
        self._lists = Lists()
        self._messages: dict[str, Message] = {}
        for fact in session.stored.read(session.from_seq, types=[SPLICED]):
            self._restore(fact)

    @property
    def next_turn(self) -> tuple[Message, ...]:
        """Prompts that wait for a turn of their own, first in line first."""
        return self._of(NEXT_TURN)

    @property
    def next_step(self) -> tuple[Message, ...]:
        """Messages that join the nearest step, first in line first."""
        return self._of(NEXT_STEP)

    @property
    def has_pending(self) -> bool:
        return not self._lists.empty

    def append(self, target: Target, message: Message) -> None:
        """Put ``message`` at the end of a list."""
        self.splice(target, len(self._lists.of(target)), 0, [message])

    def prepend(self, target: Target, message: Message) -> None:
        """Put ``message`` at the front of a list."""
        self.splice(target, 0, 0, [message])

    def replace(self, id: str, message: Message) -> bool:
        """Put ``message`` in the place of the pending message ``id``; False when that is not pending."""
        return self._at(id, [message])

    def remove(self, id: str) -> bool:
        """Take the pending message ``id`` out; False when it is not pending."""
        return self._at(id, [])

    def clear(self) -> None:
        """Take everything out: first ``next-step``, then ``next-turn``."""
        for target in (NEXT_STEP, NEXT_TURN):
            self.splice(target, 0, len(self._lists.of(target)))

    def splice(
        self, target: Target, start: float, delete_count: float, inserted: Iterable[Message] = ()
    ) -> list[Message]:
        """Let ``delete_count`` messages from ``start`` on give way to ``inserted``; gives those removed.

        A negative ``start`` counts from the end, fractions are cut off, and both numbers are clamped to the list.
        Raises ``InvalidSplice`` when an id would be pending twice, and for what cannot wait at all.
        """
        if target not in (NEXT_TURN, NEXT_STEP):
            raise self._invalid(
                "unknown-target", f"{target!r} is no list: there are {NEXT_TURN} and {NEXT_STEP}"
            )
        first, removed = normalised(len(self._lists.of(target)), start, delete_count)
        coming = list(inserted)
        gone = self._spliced(target, first, removed, coming, claimed=False)
        for message in gone:
            self._notices.tell("agent/inbox/discarded", message=message)
        for message in coming:
            self._notices.tell("agent/inbox/inserted", message=message)
        return gone

    def claim(self, target: Target, turn: int) -> list[Message]:
        """Take out what a step of ``turn`` is to begin with: all of ``next-step``, and at the boundary of a turn
        (``target`` is ``next-turn``) the first prompt, which comes last. The notices follow both removals."""
        batch = self._spliced(NEXT_STEP, 0, len(self._lists.next_step), [], claimed=True)
        if target == NEXT_TURN:
            batch += self._spliced(NEXT_TURN, 0, min(1, len(self._lists.next_turn)), [], claimed=True)
        for message in batch:
            self._notices.tell("agent/inbox/claimed", message=message, turn=turn)
        return batch

    def _of(self, target: Target) -> tuple[Message, ...]:
        return tuple(self._messages[id] for id in self._lists.of(target))

    def _at(self, id: str, inserted: Sequence[Message]) -> bool:
        for target in (NEXT_TURN, NEXT_STEP):
            if id in self._lists.of(target):
                self.splice(target, self._lists.of(target).index(id), 1, inserted)
                return True
        return False

    def _spliced(
        self, target: Target, start: int, removed: int, inserted: Sequence[Message], *, claimed: bool
    ) -> list[Message]:
        if not removed and not inserted:
            return []
        splice = Splice(target, start, removed, tuple(message.id for message in inserted))
        _, misfits = fitted(self._lists, splice)
        for message in inserted:
            if not message.id:
                raise self._invalid("missing-id", "a message without an id cannot wait in an inbox")
            if message.role != "user":
                wrong_role = f"message {message.id!r} has the role {message.role}; only user messages wait"
                raise self._invalid("wrong-role", wrong_role)
        if misfits:
            wrong = misfits[0]
            raise self._invalid(wrong.kind, wrong.message.partition("; assumed")[0])
        data: dict[str, Any] = {"target": target, "start": start}
        if removed:
            data["removedCount"] = removed
        data["inserted"] = [message.to_json() for message in inserted]
        if removed and not claimed:
            data["outcome"] = "canceled"
        fact = self._session.append(SPLICED, data)
        gone = self._apply(splice)
        # What is pending from now on is what the log holds, not the caller's object.
        self._messages |= {message["id"]: Message.decode(message) for message in fact.json["inserted"]}
        return gone

    def _apply(self, splice: Splice) -> list[Message]:
        self._lists, removed = self._lists.spliced(splice)
        return [self._messages.pop(id) for id in removed]

    def _restore(self, fact: Recorded) -> None:
        said = said_by(members.of(fact))
        if isinstance(said, Misfit):
            raise self._unknowable(fact, said)
        for wrong in (*said.misfits, *fitted(self._lists, said.splice)[1]):
            raise self._unknowable(fact, wrong)
        self._apply(said.splice)
        self._messages |= {id: Message.decode(message) for id, message in said.messages.items()}

    def _invalid(self, kind: str, reason: str) -> InvalidSplice:
        return InvalidSplice(self._session.id, kind, reason)

    def _unknowable(self, fact: Recorded, wrong: Misfit) -> CorruptLog:
        return CorruptLog(
            self._session.id,
            f"seq {fact.seq}: {wrong.message.partition('; assumed')[0]}, so what is pending cannot be known; "
            "`playhead inbox` shows what it assumes; fork the session to go on without its queue",
            seq=fact.seq,
            kind=wrong.kind,
        )
