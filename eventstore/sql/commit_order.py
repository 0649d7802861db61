"""The facts of all sessions in the order of their positions.

The commit log says which facts of which session come next. A session is read on from where it was left, as long as
its reader is among the last that were used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import commits, reading, session_row
from playhead.eventstore.sql.engine import Reads

_OPEN_READERS = 64


def facts(reads: Reads, after: int, limit: int | None) -> Iterator[Recorded]:
    """Facts with a position greater than ``after``, at most ``limit``."""
    readers = _Readers(reads)
    left = limit
    while left is None or left > 0:
        with reads() as link:
            page = commits.page_after(link, after)
        if not page:
            return
        for commit in page:
            skip = max(0, after + 1 - commit.pos0)
            take = commit.n - skip if left is None else min(commit.n - skip, left)
            yield from readers.of(commit.session_id, commit.seq0 + skip, take)
            after = commit.pos0 + skip + take - 1
            if left is not None:
                left -= take
                if left <= 0:
                    return


class _Readers:
    """A reader for each of the sessions that were read last, and the seq that it gives next."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._open: OrderedDict[int, tuple[int, Iterator[Recorded]]] = OrderedDict()

    def of(self, session_id: int, from_seq: int, count: int) -> Iterator[Recorded]:
        """``count`` facts of a session from ``from_seq`` on, which are there."""
        at, reader = self._open.pop(session_id, (-1, iter(())))
        for seq in range(from_seq, from_seq + count):
            fact = next(reader, None) if at == seq else None
            if fact is None:
                with self._reads() as link:
                    row = session_row.load(link, session_id)
                reader = reading.facts(self._reads, row, seq)
                fact = next(reader)
            at = fact.seq + 1
            yield fact
        self._open[session_id] = (at, reader)
        if len(self._open) > _OPEN_READERS:
            self._open.popitem(last=False)
