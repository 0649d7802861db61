"""The lines of a session from near a seq on: a tail of all its lines that leaves nothing behind that seq out."""

from __future__ import annotations

import playhead
from playhead import NewEvent, SessionHeader, SessionId
from playhead.eventstore import envelope


def test_lines_near_a_seq_are_a_tail_that_holds_every_later_event() -> None:
    with playhead.open_store("sqlite://", create=True) as store:
        session = store.create(SessionHeader(SessionId("s"), 1))
        for size in (5_000, 5_000, 30):  # two sealed segments, then rows
            session.append([NewEvent("x/y", {"n": number}, time_ms=1) for number in range(size)])
        every = list(session.lines())
        assert len(every) == 10_030
        for seq in (0, 1, 4_999, 5_000, 9_999, 10_000, 10_029):
            near = list(session.lines(near_seq=seq))
            assert near == every[len(every) - len(near) :]
            assert envelope.view(near[0]).seq0 <= seq
        assert len(list(session.lines(near_seq=10_029))) < 5_000
