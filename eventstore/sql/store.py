"""A store on SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, BinaryIO, Self

from sqlalchemy.exc import IntegrityError

from playhead.eventstore.dialect import Dialect, Native
from playhead.eventstore.errors import (
    SessionExists,
    SessionNotFound,
    StoreUnavailable,
    UsageError,
)
from playhead.eventstore.feed import Subscription, position_of, seq_of
from playhead.eventstore.header import SessionHeader, same_creation
from playhead.eventstore.ids import Idem, Position
from playhead.eventstore.log import Clock, SessionInfo
from playhead.eventstore.log import now_ms as now_ms
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.source import BytesSource, Ingested, KnownFile, LogSource
from playhead.eventstore.sql import (
    artifacts,
    commit_order,
    commits,
    heads,
    ingesting,
    intake,
    preparing,
    rebuilding,
    sealing,
    session_row,
    status,
    verifying,
)
from playhead.eventstore.sql.columns import escape, unescape
from playhead.eventstore.sql.engine import Database, store_url
from playhead.eventstore.sql.heads import Head
from playhead.eventstore.sql.problem import Problem
from playhead.eventstore.sql.session_check import EventWatch
from playhead.eventstore.sql.session_row import SessionRow
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.type_ids import TypeIds
from playhead.eventstore.sql.waking import Watch

_ATTEMPTS = 4


def open_store(
    address: str,
    *,
    create: bool = True,
    dialects: Iterable[Dialect] = (),
    clock: Clock = now_ms,
) -> SqlStore:
    """The store at ``address``: a path or URL of a SQLite file, ``sqlite://`` (in memory), or ``postgresql://...``.

    ``create`` makes it where there is none. ``dialects`` turn stored facts into logical events. Raises
    ``StoreUnavailable`` when there is no store or it cannot be reached, ``StoreOutdated`` when it needs
    ``playhead store upgrade``, ``UsageError`` for an address that is none.
    """
    return SqlStore.open(address, create=create, dialects=dialects, clock=clock)


class SqlStore:
    """Sessions and files in one database; see ``log.Store`` and ``source.Archive`` for what is promised."""

    def __init__(self, database: Database, dialects: Iterable[Dialect], clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.types = TypeIds()
        self._watch = Watch(database)
        self._dialects: Mapping[str, Dialect] = {found.name: found for found in (Native(), *dialects)}

    @classmethod
    def open(
        cls,
        address: str,
        *,
        create: bool = True,
        dialects: Iterable[Dialect] = (),
        clock: Clock = now_ms,
    ) -> Self:
        """The store at ``address``. See ``open_store``."""
        database = Database(store_url(address))
        try:
            preparing.prepare(database, create)
        except BaseException:
            database.close()
            raise
        return cls(database, dialects, clock)

    def dialect(self, name: str) -> Dialect:
        """The dialect that a session names. Raises ``UsageError`` when no package brings it."""
        found = self._dialects.get(unescape(name))
        if found is None:
            raise UsageError(
                f"no dialect {name!r} is installed; the stored lines can still be read and exported"
            )
        return found

    @property
    def uuid(self) -> str:
        """The identity of this store."""
        with self.database.read() as link:
            return str(link.one("SELECT store_uuid FROM store WHERE id = 1")[0])

    @property
    def position(self) -> Position:
        """The position of the last committed fact; 0 in an empty store."""
        with self.database.read() as link:
            return Position(link.one("SELECT pos FROM store WHERE id = 1")[0])

    # Sessions

    def create(self, header: SessionHeader, *, idem: Idem | str | None = None) -> SqlSession:
        """A new, empty session. See ``log.Store.create``."""
        row = ingesting.empty_row(header, header.new_line(), Native.name, 1)
        row = row._replace(idem=None if idem is None else escape(idem))
        try:
            with self.database.write() as link:
                taken = session_row.of_key(link, row.key)
                if taken:
                    return self._created_before(taken, row)
                row = session_row.insert(link, row)
                commits.count(link, sessions=1)
        except IntegrityError as error:
            raise SessionExists(header.id) from error
        return SqlSession(self, row)

    def _created_before(self, taken: list[SessionRow], row: SessionRow) -> SqlSession:
        """The session that the same call made before. Raises ``SessionExists`` when it was another call."""
        for other in taken:
            if row.idem is not None and other.idem == row.idem and same_creation(other.header, row.header):
                return SqlSession(self, other)
        raise SessionExists(row.session)

    def create_from(self, header: SessionHeader, blocks: Iterable[bytes]) -> SqlSession:
        """A new session that begins with these lines, in one transaction. See ``log.Store.create_from``."""
        try:
            with self.database.write() as link:
                if session_row.of_key(link, escape(header.id)):
                    raise SessionExists(header.id)
                taken = ingesting.take_lines(link, header, blocks)
                session_row.save(link, taken.row)
                commits.place(link, taken.row.id, taken.ranges, self.clock())
                commits.count(link, sessions=1)
        except IntegrityError as error:
            raise SessionExists(header.id) from error
        return SqlSession(self, taken.row)

    def session(self, id: str, *, generation: int | None = None) -> SqlSession:
        """The session of exactly this id. See ``log.Store.session``."""
        with self.database.read() as link:
            rows = session_row.of_key(link, escape(id))
        if not rows:
            raise SessionNotFound(id)
        if generation is None:
            return SqlSession(self, session_row.plain(rows))
        for row in rows:
            if row.generation == generation:
                return SqlSession(self, row)
        raise UsageError(f"session {id!r} has generations 1 to {len(rows)}, not {generation}")

    def of_row(self, row_id: int) -> SqlSession:
        """The session of this row number."""
        with self.database.read() as link:
            return SqlSession(self, session_row.load(link, row_id))

    def find(self, text: str, *, generation: int | None = None) -> SqlSession:
        """The session whose id is ``text``, or else the only one whose id begins with it.

        Raises ``SessionNotFound``, with the candidates when there are several.
        """
        try:
            return self.session(text, generation=generation)
        except SessionNotFound:
            ids = sorted({info.id for info in self.sessions(id_prefix=text)}) if text else []
        if len(ids) == 1:
            return self.session(ids[0], generation=generation)
        raise SessionNotFound(text, tuple(ids))

    def sessions(
        self,
        *,
        id_prefix: str | None = None,
        cwd: str | None = None,
        parent: str | None = None,
        all_generations: bool = False,
    ) -> list[SessionInfo]:
        """The sessions that fit, newest ``created_ms`` first, then by id."""
        with self.database.read() as link:
            rows = session_row.every(link)
        by_key: dict[str, list[SessionRow]] = {}
        for row in rows:
            by_key.setdefault(row.key, []).append(row)
        infos = []
        for same in by_key.values():
            for row in same if all_generations else [session_row.plain(same)]:
                if id_prefix is not None and not row.session.startswith(id_prefix):
                    continue
                if cwd is not None and row.cwd != escape(cwd):
                    continue
                if parent is not None and row.parent_key != escape(parent):
                    continue
                infos.append(row.info(len(same)))
        return sorted(infos, key=lambda info: (-info.header.created_ms, info.id, info.generation))

    def read_all(self, after: int = 0, *, limit: int | None = None) -> Iterator[Recorded]:
        """Facts of all sessions with position greater than ``after``, in commit order, at most ``limit``."""
        return commit_order.facts(self.database.read, after, limit)

    def subscribe(
        self, session: str | None = None, *, after: int | None = None, timeout_s: float | None = None
    ) -> Subscription:
        """Committed facts as they come, from this process and from others. See ``log.Store.subscribe``."""
        if session is None:

            def pull_all(position: int, limit: int) -> Iterator[Recorded]:
                return self.read_all(position, limit=limit)

            return Subscription(
                pull_all,
                position_of,
                after or 0,
                self.database.bell,
                follow=self._watch.follow,
                timeout_s=timeout_s,
            )
        of = self.session(session)

        def pull(seq: int, limit: int) -> Iterator[Recorded]:
            return islice(of.read(seq + 1), limit)

        return Subscription(
            pull,
            seq_of,
            -1 if after is None else after,
            self.database.bell,
            follow=self._watch.follow,
            timeout_s=timeout_s,
        )

    # Files

    def known(self, root: str, path: str) -> KnownFile | None:
        """What the last import of this file left; None for a file never seen."""
        with self.database.read() as link:
            row = artifacts.latest(link, root, path)
        return None if row is None else artifacts.known(row)

    def ingest(self, source: LogSource) -> Ingested:
        """Take a log in, in one transaction: new events, a new generation, or nothing."""
        outlined = False
        for attempt in range(_ATTEMPTS):
            try:
                with self.database.write() as link:
                    return intake.take(link, source, self.clock, outlined=outlined)
            except sealing.RanBack:
                outlined = True
            except IntegrityError:
                if attempt == _ATTEMPTS - 1:
                    raise  # not another importer of the same log: each of those leaves a row that we then see
        raise StoreUnavailable(f"{self.database.name}: {source.path} is being imported by others; try again")

    def archive(self, source: BytesSource) -> Ingested:
        """Keep a file as bytes, in one transaction."""
        attempt = 1
        while True:
            try:
                with self.database.write() as link:
                    changed, added = artifacts.put_bytes(link, source, self.clock())
                    commits.count(link, artifacts=added)
                return Ingested(changed=changed, findings=() if source.refused is None else (source.refused,))
            except IntegrityError:
                if attempt == _ATTEMPTS:
                    raise  # not another importer of the same file: what that one wrote we then see
                attempt += 1

    def files(self) -> list[artifacts.StoredFile]:
        """Every imported file, every version, by root and path."""
        with self.database.read() as link:
            return artifacts.listed(artifacts.every(link))

    def export_file(self, file: artifacts.StoredFile, out: BinaryIO) -> rebuilding.Rebuilt:
        """Write an imported file to ``out``, bit for bit. See ``rebuilding.rebuild``."""
        with self.database.read() as link:
            row = artifacts.load(link, file.id)
        return rebuilding.rebuild(self.database.read, row, out)

    def decoded(self, file: artifacts.StoredFile) -> Iterator[bytes]:
        """The decoded log of an imported file in pieces: header, lines, and what stands behind the last line end.

        Raises ``UsageError`` for a file that is no log.
        """
        if not file.is_log:
            raise UsageError(f"{file.path} was kept as bytes; it has no lines")
        with self.database.read() as link:
            row = artifacts.load(link, file.id)
        return rebuilding.decoded(self.database.read, row)

    def export(self, session: SqlSession, out: BinaryIO, *, decoded: bool = False) -> rebuilding.Rebuilt:
        """Write the file of a session to ``out``: the original where it was imported from a file of its own.

        ``decoded`` gives its plain lines: the header, and each line with LF. A session made here, or read from
        a database, has no other form.
        """
        with self.database.read() as link:
            files = artifacts.of_session(link, session.row_id)
        if files and not decoded:
            return rebuilding.rebuild(self.database.read, files[-1], out)
        out.write(session.header_line + b"\n")
        for block in session.blocks():
            out.write(block)
        return rebuilding.Rebuilt(True)

    # Care

    def verify(
        self,
        session: SqlSession | None = None,
        *,
        on_session: Callable[[int, int], None] | None = None,
        watch: EventWatch | None = None,
    ) -> list[Problem]:
        """What is not as it was stored, in the whole store or in one session. See ``verifying.py``.

        ``on_session`` hears how many sessions are done, and of how many. ``watch`` is shown the events of each session
        whose bytes are sound, so that whoever has more to say of a log need not read it again.
        """
        row_id = None if session is None else session.row_id
        with self.database.snapshot() as link:
            return verifying.verify(link, self.dialect, row_id, on_session, watch)

    def heads(self) -> list[Head]:
        """The hash heads of all sessions as of now, to be kept elsewhere."""
        with self.database.snapshot() as link:
            return heads.current(link)

    def compare_heads(self, kept: Iterable[Head]) -> list[Problem]:
        """What changed below heads that were kept. Growth since then is no change."""
        with self.database.snapshot() as link:
            return heads.compare(link, kept)

    def seal(self) -> int:
        """Seal the rows of every session; how many sessions had any."""
        with self.database.read() as link:
            open_rows = [row.id for row in session_row.every(link) if row.sealed_lines < row.lines]
        for row_id in open_rows:
            with self.database.write() as link:
                sealing.seal_session(link, row_id)
        return len(open_rows)

    def status(self) -> dict[str, Any]:
        """Figures about the store: schema, identity, counts, sizes in bytes."""
        with self.database.read() as link:
            return status.status(link, self.database)

    def close(self) -> None:
        """Give all connections back. An in-memory store is gone with this."""
        self._watch.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
