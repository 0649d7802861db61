"""A dialect turns the stored facts of one log format into logical events of the current vocabulary.

It is a pure upcast: no clock, no new ids, stored numbers kept. State is plain data, where a format needs any.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded


class Dialect(Protocol):
    """One log format. ``name`` is what a session row stores, for example ``dsh-v4``."""

    @property
    def name(self) -> str: ...

    @property
    def touches(self) -> Mapping[str, Collection[str]] | None:
        """The types of stored facts that ``step`` changes or remembers, each with the types of events it bears on.

        A fact of another type is its own logical event. ``step`` may never see it, nor one that bears on no event
        that the reader wants. None where it may be any type.
        """
        ...

    @property
    def remembers(self) -> Collection[str] | None:
        """The types of stored facts that make up the state, and whose ``step`` alone looks at it; None: any type.

        A reader who begins in the middle of a log, and wants facts of these types, has to show ``step`` the earlier
        ones first.
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
    touches: Mapping[str, Collection[str]] = {}
    remembers: Collection[str] = ()

    def initial(self, header: SessionHeader) -> None:  # noqa: ARG002 - the protocol's
        return None

    def step(self, state: None, fact: Recorded) -> tuple[None, Sequence[Recorded]]:
        return state, (fact,)
