"""Playhead: an event-sourced store for AI-agent sessions, with replay tooling.

The names in ``__all__`` are the public ones; ``open_store`` is where to begin. What imports logs, reads calls and makes
a live agent is loaded when it is first asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any
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
    from playhead.adapters.dsh.importer import import_paths
    from playhead.adapters.providers.client import Provider
    from playhead.eventstore.blocks import TextBlock
    from playhead.eventstore.feed import CAUGHT_UP, Subscription
    from playhead.eventstore.messages import Message
    from playhead.eventstore.request_header import CallConfig
    from playhead.eventstore.sql.writer import Writer
    from playhead.live.agent import Agent
    from playhead.live.agents import Agents
    from playhead.live.goal_driver import GoalDriver
    from playhead.live.goals import Goals
    from playhead.live.options import AgentOptions, new_id
    from playhead.live.retry import Retries, RetryPolicy
    from playhead.live.tool_box import ToolOutcome
    from playhead.live.tools import Tools
    from playhead.projections.materialised import ProjectedStore
    from playhead.replay.attempt import Attempt, attempts

_LATER = {
    "CAUGHT_UP": "playhead.eventstore.feed",
    "Agent": "playhead.live.agent",
    "AgentOptions": "playhead.live.options",
    "Agents": "playhead.live.agents",
    "Attempt": "playhead.replay.attempt",
    "CallConfig": "playhead.eventstore.request_header",
    "GoalDriver": "playhead.live.goal_driver",
    "Goals": "playhead.live.goals",
    "Message": "playhead.eventstore.messages",
    "Provider": "playhead.adapters.providers.client",
    "Retries": "playhead.live.retry",
    "RetryPolicy": "playhead.live.retry",
    "Subscription": "playhead.eventstore.feed",
    "TextBlock": "playhead.eventstore.blocks",
    "ToolOutcome": "playhead.live.tool_box",
    "Tools": "playhead.live.tools",
    "Writer": "playhead.eventstore.sql.writer",
    "attempts": "playhead.replay.attempt",
    "import_paths": "playhead.adapters.dsh.importer",
    "new_id": "playhead.live.options",
}
"""Public names that take longer to load than who does not use them would want to wait: name -> its module."""

DIALECT_GROUP = "playhead.dialects"
"""Entry points of this group name further dialects: objects with the interface of ``Dialect``."""

__all__ = [
    "CAUGHT_UP",
    "Agent",
    "AgentOptions",
    "Agents",
    "Appended",
    "Attempt",
    "CallConfig",
    "CallId",
    "CorruptLog",
    "Dialect",
    "Exchange",
    "Folded",
    "GoalDriver",
    "GoalId",
    "Goals",
    "Idem",
    "IdempotencyConflict",
    "MemoryLog",
    "Message",
    "MessageId",
    "NewEvent",
    "NotALog",
    "NotLosslessJson",
    "PlayheadError",
    "Position",
    "Provider",
    "ReadOnlySession",
    "Recorded",
    "Replace",
    "Retries",
    "RetryPolicy",
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
    "Subscription",
    "TextBlock",
    "ToolOutcome",
    "Tools",
    "UnknownEventType",
    "UsageError",
    "Writer",
    "WrongExpectedSeq",
    "attempts",
    "dialects",
    "fold",
    "import_paths",
    "new_id",
    "open_store",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    """The public names and those that every module has, not what is imported here to make them."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


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


def open_store(url: str | PathLike[str], *, create: bool = True) -> ProjectedStore:
    """The store at ``url``: ``sqlite:///FILE``, a file, ``sqlite://`` (in memory) or ``postgresql://...``.

    A missing store is made; with ``create=False`` ``StoreUnavailable`` says so. Use it in ``with``.
    """
    from playhead.projections.materialised import ProjectedStore

    return ProjectedStore.open(fspath(url), create=create, dialects=dialects().values())
