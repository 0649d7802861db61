"""Verification: every stored byte against something else that knows it.

Lines and headers are covered by the hash chain, everything else in a row by its check, the places of facts by
the tiling of the commit log, files by their SHA-256, and kept exchanges by their numbers. A problem names the
session and the range of lines and seqs; after one, the rest of that session is still looked at, but its head can
no longer be computed.

All of it happens in one transaction, so that a store may be verified while others write to it. A consistent
rewrite of the whole store passes; ``heads.py`` is against that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from playhead.eventstore.dialect import Dialect
from playhead.eventstore.sql import artifacts, commits, session_row
from playhead.eventstore.sql.cell_check import check_cells, check_pages
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.exchange_check import check_exchanges
from playhead.eventstore.sql.file_check import check_files
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.session_check import EventWatch, PlainFile, SessionCheck, rule_breaches
from playhead.eventstore.sql.session_row import SessionRow


def verify(
    link: Link,
    dialect_of: Callable[[str], Dialect],
    session_id: int | None = None,
    on_session: Callable[[int, int], None] | None = None,
    watch: EventWatch | None = None,
) -> list[Problem]:
    """The problems of a store, or of one session (by row id) and its files.

    ``dialect_of`` gives the dialect of a name: the rules of logs are checked on logical events. ``on_session``
    hears how many sessions are done, and of how many. ``watch`` is shown the events of each session whose bytes are
    sound, while its rules are checked. ``link`` must see one state throughout. Where the database itself is damaged,
    nothing else is looked at; every page of it is read for the whole store alone.
    """
    damaged = list(check_pages(link)) if session_id is None else []
    damaged += [] if damaged else check_cells(link)
    if damaged:
        return damaged
    rows = session_row.every(link)
    checks = {found[0]: found[1] for found in link.all('SELECT id, "check" FROM session')}
    chosen = [row for row in rows if session_id is None or row.id == session_id]
    placed, problems = _placed(link, {row.id: row for row in rows})
    if session_id is None:
        problems += [*_orphans(link), *_generations(rows)]
    else:
        problems = []
    whole: set[int] = set()
    for done, row in enumerate(chosen, 1):
        files = _plain_files(link, row)
        found = list(SessionCheck(link, row, checks[row.id], placed.get(row.id, []), files).problems())
        problems += found or rule_breaches(link, row, dialect_of, watch)
        whole |= {file.id for file in files if file.is_whole()}
        if on_session is not None:
            on_session(done, len(chosen))
    problems += check_files(link, rows, session_id, whole)
    return problems + list(check_exchanges(link, rows, session_id))


def _plain_files(link: Link, row: SessionRow) -> list[PlainFile]:
    """The files whose hashes can be taken from the lines of the session; rows that were changed left out."""
    intact = (file for file, check in artifacts.named_by(link, row.id) if check == file.check())
    return [plain for file in intact if (plain := PlainFile.of(file, row)) is not None]


def _placed(
    link: Link, sessions: dict[int, SessionRow]
) -> tuple[dict[int, list[tuple[int, int]]], list[Problem]]:
    """The ranges (seq0, n) of facts that the commit log places, joined, by session row; and its problems."""
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    problems: list[Problem] = []
    expected = 1
    for commit, check in commits.every(link):
        owner = sessions.get(commit.session_id)
        name, generation = (owner.session, owner.generation) if owner else (None, None)
        end = commit.seq0 + commit.n
        problems += (
            Problem(kind, message, name, generation, from_seq=commit.seq0, to_seq=end)
            for kind, message in _flaws(commit, check, owner, expected)
        )
        expected = commit.pos0 + commit.n
        known = ranges[commit.session_id]
        if known and sum(known[-1]) == commit.seq0:
            known[-1] = (known[-1][0], known[-1][1] + commit.n)
        else:
            known.append((commit.seq0, commit.n))
    return ranges, [*problems, *_miscounts(link, expected - 1, len(sessions))]


def _flaws(
    commit: commits.Commit, check: bytes, owner: SessionRow | None, expected: int
) -> Iterator[tuple[str, str]]:
    """Kind and message of what is wrong with a commit whose first position should be ``expected``."""
    if check != commit.check():
        yield "commit-check", f"the commit at position {commit.pos0} was changed"
    if owner is None:
        yield "commit-session", f"the commit at position {commit.pos0} has no session"
    if commit.pos0 > expected:
        yield "commit-gap", f"positions {expected} to {commit.pos0 - 1} belong to no commit"
    elif commit.pos0 < expected:
        yield "commit-gap", f"positions {commit.pos0} to {expected - 1} belong to two commits"


def _miscounts(link: Link, placed: int, sessions: int) -> Iterator[Problem]:
    """Where the store counts other than is there: facts, sessions, files."""
    pos, session_count, artifact_count = link.one("SELECT pos, sessions, artifacts FROM store WHERE id = 1")
    files = link.one("SELECT count(*) FROM artifact")[0]
    if pos != placed:
        yield Problem("commit-gap", f"the store counts {pos} facts, the commit log places {placed}")
    if session_count != sessions:
        yield Problem("session-count", f"the store counts {session_count} sessions, {sessions} are there")
    if artifact_count != files:
        yield Problem("artifact-count", f"the store counts {artifact_count} files, {files} are there")


def _orphans(link: Link) -> Iterator[Problem]:
    """Rows whose session or file is not there."""
    for table in ("segment", "event", "artifact", "exchange"):
        found = link.all(
            f"SELECT DISTINCT session_id FROM {table} "
            "WHERE session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM session)"
        )
        for (row_id,) in found:
            yield Problem("session-missing", f"{table} rows of session row {row_id}, which is not there")
    found = link.all(
        "SELECT DISTINCT artifact_id FROM artifact_part WHERE artifact_id NOT IN (SELECT id FROM artifact)"
    )
    for (row_id,) in found:
        yield Problem("artifact-missing", f"parts of file row {row_id}, which is not there")


def _generations(rows: list[SessionRow]) -> Iterator[Problem]:
    by_key: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row.generation)
    for key, found in by_key.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield Problem(
                "generation-missing", f"generations {sorted(found)} are not 1 to {len(found)}", unescape(key)
            )
