"""Keeps the read tables and checkpoints of a projection up to date with a store.

Sessions that a build lags behind are folded outside of any transaction, then written in batches: one transaction
holds the rows of the sessions of a batch, their checkpoints and the position of the build. What it writes of a session
replaces what was there, so writing twice changes nothing; a session that another runner has brought further in
the meantime is left alone. A process that dies leaves the build as the last transaction left it.

A new version, or a rebuild, is a build of its own that is filled while readers look at the old one. When it has
caught up, and is no further back than the old one, one transaction switches the views. A session that cannot be
folded keeps the rows it had, marked incomplete; the reason stands in its checkpoint, and it is tried again next time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Generic

from playhead.eventstore import json_text
from playhead.eventstore.errors import StoreUnavailable, UsageError
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import SqlStore, builds, read_models
from playhead.eventstore.sql.builds import Build, Checkpoint
from playhead.eventstore.sql.engine import Link
from playhead.projections.checkpoints import resumed
from playhead.projections.folding import Folded, advance, left_out
from playhead.projections.projection import COMMON_COLUMNS, Projection, Row, S

Progress = Callable[[int, int], None]
"""Takes how many of the sessions to fold are done, and how many there are."""

BATCH_SESSIONS = 256
BATCH_BYTES = 16 << 20
BATCH_ROWS = 20_000
"""A batch is written when it has so many sessions, bytes of states or emitted rows."""


def no_progress(_done: int, _total: int) -> None:
    """Tells nobody."""


class NewerTables(UsageError):
    """A newer release built the tables; this one could only build older ones."""

    code = "newer-tables"

    def __init__(self, name: str, built: int, version: int) -> None:
        super().__init__(
            f"the tables of {name} have version {built}, this release makes version {version}: "
            f"use a newer Playhead, or `playhead project {name} --rebuild`"
        )


class Superseded(Exception):
    """Another runner dropped the build that is being filled."""


@dataclass(frozen=True)
class Folding(Generic[S]):
    """A session folded some way on. ``kept`` is the checkpoint it began from, ``seen`` the seq stored with that.

    ``folded`` is None for a session that could not be folded, ``problem`` says why. ``from_seq`` is where the
    events of ``emitted`` begin. ``changed`` is False when state and rows are those of ``kept``. ``whole`` is False
    when more of the session follows.
    """

    session_id: int
    kept: Checkpoint | None
    from_seq: int
    folded: Folded[S] | None
    state: bytes = b""
    emitted: tuple[Row, ...] = ()
    problem: str | None = None
    changed: bool = True
    whole: bool = True

    @property
    def checkpoint(self) -> Checkpoint:
        """What is to be kept of it."""
        if self.folded is None:
            return failed(self.kept, self.problem)
        return Checkpoint(self.folded.next_seq, self.state, self.folded.unknown)


def failed(kept: Checkpoint | None, problem: str | None) -> Checkpoint:
    """The checkpoint before, with the reason why there is no newer one."""
    return (kept or Checkpoint(0, None))._replace(problem=problem)


@dataclass
class _Batch(Generic[S]):
    """Folded sessions that are to be written."""

    foldings: list[Folding[S]] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0

    def add(self, folding: Folding[S]) -> None:
        self.foldings.append(folding)
        self.bytes += len(folding.state)
        self.rows += len(folding.emitted)

    @property
    def full(self) -> bool:
        return len(self.foldings) >= BATCH_SESSIONS or self.bytes >= BATCH_BYTES or self.rows >= BATCH_ROWS


class Runner(Generic[S]):
    """Materialises one projection in one store. Several runners, in several processes, do no harm to each other."""

    def __init__(self, store: SqlStore, projection: Projection[S]) -> None:
        self._store = store
        self._database = store.database
        self._projection = projection
        self._tables = projection.tables
        self._appended = tuple(table for table in projection.tables if table.appended)

    def catch_up(self, progress: Progress = no_progress) -> None:
        """Bring the tables and checkpoints up to the facts of now; builds them where there are none.

        Raises ``NewerTables`` when a newer release built them.
        """
        while True:
            try:
                for build in self._mine():
                    self._finish(build, progress)
                break
            except Superseded:
                continue
        self._sweep()

    def rebuild(self, progress: Progress = no_progress) -> None:
        """Build the tables and checkpoints anew; readers see the old ones until the new ones are whole."""
        with self._database.write() as link:
            builds.alone(link)
            for other in builds.of_name(link, self._projection.name):
                if other.status == builds.BUILDING:
                    builds.set_status(link, other.id, builds.OLD)
            build = self._add(link)
        try:
            self._finish(build, progress)
        except Superseded:
            self.catch_up(progress)
        self._sweep()

    def live(self, link: Link) -> Build | None:
        """The build that readers see, when it is one of this version."""
        return next((build for build in self._fitting(link) if build.status == builds.LIVE), None)

    # Builds

    def _fitting(self, link: Link) -> list[Build]:
        """The builds of this version and these tables, the live one first."""
        found = [
            build
            for build in builds.of_name(link, self._projection.name)
            if (build.version, build.shape) == (self._projection.version, shape(self._projection))
            and build.status != builds.OLD
        ]
        return sorted(found, key=lambda build: build.status != builds.LIVE)

    def _mine(self) -> list[Build]:
        """The builds to fill: the live one, one that somebody began and did not finish, or a new one."""
        with self._database.read() as link:
            self._require_newest(link)
            found = self._standing(link)
        if found:
            return found
        with self._database.write() as link:
            builds.alone(link)
            self._require_newest(link)
            found = self._standing(link)
            for other in builds.of_name(link, self._projection.name):
                if other.status == builds.BUILDING and (
                    other.shape != shape(self._projection) or not read_models.stands(link, other)
                ):
                    builds.set_status(link, other.id, builds.OLD)
            return found or [self._add(link)]

    def _standing(self, link: Link) -> list[Build]:
        """The fitting builds of which nobody has dropped a table."""
        return [build for build in self._fitting(link) if read_models.stands(link, build)]

    def _require_newest(self, link: Link) -> None:
        newest = max((build.version for build in self._others(link)), default=0)
        if newest > self._projection.version:
            raise NewerTables(self._projection.name, newest, self._projection.version)

    def _others(self, link: Link) -> list[Build]:
        found = builds.of_name(link, self._projection.name)
        return [build for build in found if build.status != builds.OLD]

    def _add(self, link: Link) -> Build:
        names = tuple(table.name for table in self._tables)
        build = builds.add(
            link, self._projection.name, self._projection.version, shape(self._projection), names
        )
        read_models.create(link, build, self._tables)
        return build

    def _finish(self, build: Build, progress: Progress) -> None:
        """Fill the build, and let readers see it."""
        while True:
            self._fill(build, progress)
            if build.status == builds.LIVE or self._switch(build):
                return

    def _switch(self, build: Build) -> bool:
        """Let the views show the build. False when another one that is shown has come further."""
        with self._database.write() as link:
            builds.alone(link)
            found = {other.id: other for other in self._others(link)}
            current = found.get(build.id)
            if current is None:
                raise Superseded
            before = [other for other in found.values() if other.status == builds.LIVE and other != current]
            if any(other.position > current.position for other in before):
                return False
            for other in before:
                builds.set_status(link, other.id, builds.OLD)
            builds.set_status(link, build.id, builds.LIVE)
            read_models.show(link, build, self._tables, before)
        return True

    def _sweep(self) -> None:
        """Drop builds that nobody needs. One that a reader still has open is left for the next time."""
        with self._database.read() as link:
            old = [
                build for build in builds.of_name(link, self._projection.name) if build.status == builds.OLD
            ]
        for build in old:
            try:
                with self._database.write() as link:
                    builds.alone(link)
                    read_models.drop(link, build)
                    builds.remove(link, build.id)
            except StoreUnavailable:
                return

    # Filling

    def _fill(self, build: Build, progress: Progress) -> None:
        """Fold every session that the build lags behind, as of now."""
        with self._database.snapshot() as link:
            current = builds.found(link, build.id)
            if current is None or current.status == builds.OLD:
                raise Superseded
            position, stale = builds.stale(link, current)
        if not stale and current.position == position:
            return
        batch = _Batch[S]()
        for at, session in enumerate(stale):
            progress(at, len(stale))
            following = stale[at + 1].first - 1 if at + 1 < len(stale) else position
            for folding in self._fold(build, session.session_id):
                batch.add(folding)
                if batch.full:
                    self._write(build, batch, following if folding.whole else session.first - 1)
                    batch = _Batch[S]()
        self._write(build, batch, position)
        progress(len(stale), len(stale))

    def _fold(self, build: Build, session_id: int) -> Iterator[Folding[S]]:
        """The session folded up to its end as of now; in several parts where single events make many rows."""
        with self._database.read() as link:
            kept = builds.checkpoint(link, build.id, session_id)
        projection, from_seq = self._projection, 0
        try:
            session = self._store.of_row(session_id)
            end_seq = session.next_seq
            folded = resumed(projection, session.header, kept, end_seq)
            events = session.events(
                folded.next_seq, end_seq, deltas=projection.deltas, without=left_out(projection)
            )
            for part, last in self._parts(events):
                before, from_seq = folded, folded.next_seq
                emitted: list[Row] = []
                folded = advance(projection, folded, part, emitted=emitted)
                if last:
                    folded = replace(folded, next_seq=end_seq)
                state = None if emitted else unchanged(kept, before, folded)
                changed = state is None
                if state is None:
                    state = projection.dump(folded.state)
                yield Folding(
                    session_id, kept, from_seq, folded, state, tuple(emitted), changed=changed, whole=last
                )
                kept = Checkpoint(folded.next_seq, state, folded.unknown)
        except (StoreUnavailable, MemoryError):
            raise
        except Exception as error:
            yield Folding(session_id, kept, from_seq, None, problem=reason(error))

    def _parts(
        self, events: Iterator[Recorded]
    ) -> Iterator[tuple[Iterator[Recorded] | list[Recorded], bool]]:
        """The events in one part, or where they make rows, in parts cut between seqs; True for the last."""
        if not self._appended:
            yield events, True
            return
        part: list[Recorded] = []
        for event in events:
            if len(part) >= BATCH_ROWS and event.seq != part[-1].seq:
                yield part, False
                part = []
            part.append(event)
        yield part, True

    def _write(self, build: Build, batch: _Batch[S], position: int) -> None:
        """Write a batch, all of it or nothing."""
        with self._database.write() as link:
            current = builds.locked(link, build.id)
            if current is None or current.status == builds.OLD:
                raise Superseded
            for folding in batch.foldings:
                self._write_session(link, build, folding)
            builds.set_position(link, build.id, position)

    def _write_session(self, link: Link, build: Build, folding: Folding[S]) -> None:
        stored = builds.next_seq(link, build.id, folding.session_id)
        seen = None if folding.kept is None else folding.kept.next_seq
        kept = folding.checkpoint
        if stored is not None and stored != seen and (folding.folded is None or stored >= kept.next_seq):
            return
        of, generations = read_models.subject(link, folding.session_id)
        if len(generations) > 1:
            read_models.mark_plain(link, build, self._tables, generations)
        if not folding.changed and stored == seen:
            builds.set_next_seq(link, build.id, folding.session_id, kept.next_seq)
            return
        was_incomplete = folding.kept is not None and folding.kept.incomplete
        if folding.folded is not None:
            rows = chain(folding.emitted, self._projection.rows(folding.folded.state))
            try:
                with link.savepoint():
                    read_models.write(
                        link,
                        build,
                        self._tables,
                        of,
                        rows,
                        from_seq=folding.from_seq,
                        incomplete=kept.incomplete,
                    )
            except (StoreUnavailable, MemoryError):
                raise
            except Exception as error:
                kept = failed(folding.kept, reason(error))
        if kept.incomplete != was_incomplete:
            tables = self._tables if kept.problem is not None else self._appended
            read_models.mark_incomplete(link, build, tables, folding.session_id, kept.incomplete)
        builds.put(link, build.id, folding.session_id, kept)


def unchanged(kept: Checkpoint | None, before: Folded[S], after: Folded[S]) -> bytes | None:
    """The state in ``kept``, when the events between ``before``, which began there, and ``after`` changed nothing."""
    if kept is None or kept.problem is not None or not 0 < kept.next_seq == before.next_seq:
        return None
    same = after.state is before.state and after.unknown == before.unknown
    return kept.state if same else None


def reason(error: Exception) -> str:
    """Why a session could not be folded, in one line."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:500]


def shape(projection: Projection[S]) -> str:
    """A digest of what the tables of a projection look like."""
    declared = [
        [table.name, table.appended, list(table.key)]
        + [[column.name, column.kind, column.optional] for column in (*COMMON_COLUMNS, *table.columns)]
        for table in projection.tables
    ]
    return hashlib.sha256(json_text.dumps(declared)).hexdigest()[:16]
