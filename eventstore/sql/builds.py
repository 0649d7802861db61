"""Builds of projections, and how far each session is folded into them.

A build is one making of a projection's read tables, at one version of the projection. It is ``building`` until it has
caught up, then ``live``: the one that readers see; the one before it becomes ``old`` and is dropped. ``position`` says
that every fact up to there is in it. Of each name at most one build is live.

``projection_state`` holds a checkpoint for each session: the state (zstd) after all facts below ``next_seq``, the
types that nobody knew, and why a session could not be folded, if so. It is written in the transaction that writes
the rows of the session, so that the two agree.

Several processes may work at one build. Who writes has it locked (the row on PostgreSQL, the store on SQLite).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import zstandard

from playhead.eventstore import json_text
from playhead.eventstore.sql.columns import escape_optional, unescape
from playhead.eventstore.sql.engine import Link

BUILDING, LIVE, OLD = "building", "live", "old"

_SELECT = "SELECT id, name, version, shape, tables, position, status FROM projection"


class Build(NamedTuple):
    """One build. ``tables`` are the public names of its read tables; ``shape`` is a digest of their declaration."""

    id: int
    name: str
    version: int
    shape: str
    tables: tuple[str, ...]
    position: int
    status: str


class Checkpoint(NamedTuple):
    """How far a session is folded. Without ``state`` it was never folded, or what was stored cannot be read."""

    next_seq: int
    state: bytes | None
    unknown: tuple[tuple[str, int], ...] = ()
    problem: str | None = None

    @property
    def incomplete(self) -> bool:
        """True when the rows of the session may miss something."""
        return bool(self.unknown) or self.problem is not None


class Stale(NamedTuple):
    """A session that a build lags behind, and the position of the first fact that is new to it; 0 for none."""

    session_id: int
    first: int


class Trouble(NamedTuple):
    """A session that a build shows not at all or not whole, and why."""

    session: str
    generation: int
    problem: str | None
    unknown: tuple[tuple[str, int], ...]


# Builds


def every(link: Link) -> list[Build]:
    """All builds, oldest first."""
    return [_build(row) for row in link.all(f"{_SELECT} ORDER BY id")]


def of_name(link: Link, name: str) -> list[Build]:
    """The builds of a projection, oldest first."""
    return [_build(row) for row in link.all(f"{_SELECT} WHERE name = ? ORDER BY id", (name,))]


def alone(link: Link) -> None:
    """Keep others from adding, changing and removing builds until the transaction ends."""
    if link.postgres:
        link.run("LOCK TABLE projection IN SHARE ROW EXCLUSIVE MODE")


def found(link: Link, build_id: int) -> Build | None:
    """The build as of now; None when it was dropped."""
    row = link.one(f"{_SELECT} WHERE id = ?", (build_id,))
    return None if row is None else _build(row)


def locked(link: Link, build_id: int) -> Build | None:
    """The build, locked until the transaction ends; None when it was dropped."""
    if link.postgres:
        link.run(
            "LOCK TABLE projection IN ROW EXCLUSIVE MODE"
        )  # first, as ``alone`` does, lest they wait in a ring
        link.one("SELECT id FROM projection WHERE id = ? FOR UPDATE", (build_id,))
    return found(link, build_id)


def add(link: Link, name: str, version: int, shape: str, tables: tuple[str, ...]) -> Build:
    """A new build, which nothing is folded into yet."""
    made = link.one(
        "INSERT INTO projection (name, version, shape, tables, position, status) VALUES (?, ?, ?, ?, 0, ?) "
        "RETURNING id",
        (name, version, shape, " ".join(tables), BUILDING),
    )
    return Build(made[0], name, version, shape, tables, 0, BUILDING)


def set_position(link: Link, build_id: int, position: int) -> None:
    """Say that every fact up to ``position`` is in the build. It never goes back."""
    link.run(
        "UPDATE projection SET position = ? WHERE id = ? AND position < ?", (position, build_id, position)
    )


def set_status(link: Link, build_id: int, status: str) -> None:
    """Make the build ``live`` or ``old``."""
    link.run("UPDATE projection SET status = ? WHERE id = ?", (status, build_id))


def remove(link: Link, build_id: int) -> None:
    """Forget the build and its checkpoints."""
    link.run("DELETE FROM projection_state WHERE build_id = ?", (build_id,))
    link.run("DELETE FROM projection WHERE id = ?", (build_id,))


def _build(row: tuple[int, str, int, str, str, int, str]) -> Build:
    return Build(*row[:4], tuple(row[4].split()), *row[5:])


# Checkpoints


def checkpoint(link: Link, build_id: int, session_id: int) -> Checkpoint | None:
    """How far the session is folded into the build."""
    found = link.one(
        "SELECT next_seq, state, unknown, problem FROM projection_state WHERE build_id = ? AND session_id = ?",
        (build_id, session_id),
    )
    if found is None:
        return None
    next_seq, state, unknown, problem = found
    return Checkpoint(
        next_seq, _unpacked(state), _types(unknown), None if problem is None else unescape(problem)
    )


def next_seq(link: Link, build_id: int, session_id: int) -> int | None:
    """How far the session is folded into the build; None when it never was looked at."""
    row = link.one(
        "SELECT next_seq FROM projection_state WHERE build_id = ? AND session_id = ?", (build_id, session_id)
    )
    return None if row is None else int(row[0])


def put(link: Link, build_id: int, session_id: int, kept: Checkpoint) -> None:
    """Write the checkpoint of a session in the place of the one before."""
    state = None if kept.state is None else zstandard.ZstdCompressor(write_checksum=True).compress(kept.state)
    unknown = json_text.dumps(kept.unknown) if kept.unknown else None
    link.run(
        "INSERT INTO projection_state (build_id, session_id, next_seq, state, unknown, problem) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (build_id, session_id) DO UPDATE SET "
        "next_seq = excluded.next_seq, state = excluded.state, unknown = excluded.unknown, "
        "problem = excluded.problem",
        (build_id, session_id, kept.next_seq, state, unknown, escape_optional(kept.problem)),
    )


def set_next_seq(link: Link, build_id: int, session_id: int, next_seq: int) -> None:
    """Say that the session is folded up to ``next_seq``, and that nothing else came of it."""
    link.run(
        "UPDATE projection_state SET next_seq = ? WHERE build_id = ? AND session_id = ?",
        (next_seq, build_id, session_id),
    )


def _unpacked(state: bytes | None) -> bytes | None:
    if state is None:
        return None
    try:
        return zstandard.ZstdDecompressor().decompress(state)
    except zstandard.ZstdError:
        return None


def _types(unknown: bytes | None) -> tuple[tuple[str, int], ...]:
    if unknown is None:
        return ()
    return msgspec.convert(json_text.parse(unknown), tuple[tuple[str, int], ...])


def store_position(link: Link) -> int:
    """The position of the last committed fact."""
    return int(link.one("SELECT pos FROM store WHERE id = 1")[0])


def stale(link: Link, build: Build) -> tuple[int, list[Stale]]:
    """The position of the store, and the sessions that the build lags behind, those with the oldest news first.

    A session is stale when it has no checkpoint, another ``next_seq``, or a problem that may have gone.
    """
    position = store_position(link)
    after = build.position
    start = link.one("SELECT max(pos0) FROM commit_log WHERE pos0 <= ?", (after + 1,))[0] or 0
    news = dict(
        tuple(row)
        for row in link.all(
            "SELECT session_id, min(pos0) FROM commit_log WHERE pos0 >= ? AND pos0 + n > ? GROUP BY session_id",
            (start, after + 1),
        )
    )
    found = link.all(
        "SELECT s.id FROM session s LEFT JOIN projection_state p ON p.build_id = ? AND p.session_id = s.id "
        "WHERE p.session_id IS NULL OR p.next_seq <> s.next_seq OR p.problem IS NOT NULL",
        (build.id,),
    )
    sessions = [Stale(id, max(news[id], after + 1) if id in news else 0) for (id,) in found]
    return position, sorted(sessions, key=lambda session: (session.first, session.session_id))


def troubles(link: Link, build_id: int) -> list[Trouble]:
    """The sessions that the build shows not at all or not whole."""
    found = link.all(
        "SELECT s.key, s.generation, p.problem, p.unknown FROM projection_state p "
        "JOIN session s ON s.id = p.session_id "
        "WHERE p.build_id = ? AND (p.problem IS NOT NULL OR p.unknown IS NOT NULL) ORDER BY s.key, s.generation",
        (build_id,),
    )
    return [
        Trouble(unescape(key), generation, None if problem is None else unescape(problem), _types(unknown))
        for key, generation, problem, unknown in found
    ]


def sessions_in(link: Link, build_id: int) -> int:
    """How many sessions were looked at."""
    return int(link.one("SELECT count(*) FROM projection_state WHERE build_id = ?", (build_id,))[0])
