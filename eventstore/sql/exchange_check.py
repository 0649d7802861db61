"""The verification of kept exchanges: each row as it was written, and none missing."""

from __future__ import annotations

from collections.abc import Iterator

from playhead.eventstore.sql import exchanges
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.session_row import SessionRow


def check_exchanges(link: Link, rows: list[SessionRow], session_id: int | None) -> Iterator[Problem]:
    """Problems of the exchanges of all sessions, or of one (by row id).

    The last ones of a session are missed by the count of the store only, so not where one session is looked at.
    """
    sessions = {row.id: row for row in rows}
    count, at, expected = 0, None, 0
    for row, check in exchanges.every(link, session_id):
        owner = sessions.get(row.session_id)
        name, generation = (owner.session, owner.generation) if owner else (None, None)
        count += 1
        expected = expected if row.session_id == at else 0
        if row.exchange_no != expected:
            message = f"the bytes of model call {expected} are followed by those of {row.exchange_no}"
            yield Problem("exchange-missing", message, name, generation)
        if check != row.check():
            message = f"the bytes of model call {row.exchange_no} were changed"
            yield Problem("exchange-check", message, name, generation)
        at, expected = row.session_id, row.exchange_no + 1
    if session_id is None:
        counted = link.one("SELECT exchanges FROM store WHERE id = 1")[0]
        if counted != count:
            yield Problem("exchange-count", f"the store counts {counted} exchanges, {count} are there")
