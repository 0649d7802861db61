"""What a projection is: a pure fold from logical events to a state, and the rows that show the state in SQL.

State is a frozen ``msgspec.Struct`` of plain values (numbers, text, tuples, mappings with text keys), so that it
can be kept as JSON and compared. ``apply`` is total: whatever an event says, it returns a state, and records what
breaks a rule as a ``Breach`` in it. An event that changes nothing returns the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from playhead.eventstore import json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded

S = TypeVar("S")

ColumnKind = Literal["int", "real", "text", "bool", "json"]


class Breach(msgspec.Struct, frozen=True):
    """A rule that the log breaks at ``seq``. ``kind`` is a stable code, the message is for people."""

    kind: str
    seq: int
    message: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a read table. ``references`` is (table, column) of a row of the same session."""

    name: str
    kind: ColumnKind
    meaning: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that shows the state of a projection, a few rows a session.

    Every table also has, in front: ``session_id`` (the number of the session in the store), ``session`` (its id),
    ``generation``, ``seq`` and ``position`` of the event that made the row, and ``incomplete``. ``key`` names the
    columns that tell the rows of one session apart. Times are epoch milliseconds and end in ``_ms``.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


class Row(msgspec.Struct, frozen=True):
    """One row: the table, the seq of the event that made it, and its values in the order of the table's columns."""

    table: str
    seq: int
    values: tuple[Any, ...]


def no_rows(_state: Any) -> Iterator[Row]:
    """The rows of a projection without tables."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Projection(Generic[S]):
    """A fold. ``version`` rises when the shape of the state or the meaning of ``apply`` changes.

    ``handles`` names the types of logical events that ``apply`` looks at; it is never called for another. Token
    deltas are read only where ``deltas`` is set. ``initial`` gives the state before the first event. ``view`` gives
    what callers see, a JSON value.
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
    deltas: bool = False

    def dump(self, state: S) -> bytes:
        """The state as JSON, for a checkpoint."""
        return json_text.dumps(msgspec.to_builtins(state, builtin_types=(bytes,)))

    def load(self, raw: bytes) -> S:
        """The state that ``dump`` wrote. Raises ``ValueError`` for anything else."""
        try:
            return msgspec.convert(json_text.parse(raw), self.state)
        except msgspec.ValidationError as error:
            raise ValueError(f"projection {self.name}: {error}") from error
