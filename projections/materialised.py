"""Projections of a store: the state of a session from its checkpoint, and the tables that show it.

``store.projection("inbox").state(session)`` is never wrong and never late: a checkpoint only saves reading what was
folded before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Literal

from playhead.eventstore.ids import Seq
from playhead.eventstore.sql import SqlStore, builds, read_models
from playhead.eventstore.sql.builds import Trouble
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.projections import registry
from playhead.projections.checkpoints import resumed
from playhead.projections.folding import Folded, advance, left_out
from playhead.projections.projection import Projection, S
from playhead.projections.runner import Progress, Runner, no_progress, shape

State = Literal["current", "behind", "outdated", "newer", "missing"]


@dataclass(frozen=True, slots=True)
class Status:
    """How the tables of a projection stand.

    ``version`` is that of the installed projection, ``built_version`` that of the tables that readers see; None
    where there are none, or somebody dropped one. ``state`` is ``behind`` when facts or sessions are missing in
    them, ``outdated`` when they are of another version or shape, ``newer`` when a newer release made them.
    ``position`` is how far they go, ``lag`` how many facts follow it. ``building`` says that a build was begun and
    is not finished.
    ``troubles`` are the sessions that are shown not at all or not whole.
    """

    name: str
    version: int
    built_version: int | None
    state: State
    building: bool
    position: int
    lag: int
    sessions: int
    rows: int
    tables: tuple[str, ...]
    troubles: tuple[Trouble, ...]


class Materialised(Generic[S]):
    """One projection of one store."""

    def __init__(self, store: SqlStore, projection: Projection[S]) -> None:
        self._store = store
        self.projection = projection
        self._runner = Runner(store, projection)

    def folded(self, session: SqlSession | str, *, at: int | None = None) -> Folded[S]:
        """The fold of a session after its last event, or after the event ``at``.

        ``session`` is a session of this store or the id of one. Raises what reading its events raises.
        """
        if isinstance(session, str):
            session = self._store.session(session)
        end_seq = session.next_seq if at is None else Seq(max(0, min(at + 1, session.next_seq)))
        with self._store.database.read() as link:
            build = self._runner.live(link)
            kept = None if build is None else builds.checkpoint(link, build.id, session.row_id)
        folded = resumed(self.projection, session.header, kept, end_seq)
        without = left_out(self.projection)
        events = session.events(folded.next_seq, end_seq, deltas=self.projection.deltas, without=without)
        return replace(advance(self.projection, folded, events), next_seq=end_seq)

    def state(self, session: SqlSession | str, *, at: int | None = None) -> S:
        """The state of a session. See ``folded``."""
        return self.folded(session, at=at).state

    def view(self, session: SqlSession | str, *, at: int | None = None) -> Any:
        """What callers see of the state, a JSON value. See ``folded``."""
        return self.projection.view(self.state(session, at=at))

    def catch_up(self, progress: Progress = no_progress) -> None:
        """Bring checkpoints and read tables up to the facts of now. See ``Runner.catch_up``."""
        self._runner.catch_up(progress)

    def rebuild(self, progress: Progress = no_progress) -> None:
        """Make checkpoints and read tables anew; readers see the old tables until the new ones are whole."""
        self._runner.rebuild(progress)

    def status(self) -> Status:
        """How the read tables stand."""
        name, version = self.projection.name, self.projection.version
        with self._store.database.snapshot() as link:
            found = builds.of_name(link, name)
            building = any(build.status == builds.BUILDING for build in found)
            build = next((build for build in found if build.status == builds.LIVE), None)
            if build is None or not read_models.stands(link, build):
                last = builds.store_position(link)
                return Status(name, version, None, "missing", building, 0, last, 0, 0, (), ())
            last, stale = builds.stale(link, build)
            troubles = builds.troubles(link, build.id)
            behind = len(stale) > sum(trouble.problem is not None for trouble in troubles)
            state: State = "behind" if behind or build.position < last else "current"
            if build.version > version:
                state = "newer"
            elif (build.version, build.shape) != (version, shape(self.projection)):
                state = "outdated"
            return Status(
                name,
                version,
                build.version,
                state,
                building,
                build.position,
                last - build.position,
                builds.sessions_in(link, build.id),
                read_models.count(link, build),
                build.tables,
                tuple(troubles),
            )


class ProjectedStore(SqlStore):
    """A store with its projections."""

    def projection(self, name: str) -> Materialised[Any]:
        """The projection of this name. Raises ``UsageError``, which says what there is."""
        return Materialised(self, registry.find(name))

    def projections(self) -> list[Materialised[Any]]:
        """All projections, in the order of their names."""
        return [Materialised(self, projection) for projection in registry.every()]
