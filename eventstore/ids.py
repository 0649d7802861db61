"""Names for the strings and numbers that must not be mixed up."""

from typing import NewType, TypeGuard

SessionId = NewType("SessionId", str)
"""Names a session. Any text, lone surrogates included."""

MessageId = NewType("MessageId", str)
CallId = NewType("CallId", str)
"""Pairs a tool call with its result inside one step; not unique beyond it."""

GoalId = NewType("GoalId", str)

Seq = NewType("Seq", int)
"""Place of a fact in its session: from 0, without gaps in an undamaged log."""

Position = NewType("Position", int)
"""Place of a fact in its store: from 1, dense, in commit order."""

Idem = NewType("Idem", str)
"""A caller's idempotency key, unique within one session."""

SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""


def is_safe_integer(value: object) -> TypeGuard[int | float]:
    """True for an integer of magnitude at most 2**53 - 1; ``5.0`` counts, ``True`` does not."""
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= SAFE_INTEGER
    return isinstance(value, int) and abs(value) <= SAFE_INTEGER
