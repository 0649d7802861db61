"""Recorded sessions served for as long as a block lasts, for Python programs and tests.

with replaying("sessions/weather.jsonl") as recorded:
    client = openai.OpenAI(base_url=recorded.base_url, api_key="any")
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.errors import NotALog, UsageError
from playhead.eventstore.log import Session, Store
from playhead.replay.claims import Unserved
from playhead.replay.override import Override, parse_override
from playhead.replay.schedule import Pace
from playhead.web.endpoint import Endpoint, Settings
from playhead.web.matching import Match
from playhead.web.misses import Miss
from playhead.web.override_file import read_override
from playhead.web.recording import Recording, with_subagents
from playhead.web.server import Server, serving

if TYPE_CHECKING:
    from playhead.projections.materialised import ProjectedStore

STORE_VARIABLE = "PLAYHEAD_STORE"
"""Names the store where none is given."""

_LOG_FILE_ENDINGS = (".jsonl", ".jsonl.zstd")


@dataclass(frozen=True)
class Replayed:
    """Sessions that are served."""

    endpoint: Endpoint
    server: Server

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return self.server.url

    @property
    def dialect(self) -> str | None:
        """The dialect in which the first call was recorded; None where there is no recorded call."""
        calls = self.endpoint.recordings[0].calls
        return calls[0].dialect.name if calls else None

    @property
    def served(self) -> int:
        """How many calls were asked for so far."""
        return len(self.endpoint.served)

    @property
    def misses(self) -> Sequence[Miss]:
        """The requests for which nothing was recorded."""
        return self.endpoint.misses

    @property
    def unserved(self) -> Sequence[Unserved]:
        """What nobody has asked for so far."""
        return self.endpoint.unserved()


@contextmanager
def replaying(
    *sessions: str | os.PathLike[str],
    match: Match = "ordered",
    store: str | os.PathLike[str] | None = None,
    generation: int | None = None,
    override: Any = None,
    speed: float = math.inf,
) -> Iterator[Replayed]:
    """The sessions, served until the end of the block.

    Each is a log file, or the id (or the beginning of one) of a session in ``store``, else in the store that
    ``PLAYHEAD_STORE`` names. ``override`` is a document or a file with one.
    Raises ``UsageError``, ``StoreUnavailable``, ``SessionNotFound`` and ``NotALog`` for what is not there,
    ``OverrideError`` for a wrong override.
    """
    if not sessions:
        raise UsageError("name a session to replay: its log file, or its id")
    with ExitStack() as stack:
        named = _opened([os.fspath(session) for session in sessions], store, generation, stack)
        changes, folder = _override(override)
        settings = Settings(match=match, pace=Pace(speed), override=changes, folder=folder)
        endpoint = Endpoint([Recording.of(session) for session in with_subagents(named)], settings)
        yield Replayed(endpoint, stack.enter_context(serving(endpoint)))


def complaints(replayed: Replayed, complete: bool) -> Iterator[str]:
    """What a test that ``replayed`` served has to fail for; unserved calls too where it should be ``complete``."""
    for miss in replayed.misses:
        yield f"playhead: nothing was recorded for a request: {miss}"
    for script in replayed.unserved if complete else ():
        yield f"playhead: session {script.session!r} has {script.calls} calls, {script.served} were asked for"


def _opened(
    named: Sequence[str], store: str | os.PathLike[str] | None, generation: int | None, stack: ExitStack
) -> Iterator[tuple[Store, Session]]:
    """The named sessions, each with its store."""
    shared: ProjectedStore | None = None
    for name in named:
        if name.endswith(_LOG_FILE_ENDINGS):
            yield stack.enter_context(_of_file(name, generation))
            continue
        held = playhead.open_store(_store(name, store), create=False) if shared is None else shared
        if shared is None:
            shared = stack.enter_context(held)
        yield held, held.find(name, generation=generation)


def _store(name: str, store: str | os.PathLike[str] | None) -> str:
    url = os.environ.get(STORE_VARIABLE) if store is None else os.fspath(store)
    if not url:
        raise UsageError(
            f"no store for session {name!r}: give store=..., set {STORE_VARIABLE}, or name a .jsonl file"
        )
    return url


@contextmanager
def _of_file(path: str, generation: int | None) -> Iterator[tuple[Store, Session]]:
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such file")
    with playhead.open_store("sqlite://", create=True) as store:
        report = import_paths(store, [path])
        infos = store.sessions()
        if len(infos) != 1:
            reasons = "; ".join(refused.finding.message for refused in report.refused)
            raise NotALog("no-session", f"{path}: {reasons or f'it holds {len(infos)} sessions'}")
        yield store, store.session(infos[0].id, generation=generation)


def _override(given: Any) -> tuple[Override | None, Path]:
    """The override, and the folder in which the files that it names lie."""
    match given:
        case None:
            return None, Path()
        case str() | os.PathLike():
            path = Path(given)
            return read_override(path), path.parent
        case _:
            return parse_override(given), Path()
