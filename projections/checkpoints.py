"""Going on from a checkpoint: an optimisation, never needed.

A checkpoint holds the state after all facts below its ``next_seq``. It is usable when it is of the same version of the
projection, its state can be read, and the log reaches that far; then only the events from ``next_seq`` on are
applied. Otherwise the session is folded from its first event. Since a store never loses facts and the session's row
says how many there are, no event below ``next_seq`` is read to prove it.
"""

from __future__ import annotations

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.sql.builds import Checkpoint
from playhead.projections.folding import Folded, begin
from playhead.projections.projection import Projection, S


def resumed(
    projection: Projection[S], header: SessionHeader, kept: Checkpoint | None, end_seq: int
) -> Folded[S]:
    """The fold to go on from: that of ``kept`` where it is usable for a fold up to ``end_seq``, else an empty one."""
    if kept is None or kept.state is None or kept.next_seq > end_seq:
        return begin(projection, header)
    try:
        state = projection.load(kept.state)
    except (ValueError, RecursionError):
        return begin(projection, header)
    return Folded(state, Seq(kept.next_seq), kept.unknown)
