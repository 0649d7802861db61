"""The verification of imported files: their rows, their parts, and that their bytes still come out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import BinaryIO, cast

from playhead.eventstore.errors import CorruptLog, PlayheadError
from playhead.eventstore.sql import artifacts, reading, rebuilding
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.engine import Link, held
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.row_check import row_check
from playhead.eventstore.sql.session_row import SessionRow


def check_files(
    link: Link, rows: list[SessionRow], session_id: int | None, whole: set[int]
) -> Iterator[Problem]:
    """Problems of the imported files: of all, or of those of one session (by row id).

    ``whole`` are the row ids of files whose bytes were found to be right already.
    """
    sessions = {row.id: row for row in rows}
    counted: dict[int, int] = defaultdict(int)
    for (artifact_id,) in link.all("SELECT id FROM artifact ORDER BY id"):
        row = artifacts.load(link, artifact_id)
        check = link.one('SELECT "check" FROM artifact WHERE id = ?', (artifact_id,))[0]
        if row.session_id is not None:
            counted[row.session_id] += 1
        if session_id is None or row.session_id == session_id:
            yield from _file(link, row, check, sessions.get(row.session_id or 0), row.id in whole)
    for row_id, session in sessions.items():
        if session_id in (None, row_id) and counted[row_id] != session.artifacts:
            yield Problem(
                "artifact-count",
                f"the session counts {session.artifacts} files, {counted[row_id]} are there",
                session.session,
                session.generation,
                2,
                session.lines + 2,
                0,
                session.next_seq,
            )


def _file(
    link: Link, row: artifacts.ArtifactRow, check: bytes, owner: SessionRow | None, whole: bool
) -> Iterator[Problem]:
    def problem(kind: str, message: str, *, warning: bool = False) -> Problem:
        return Problem(
            kind,
            message,
            owner.session if owner else None,
            owner.generation if owner else None,
            from_line=2 if owner else None,
            to_line=row.lines + 2 if owner else None,
            path=unescape(row.path),
            severity="warning" if warning else "error",
        )

    if check != row.check():
        yield problem("artifact-check", "the row of the file was changed")
        return
    for number, (part_no, values, stored) in enumerate(_part_checks(link, row.id)):
        if part_no != number or stored != row_check("artifact_part", values):
            yield problem("artifact-part", f"part {number} of the file was changed or is missing")
            return
    if whole:
        return
    try:
        rebuilt = rebuilding.rebuild(held(link), row, cast(BinaryIO, _Nowhere()))
    except PlayheadError as error:
        yield problem("artifact", _reason(error))
        return
    if not rebuilt.same:
        yield problem("recipe", rebuilt.reason, warning=True)


def _reason(error: PlayheadError) -> str:
    """What an error says, but for whose it is and what to run: both are plain here."""
    whose = f"session {error.session!r}: " if isinstance(error, CorruptLog) else ""
    return str(error).removeprefix(whose).removesuffix(reading.ADVICE)


def _part_checks(link: Link, artifact_id: int) -> Iterator[tuple[int, tuple[int, int, bytes], bytes]]:
    number = -1
    while True:
        found = link.one(
            'SELECT part_no, body, "check" FROM artifact_part WHERE artifact_id = ? AND part_no > ? '
            "ORDER BY part_no LIMIT 1",
            (artifact_id, number),
        )
        if found is None:
            return
        number = found[0]
        yield number, (artifact_id, number, found[1]), found[2]


class _Nowhere:
    """Takes bytes and keeps none."""

    def write(self, piece: bytes) -> int:
        return len(piece)
