"""Recorded logs as sessions that can be folded, and every log that has a migrated twin.

A resumed session of an older format is written anew in the format of the runtime; the older file stays beside it. The
twin ends with what the resume added: what is compared ends before its last ``session/end-seed``. The older log is
taken in its repaired view (``fold(..., repaired=True)``), because the resume closed what a crash had left open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from reference import SHARED, needs_shared

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.codecs.wanted import is_delta
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded

_REFUSED = ("edited-header-version-5", "edited-wrong-id")
"""Scenarios whose log is kept as bytes and not interpreted."""


@dataclass(frozen=True)
class Log:
    """A session in memory: a header and its logical events, deltas among them. It can be folded."""

    header: SessionHeader
    facts: tuple[Recorded, ...]

    @classmethod
    def of(cls, facts: Iterable[Recorded], header: SessionHeader | None = None) -> Log:
        """The log of ``facts``, with a header of format 0 where none is given."""
        return cls(header or SessionHeader(SessionId("s1"), 1), tuple(facts))

    @property
    def next_seq(self) -> Seq:
        return Seq(max((fact.seq for fact in self.facts), default=-1) + 1)

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        for fact in self.facts:
            if (
                from_seq <= fact.seq
                and (to_seq is None or fact.seq < to_seq)
                and fact.type not in without
                and (deltas or not is_delta(fact))
            ):
                yield fact

    def before_last_end_seed(self) -> Log:
        """The log without its last ``session/end-seed`` and what follows it."""
        last = max(at for at, fact in enumerate(self.facts) if fact.type == "session/end-seed")
        return Log(self.header, self.facts[:last])


@cache
def read_log(path: Path) -> Log:
    """The one session in the log file ``path``, whatever its format; what is damaged in it is left out."""
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [path])
        (info,) = store.sessions()
        session = store.session(info.id)
        return Log(session.header, tuple(session.events()))


@dataclass(frozen=True)
class Twins:
    """A log and its migrated form, each the file it is read from."""

    name: str
    older: Path
    newer: Path

    @property
    def source(self) -> Log:
        """The log as it was before; compare its repaired view."""
        return read_log(self.older)

    @property
    def migrated(self) -> Log:
        """The same session in the newer format, up to where the resume went on."""
        return read_log(self.newer).before_last_end_seed()


def twins() -> list[Any]:
    """Every pair as a pytest parameter; one that skips where the reference material is absent."""
    if not SHARED.is_dir():
        return [pytest.param(None, marks=needs_shared, id="no-reference-material")]
    corpus = SHARED / "corpus" / "dsh"
    found = []
    for newer in sorted(corpus.glob("*/migrate-from-*/after-resume/sessions/*/*/session.*jsonl*")):
        scenario = newer.parents[4]
        folder = scenario / "before" / newer.parent.relative_to(scenario / "after-resume")
        for older in sorted(folder.glob("session.*jsonl*")):
            name = f"{scenario.parent.name}-{scenario.name.removeprefix('migrate-from-')}"
            found.append(pytest.param(Twins(name, older, newer), id=name))
    return found


def recorded_logs() -> list[Any]:
    """Every log file of the recorded corpus that is interpreted, as a pytest parameter with its path as id.

    Logs that somebody damaged on purpose have a path with ``edited-`` in it.
    """
    if not SHARED.is_dir():
        return [pytest.param(None, marks=needs_shared, id="no-reference-material")]
    corpus = SHARED / "corpus" / "dsh"
    files = sorted(path for path in corpus.rglob("session.*jsonl*") if path.suffix in (".jsonl", ".zstd"))
    return [
        pytest.param(path, id=path.relative_to(corpus).as_posix())
        for path in files
        if path.relative_to(corpus).parts[1] not in _REFUSED
    ]
