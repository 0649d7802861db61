"""The SESSION argument: an exact id, a unique prefix of one, or a log file that needs no store.

A path ends in ``.jsonl`` or ``.jsonl.zstd``, or starts with ``/`` or ``./``. Such a file is read into a store in
memory that ends with the command. Where there is no such file, it may still be an id. ``../`` alone is no
sign of a path: hostile ids begin like that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playhead.cli import place, units
from playhead.eventstore.errors import NotALog, SessionNotFound, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.projections.materialised import ProjectedStore

SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="A session id, the beginning of one, or a log file.")
]
AtOption = Annotated[int | None, typer.Option(min=0, metavar="SEQ", help="As it was after this event.")]
RepairedOption = Annotated[
    bool, typer.Option("--repaired", help="Close what a crash left open, as a restart does.")
]
IgnorableOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE", help="Events of this unknown type change nothing; repeatable."),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Show nothing of a log that is damaged or breaks a rule.")
]
GenerationOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Of several differing logs of one id, the Nth that was imported."),
]


def looks_like_path(session: str) -> bool:
    """True for what a SESSION argument takes as the path of a log file."""
    return session.endswith((".jsonl", ".jsonl.zstd")) or session.startswith(("/", "./"))


def is_file(session: str) -> bool:
    """True for a SESSION argument that means a log file, which is read without a store."""
    return looks_like_path(session) and Path(session).exists()


def require_seq(info: SessionInfo, at: int | None, subject: str = "the session") -> None:
    """Raise ``UsageError`` where an ``--at`` lies behind the last event of ``subject``, whose ``info`` this is."""
    if at is not None and at >= info.next_seq:
        raise UsageError(f"--at {at}: {subject} has {units.count(info.next_seq, 'seq')}, from 0")


@contextmanager
def opened(
    session: str, generation: int | None = None, store: str | None = None
) -> Iterator[tuple[SqlStore, SqlSession]]:
    """The session that a SESSION argument means and its store, open as long as the context lasts.

    Raises ``SessionNotFound`` with the ids that would fit, ``StoreUnavailable``, or what is wrong with it.
    """
    if is_file(session):
        with _store_of_file(session) as held:
            yield held, _only_session(held, session, generation)
        return
    with _opened_store(session, store) as held:
        try:
            found = held.find(session, generation=generation)
        except SessionNotFound as error:
            if looks_like_path(session) and not error.candidates:
                raise UsageError(f"{session}: no such file, and no session of that id") from None
            raise
        yield held, found


def _opened_store(session: str, store: str | None) -> ProjectedStore:
    """The store in which ``session`` is to be found. Raises ``StoreUnavailable``, for a path with what it is itself."""
    try:
        return place.open_store(store)
    except StoreUnavailable as error:
        if looks_like_path(session):
            raise StoreUnavailable(f"{session}: no such file; and {error}") from error
        raise


@contextmanager
def _store_of_file(path: str) -> Iterator[SqlStore]:
    import playhead
    from playhead.adapters.dsh.importer import import_paths

    with playhead.open_store("sqlite://", create=True) as store:
        report = import_paths(store, [path])
        if report.refused and not report.sessions:
            refusal = report.refused[0].finding
            raise NotALog(refusal.kind, f"{path}: {refusal.message}", line=refusal.line or 1)
        yield store


def _only_session(store: SqlStore, path: str, generation: int | None) -> SqlSession:
    ids = sorted({info.id for info in store.sessions()})
    if not ids:
        raise NotALog("no-session", f"{path}: no session log in it")
    if len(ids) > 1:
        raise UsageError(f"{path} holds {len(ids)} sessions; import it, then name one by its id")
    return store.session(ids[0], generation=generation)
