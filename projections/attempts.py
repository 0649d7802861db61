"""Every model call of a session: how it ended, what it took, and whether it was tried again; chunks are not read.

The boundaries are told in ``attempt_fold.py``, the figures in ``attempt.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from playhead.projections.attempt_fold import HANDLES, Attempts, after, begin, calls
from playhead.projections.model_call_table import MODEL_CALLS, row_of
from playhead.projections.projection import Projection, Row


def _view(state: Attempts) -> Any:
    return {
        "inheritedTo": state.inherited.to_seq,
        "calls": [msgspec.to_builtins(attempt) for attempt in calls(state)],
    }


def _rows(state: Attempts) -> Iterator[Row]:
    for attempt in calls(state):
        yield row_of(attempt, state.inherited.covers(attempt.seq))


attempts: Projection[Attempts] = Projection(
    name="attempts",
    version=1,
    state=Attempts,
    handles=HANDLES,
    initial=begin,
    apply=after,
    view=_view,
    tables=(MODEL_CALLS,),
    rows=_rows,
)
