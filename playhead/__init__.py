"""Playhead: an event-sourced store for AI-agent sessions, with replay tooling.

The names below are the public ones; ``open_store`` is where to begin.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING
from warnings import warn

from playhead.eventstore.dialect import Dialect
from playhead.eventstore.errors import (
    CorruptLog,
    IdempotencyConflict,
    NotALog,
    NotLosslessJson,
    PlayheadError,
    ReadOnlySession,
    SessionExists,
    SessionNotFound,
    StoreOutdated,
    StoreUnavailable,
    UnknownEventType,
    UsageError,
    WrongExpectedSeq,
)
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import CallId, GoalId, Idem, MessageId, Position, Seq, SessionId
from playhead.eventstore.log import Appended, NewEvent, Session, SessionInfo, Store
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections.folding import Folded, fold

if TYPE_CHECKING:
    from playhead.projections.materialised import ProjectedStore

DIALECT_GROUP = "playhead.dialects"
"""Entry points of this group name further dialects: objects with the interface of ``Dialect``."""

__all__ = [
    "Appended",
    "CallId",
    "CorruptLog",
    "Dialect",
    "Exchange",
    "Folded",
    "GoalId",
    "Idem",
    "IdempotencyConflict",
    "MemoryLog",
    "MessageId",
    "NewEvent",
    "NotALog",
    "NotLosslessJson",
    "PlayheadError",
    "Position",
    "ReadOnlySession",
    "Recorded",
    "Replace",
    "Seq",
    "Session",
    "SessionExists",
    "SessionHeader",
    "SessionId",
    "SessionInfo",
    "SessionNotFound",
    "Store",
    "StoreOutdated",
    "StoreUnavailable",
    "UnknownEventType",
    "UsageError",
    "WrongExpectedSeq",
    "dialects",
    "fold",
    "open_store",
]


@cache
def dialects() -> dict[str, Dialect]:
    """The dialects of imported logs by name: the built-in ones, and those of installed packages.

    A package whose dialect does not load is passed over with a warning.
    """
    from playhead.adapters.dsh import DIALECTS

    known = dict(DIALECTS)
    for entry in entry_points(group=DIALECT_GROUP):
        try:
            added: Dialect = entry.load()
            known[added.name] = added
        except Exception as error:
            warn(
                f"the dialect {entry.name} ({entry.value}) failed to load: {error!r}",
                RuntimeWarning,
                stacklevel=2,
            )
    return known


def open_store(url: str, *, create: bool = True) -> ProjectedStore:
    """The store at ``url``: ``sqlite:///FILE``, a file, ``sqlite://`` (in memory) or ``postgresql://...``.

    A missing store is made; with ``create=False`` ``StoreUnavailable`` says so. Use it in ``with``.
    """
    from playhead.projections.materialised import ProjectedStore

    return ProjectedStore.open(url, create=create, dialects=dialects().values())
