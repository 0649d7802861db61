"""The commit log: one dense order over all sessions.

A commit takes its positions last in its transaction, from the one counter of the store, so that a reader of
``position > last`` can never miss a late commit. Rows tile ``1..store.pos``. A commit that continues the
newest row, when neither has a key, lengthens that row instead of adding one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from playhead.eventstore.ids import Position
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.row_check import row_check
from playhead.eventstore.sql.waking import announce

_SELECT = "SELECT pos0, session_id, seq0, n, time_ms, idem FROM commit_log"
_PAGE = 512


class Commit(NamedTuple):
    """One row: ``n`` facts of a session from ``seq0`` on, the first at ``pos0``. ``idem`` is escaped."""

    pos0: int
    session_id: int
    seq0: int
    n: int
    time_ms: int
    idem: str | None

    def check(self) -> bytes:
        return row_check("commit_log", self)


def place(
    link: Link, session_id: int, ranges: Iterable[tuple[int, int]], time_ms: int, *, idem: str | None = None
) -> Position:
    """Give the facts of ``ranges`` (seq0, n) of a session their positions; the position of the first.

    The store's counter is locked from here to the end of the transaction, so this comes last in it.
    """
    return place_all(link, [(session_id, seq0, n) for seq0, n in ranges], time_ms, idem=idem)


def place_all(
    link: Link, ranges: Sequence[tuple[int, int, int]], time_ms: int, *, idem: str | None = None
) -> Position:
    """The same for ranges (session_id, seq0, n) of several sessions."""
    total = sum(n for _, _, n in ranges)
    row = link.one("UPDATE store SET pos = pos + ? WHERE id = 1 RETURNING pos", (total,))
    pos = first = row[0] - total + 1
    new = []
    for session_id, seq0, n in ranges:
        new.append(Commit(pos, session_id, seq0, n, time_ms, idem))
        pos += n
    if new and idem is None:
        _join_newest(link, new)
    link.many(
        'INSERT INTO commit_log (pos0, session_id, seq0, n, time_ms, idem, "check") VALUES (?, ?, ?, ?, ?, ?, ?)',
        [(*commit, commit.check()) for commit in new],
    )
    announce(link)
    return Position(first)


def count(link: Link, *, sessions: int = 0, artifacts: int = 0) -> None:
    """Add to the numbers of sessions and files that the store must have. Locks the counter like ``place``."""
    if sessions or artifacts:
        link.run(
            "UPDATE store SET sessions = sessions + ?, artifacts = artifacts + ? WHERE id = 1",
            (sessions, artifacts),
        )


def _join_newest(link: Link, commits: list[Commit]) -> None:
    """Take the first of ``commits`` away when the newest stored row can be lengthened to hold it."""
    found = link.one(f"{_SELECT} WHERE pos0 < ? ORDER BY pos0 DESC LIMIT 1", (commits[0].pos0,))
    if found is None:
        return
    newest, new = Commit(*found), commits[0]
    touches = newest.session_id == new.session_id and newest.seq0 + newest.n == new.seq0
    if touches and newest.idem is None:
        joined = newest._replace(n=newest.n + new.n)
        link.run(
            'UPDATE commit_log SET n = ?, "check" = ? WHERE pos0 = ?', (joined.n, joined.check(), joined.pos0)
        )
        del commits[0]


def of_key(link: Link, session_id: int, idem: str) -> Commit | None:
    """The commit that a session made under this (escaped) key."""
    found = link.one(f"{_SELECT} WHERE session_id = ? AND idem = ?", (session_id, idem))
    return None if found is None else Commit(*found)


def page_after(link: Link, after: int) -> list[Commit]:
    """The next commits that hold positions above ``after``, in order; empty at the end."""
    start = link.one("SELECT max(pos0) FROM commit_log WHERE pos0 <= ?", (after + 1,))[0] or 0
    found = link.all(f"{_SELECT} WHERE pos0 >= ? ORDER BY pos0 LIMIT {_PAGE}", (start,))
    return [Commit(*row) for row in found if row[0] + row[3] - 1 > after]


def page_of_session(link: Link, session_id: int, from_seq: int) -> list[Commit]:
    """The next commits of a session that hold seqs from ``from_seq`` on, in order; empty at the end."""
    found = link.one(
        "SELECT max(seq0) FROM commit_log WHERE session_id = ? AND seq0 <= ?", (session_id, from_seq)
    )[0]
    start = from_seq if found is None else found
    rows = link.all(
        f"{_SELECT} WHERE session_id = ? AND seq0 >= ? ORDER BY seq0 LIMIT {_PAGE}", (session_id, start)
    )
    return [Commit(*row) for row in rows if row[2] + row[3] > from_seq]


def every(link: Link) -> Iterator[tuple[Commit, bytes]]:
    """All rows in order of position with their stored checks, a page at a time."""
    after = -(2**63)
    while True:
        page = link.all(
            'SELECT pos0, session_id, seq0, n, time_ms, idem, "check" FROM commit_log '
            f"WHERE pos0 > ? ORDER BY pos0 LIMIT {_PAGE}",
            (after,),
        )
        for row in page:
            yield Commit(*row[:6]), row[6]
        if not page:
            return
        after = page[-1][0]
