"""Heads kept elsewhere: the only defence against a forgery that is consistent in itself.

``current`` writes down what a store holds now; ``compare`` finds any change below what was written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from playhead.eventstore.chain import Chain
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.ids import SessionId
from playhead.eventstore.sql import reading, session_row
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.session_row import SessionRow


class Head(msgspec.Struct, frozen=True, rename={"id": "session"}):
    """The hash head of a session as it stood when it had ``lines`` lines and went on at ``next_seq``."""

    store: str
    id: str
    generation: int
    lines: int
    next_seq: int
    head: str


def current(link: Link) -> list[Head]:
    """The heads of all sessions as of now."""
    store = _store(link)
    rows = session_row.every(link)
    return [Head(store, row.session, row.generation, row.lines, row.next_seq, row.head.hex()) for row in rows]


def compare(link: Link, kept: Iterable[Head]) -> list[Problem]:
    """What changed below heads that were kept. Growth since then is no change."""
    store = _store(link)
    rows = {(row.session, row.generation): row for row in session_row.every(link)}
    return [problem for head in kept for problem in _compared(link, store, rows, head)]


def _store(link: Link) -> str:
    return str(link.one("SELECT store_uuid FROM store WHERE id = 1")[0])


def _compared(
    link: Link, store: str, rows: dict[tuple[SessionId, int], SessionRow], head: Head
) -> Iterator[Problem]:
    if head.store != store:
        yield Problem(
            "other-store",
            f"the head was kept of store {head.store}; this is {store}",
            head.id,
            head.generation,
        )
        return
    row = rows.get((SessionId(head.id), head.generation))
    whole = (2, head.lines + 2, 0, head.next_seq)
    if row is None:
        yield Problem(
            "session-missing", "the session is not there any more", head.id, head.generation, *whole
        )
    elif row.lines < head.lines:
        message = f"the session had {head.lines} lines, and has {row.lines}: its end was cut off"
        yield Problem(
            "cut",
            message,
            head.id,
            head.generation,
            row.lines + 2,
            head.lines + 2,
            row.next_seq,
            head.next_seq,
        )
    elif not _agrees(link, row, head):
        yield Problem(
            "rewritten", "the lines are not those of the kept head", head.id, head.generation, *whole
        )


def _agrees(link: Link, row: SessionRow, head: Head) -> bool:
    chain = Chain.begin(row.header)
    try:
        for block in reading.blocks(reading.within(link), row, 0, head.lines):
            chain.feed(block)
    except PlayheadError:
        return False
    return chain.head(head.next_seq).hex() == head.head
