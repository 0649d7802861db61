"""A dialect turns the stored facts of one log format into logical events of the current vocabulary.

It is a pure upcast: no clock, no new ids, stored numbers kept. State is plain data, where a format needs any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded


class Dialect(Protocol):
    """One log format. ``name`` is what a session row stores, for example ``dsh-v4``."""

    @property
    def name(self) -> str: ...

    @property
    def touches(self) -> frozenset[str] | None:
        """The types of stored facts that ``step`` changes or remembers; None where it may be any.

        A fact of another type is its own logical event, and ``step`` may not even see it.
        """
        ...

    def initial(self, header: SessionHeader) -> Any:
        """The state before the first fact."""
        ...

    def step(self, state: Any, fact: Recorded) -> tuple[Any, Sequence[Recorded]]:
        """The state after ``fact``, and the logical events that it stands for.

        An event of the current vocabulary comes back as the same object. Raises ``CorruptLog`` for a retired
        shape that cannot be read; never for an unknown type.
        """
        ...


class Native:
    """Playhead's own sessions: their facts are logical events as they stand."""

    name = "native"
    touches: frozenset[str] = frozenset()

    def initial(self, header: SessionHeader) -> None:  # noqa: ARG002 - the protocol's
        return None

    def step(self, state: None, fact: Recorded) -> tuple[None, Sequence[Recorded]]:
        return state, (fact,)
