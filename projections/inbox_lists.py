"""The two lists of pending input, and what a splice does to them.

``next-turn`` holds prompts that get a turn of their own, ``next-step`` what joins the nearest step. Everything
that happens to them is a splice: from ``start`` on, ``removed`` messages give way to ``inserted``. A splice fits
when ``0 <= start``, ``0 <= removed``, ``start + removed <= length``, and when afterwards no id stands twice in
the two lists together. An id that the same splice removes may come back by it.

In the log a splice is ``agent/inbox/spliced {target, start, removedCount?, inserted, outcome?}``: whole messages
are inserted, ``removedCount`` is absent for 0, and ``outcome: "canceled"`` stands there exactly when messages were
removed otherwise than by a claim. A claim is a removal without outcome and without insertion.

A log may hold a splice that does not fit, because lines of it are lost or its writer was wrong. ``fitted`` gives
the nearest one that does, and says what it assumes. A place that the log does not name keeps an entry,
``UNNAMED``, so that the places of the others stay those that the writer meant.
Source: docs/formats.md, "Inbox".
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypeGuard

import msgspec

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer

Target = Literal["next-turn", "next-step"]
NEXT_TURN: Target = "next-turn"
NEXT_STEP: Target = "next-step"

UNNAMED = ""
"""The entry of a message whose id the log does not tell. No message has an empty id."""

MOST_UNNAMED = 64
"""So many unnamed messages in front of an inserted one are believed; beyond that the number is nonsense."""


class Splice(msgspec.Struct, frozen=True):
    """``removed`` entries of the list ``target`` from ``start`` on give way to ``inserted``, ids in order."""

    target: Target
    start: int
    removed: int = 0
    inserted: tuple[str, ...] = ()


class Lists(msgspec.Struct, frozen=True):
    """The ids in both lists, first in line first."""

    next_turn: tuple[str, ...] = ()
    next_step: tuple[str, ...] = ()

    def of(self, target: Target) -> tuple[str, ...]:
        """The list that ``target`` names."""
        return self.next_turn if target == NEXT_TURN else self.next_step

    @property
    def empty(self) -> bool:
        """Whether nothing is pending."""
        return not self.next_turn and not self.next_step

    def spliced(self, splice: Splice) -> tuple[Lists, tuple[str, ...]]:
        """The lists after a splice that fits, and the entries it removed."""
        before, end = self.of(splice.target), splice.start + splice.removed
        after = before[: splice.start] + splice.inserted + before[end:]
        removed = before[splice.start : end]
        if splice.target == NEXT_TURN:
            return Lists(after, self.next_step), removed
        return Lists(self.next_turn, after), removed


class Misfit(NamedTuple):
    """Why a splice cannot be taken as it is, and what is assumed instead.

    Kinds: ``invalid-splice`` (a number out of range), ``duplicate-pending-id``, ``malformed-splice``,
    ``unclear-outcome``.
    """

    kind: str
    message: str


class Said(NamedTuple):
    """What an event says: the splice, the inserted messages by id, whether it is a claim, what is wrong with it."""

    splice: Splice
    messages: dict[str, dict[str, Any]]
    is_claim: bool
    outcome: str | None
    misfits: list[Misfit]


def normalised(length: int, start: float, delete_count: float) -> tuple[int, int]:
    """A start and a number to delete, as a caller may give them, as numbers that fit a list of ``length``.

    Fractions are cut off, NaN is 0, a negative start counts from the end; infinities mean the ends.
    """
    first = _whole(start, length)
    first = max(length + first, 0) if first < 0 else min(first, length)
    return first, min(max(_whole(delete_count, length), 0), length - first)


def _whole(number: float, length: int) -> int:
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return length if number > 0 else -length
    return math.trunc(number)


def fitted(lists: Lists, splice: Splice) -> tuple[Splice, list[Misfit]]:
    """The splice, or the nearest one that fits ``lists``, and what had to be assumed; nothing when it fits."""
    misfits: list[Misfit] = []
    now = lists.of(splice.target)
    start, removed, inserted = splice.start, splice.removed, splice.inserted
    if start > len(now):
        start, removed, inserted = len(now), 0, _behind_a_gap(splice, len(now), misfits)
    elif start + removed > len(now):
        removed = len(now) - start
        misfits.append(
            Misfit(
                "invalid-splice",
                f"{_messages(splice.removed)} are removed from {splice.target} at place {start}, where "
                f"{_stand(removed)}; assumed that just {removed} went",
            )
        )
    if splice.inserted:
        inserted = _without_repeats(lists, Splice(splice.target, start, removed, inserted), misfits)
    return (Splice(splice.target, start, removed, inserted), misfits) if misfits else (splice, misfits)


def _behind_a_gap(splice: Splice, length: int, misfits: list[Misfit]) -> tuple[str, ...]:
    """What is inserted by a splice that begins behind the end of its list."""
    gap = splice.start - length
    where = f"place {splice.start} of {splice.target}, where {_stand(length)}"
    if not splice.inserted:
        misfits.append(
            Misfit("invalid-splice", f"messages are removed at {where}; assumed that nothing changed")
        )
        return ()
    if gap > MOST_UNNAMED:
        misfits.append(Misfit("invalid-splice", f"a message is inserted at {where}; assumed its end"))
        return splice.inserted
    misfits.append(
        Misfit(
            "invalid-splice",
            f"a message is inserted at {where}; assumed {gap} in front of it that the log does not show",
        )
    )
    return (UNNAMED,) * gap + splice.inserted


def _without_repeats(lists: Lists, splice: Splice, misfits: list[Misfit]) -> tuple[str, ...]:
    """What is inserted, with ``UNNAMED`` for an id that would stand in the lists twice."""
    left, _ = lists.spliced(Splice(splice.target, splice.start, splice.removed))
    taken = {*left.next_turn, *left.next_step} - {UNNAMED}
    entries: list[str] = []
    for id in splice.inserted:
        if id in taken:
            misfits.append(
                Misfit(
                    "duplicate-pending-id",
                    f"message {id!r} is inserted into {splice.target} while it is pending; assumed that it "
                    "stays where it is",
                )
            )
            entries.append(UNNAMED)
        else:
            entries.append(id)
            if id != UNNAMED:
                taken.add(id)
    return tuple(entries)


def read(data: dict[str, Any]) -> Said | Misfit:
    """What the data of an ``agent/inbox/spliced`` says; a misfit alone when it names no list.

    Any data will do. A splice in the answer is in shape: whole numbers that are not negative, ids that are text.
    """
    target = data.get("target")
    if not _is_target(target):
        return Misfit("malformed-splice", f"{target!r} is no list; assumed that nothing changed")
    misfits: list[Misfit] = []
    start = _count(data, "start", misfits)
    removed = _count(data, "removedCount", misfits) if "removedCount" in data else 0
    ids: list[str] = []
    messages: dict[str, dict[str, Any]] = {}
    inserted = data.get("inserted")
    if not isinstance(inserted, list):
        misfits.append(Misfit("malformed-splice", "there is no list of inserted messages; assumed none"))
        inserted = []
    for message in inserted:
        id = members.text(message, "id") if isinstance(message, dict) else None
        if not id:
            misfits.append(
                Misfit(
                    "malformed-splice", f"a message without id is inserted into {target}; its place is kept"
                )
            )
        ids.append(id or UNNAMED)
        if id:
            messages[id] = message
    outcome = _outcome(data, removed, ids, misfits)
    is_claim = removed > 0 and not ids and outcome is None
    return Said(Splice(target, start, removed, tuple(ids)), messages, is_claim, outcome, misfits)


def _is_target(value: Any) -> TypeGuard[Target]:
    return isinstance(value, str) and value in (NEXT_TURN, NEXT_STEP)


def _count(data: dict[str, Any], key: str, misfits: list[Misfit]) -> int:
    value = data.get(key)
    if is_safe_integer(value):
        if value >= 0:
            return int(value)
        misfits.append(Misfit("invalid-splice", f"{key} is {value}; assumed 0"))
    else:
        misfits.append(Misfit("malformed-splice", f"{key} is no whole number; assumed 0"))
    return 0


def _outcome(data: dict[str, Any], removed: int, ids: list[str], misfits: list[Misfit]) -> str | None:
    """The outcome, None for a claim or a mere insertion; what contradicts the numbers is a misfit."""
    outcome = data.get("outcome")
    if "outcome" not in data:
        if removed and ids:
            misfits.append(
                Misfit(
                    "unclear-outcome", "messages give way to others without an outcome; assumed a replacement"
                )
            )
            return "canceled"
        return None
    if not removed:
        misfits.append(
            Misfit("unclear-outcome", "there is an outcome, but nothing is removed; it is passed over")
        )
        return None
    if outcome != "canceled":
        misfits.append(Misfit("unclear-outcome", f"outcome {outcome!r} is not known; taken as canceled"))
    return outcome if isinstance(outcome, str) else "canceled"


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


def _stand(number: int) -> str:
    return "1 stands" if number == 1 else f"{number} stand"
