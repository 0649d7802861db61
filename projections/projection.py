"""What a projection is: a pure fold from logical events to a state, and the rows that show the state in SQL.

State is a frozen ``msgspec.Struct`` of plain values (numbers, text, tuples, mappings with text keys), so that it
can be kept as JSON and compared. ``apply`` is total: whatever an event says, it returns a state, and records what
breaks a rule as a ``Breach`` in it. An event that changes nothing returns the same object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from playhead.eventstore import json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.read_table import COMMON_COLUMNS, Column, ReadTable, Row
from playhead.eventstore.recorded import Recorded

__all__ = ["COMMON_COLUMNS", "EVERY_TYPE", "Breach", "Column", "Projection", "ReadTable", "Row", "S"]

S = TypeVar("S")


class _EveryType(frozenset[str]):
    """The set of all event types."""

    def __contains__(self, type: object) -> bool:
        return True


EVERY_TYPE: frozenset[str] = _EveryType()
"""As ``Projection.handles``: every type, those that nobody registered among them."""


class Breach(msgspec.Struct, frozen=True):
    """A rule that the log breaks at ``seq``. ``kind`` is a stable code, the message is for people."""

    kind: str
    seq: int
    message: str


def no_rows(_state: Any) -> Iterator[Row]:
    """The rows of a projection without tables."""
    return iter(())


@dataclass(frozen=True)
class Projection(Generic[S]):
    """A fold. ``version`` rises when the shape of the state or the meaning of ``apply`` changes.

    ``handles`` names the types of logical events that ``apply`` looks at; it is never called for another. Token
    deltas are read only where ``deltas`` is set. ``initial`` gives the state before the first event. ``view`` gives
    what callers see, a JSON value.

    ``rows`` gives the rows of a state: all of them, each time. ``emit`` gives the rows that one handled event adds
    to the tables that are ``appended``; it sees the state after that event. A projection that is ``on_request`` is
    materialised only when somebody names it.
    """

    name: str
    version: int
    state: type[S]
    handles: frozenset[str]
    initial: Callable[[SessionHeader], S]
    apply: Callable[[S, Recorded], S]
    view: Callable[[S], Any]
    tables: tuple[ReadTable, ...] = ()
    rows: Callable[[S], Iterable[Row]] = no_rows
    emit: Callable[[S, Recorded], Iterable[Row]] | None = None
    deltas: bool = False
    on_request: bool = False

    def dump(self, state: S) -> bytes:
        """The state as JSON, for a checkpoint. An infinite number, which a log may hold, is ``Infinity`` in it."""
        value = msgspec.to_builtins(state, builtin_types=(bytes,))
        try:
            return json_text.dumps(value)
        except ValueError:
            return json.dumps(value).encode()

    def load(self, raw: bytes) -> S:
        """The state that ``dump`` wrote. Raises ``ValueError`` for anything else."""
        try:
            value = json_text.parse(raw)
        except ValueError:
            value = json.loads(raw)
        try:
            return msgspec.convert(value, self.state)
        except msgspec.ValidationError as error:
            raise ValueError(f"projection {self.name}: {error}") from error
