"""One session read for ``playhead stats``: its own model calls and tools, and how fast answers came.

What ``playhead project`` folded before is not read again: both projections go on from their checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from playhead.cli.call_speed import CallSpeed, FirstTokens
from playhead.cli.target import require_seq
from playhead.eventstore.errors import UnknownEventType
from playhead.projections.attempt import Attempt
from playhead.projections.attempt_fold import calls
from playhead.projections.attempts import attempts
from playhead.projections.folding import advance, begin
from playhead.projections.materialised import Materialised
from playhead.projections.session_stats import SessionStats, session_stats
from playhead.projections.tool_use import Tool, tool_use

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.sql_session import SqlSession

_BATCH = 1000


@dataclass(frozen=True)
class Reading:
    """``own`` calls are the session's, ``inherited`` those of its parent. ``unknown`` is as in ``Folded``.

    ``speed`` of the calls, and the figures ``as_shown`` by the runtimes, are measured where they were asked for: it
    takes reading the deltas of older logs.
    """

    info: SessionInfo
    own: tuple[Attempt, ...]
    inherited: tuple[Attempt, ...]
    tools: dict[str, Tool]
    unknown: tuple[tuple[str, int], ...]
    speed: CallSpeed | None
    as_shown: SessionStats | None


def read(
    store: SqlStore,
    log: SqlSession,
    *,
    at: int | None = None,
    with_speed: bool = False,
    strict: bool = False,
    ignorable: Collection[str] = (),
) -> Reading:
    """A session of ``store`` after its last event, or after the event ``at``.

    Raises ``UsageError`` when there is no such event, and, when ``strict``, what is wrong with the log.
    """
    if strict:
        log.require_sound()
    info = log.info
    require_seq(info, at)
    to_seq = None if at is None else at + 1
    made = Materialised(store, attempts).folded(log, at=at)
    unknown = tuple(first for first in made.unknown if first[0] not in ignorable)
    if strict and unknown:
        raise UnknownEventType(*unknown[0], log.id)
    used = Materialised(store, tool_use).folded(log, at=at)
    inherited = made.state.inherited
    every = tuple(calls(made.state))
    own = tuple(call for call in every if not inherited.covers(call.seq))
    speed, shown = None, None
    if with_speed:
        tokens, figures = FirstTokens(own), begin(session_stats, log.header)
        events = log.events(inherited.to_seq, to_seq)
        while batch := list(islice(events, _BATCH)):
            tokens.see(batch)
            figures = advance(session_stats, figures, batch)
        speed, shown = tokens.speed, figures.state
    return Reading(
        info=info,
        own=own,
        inherited=tuple(call for call in every if inherited.covers(call.seq)),
        tools=used.state.tools,
        unknown=unknown,
        speed=speed,
        as_shown=shown,
    )
