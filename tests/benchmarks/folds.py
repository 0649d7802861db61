"""Folds of whole logs: from a store, and as somebody has them who keeps JSONL and reads it with ``json.loads``.

Both sides run the same projections on the same events, those that they handle. ``fold`` is the transcript and the
tokens, which need no token deltas: a store passes them over undecoded, a plain reader has to parse every line to
know. ``full fold`` is the figures of a session, which look at each delta.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus import Corpus
from measure import seconds

import playhead
from playhead.eventstore import chunk_rows
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp
from playhead.projections.folding import advance, begin, fold, left_out
from playhead.projections.projection import Projection
from playhead.projections.session_stats import session_stats
from playhead.projections.transcript import transcript
from playhead.projections.usage import usage

FACTS: tuple[Projection[Any], ...] = (transcript, usage)
FULL: tuple[Projection[Any], ...] = (session_stats,)
_CHUNK = "assistant/chunk"
_DATA = b'"data":'


def stored_seconds(url: str, projections: tuple[Projection[Any], ...]) -> float:
    """How long the folds of every session in a store take."""
    with playhead.open_store(url) as store:
        sessions = [store.session(info.id) for info in store.sessions()]

        def work() -> None:
            for session in sessions:
                for projection in projections:
                    fold(session, projection)

        return seconds(work)


def plain_seconds(corpus: Corpus, projections: tuple[Projection[Any], ...]) -> float:
    """How long they take from the files."""

    def work() -> None:
        for path in corpus.files:
            for projection in projections:
                header, events = plain_events(path, deltas=projection.deltas, without=left_out(projection))
                advance(projection, begin(projection, header), events)

    return seconds(work)


def plain_events(
    path: Path, *, deltas: bool, without: frozenset[str] = frozenset()
) -> tuple[SessionHeader, Iterator[Recorded]]:
    """Header and logical events of a sound log, every line parsed by ``json.loads``.

    An event of a type in ``without`` is left out where the dialect does not touch it: nothing is made of its line.
    """
    with path.open("rb") as file:
        header = SessionHeader.parse(file.readline())
    return header, _events(path, header, deltas, without)


def _events(path: Path, header: SessionHeader, deltas: bool, without: frozenset[str]) -> Iterator[Recorded]:
    dialect = playhead.dialects()[f"dsh-v{header.version}"]
    unread = without - set(dialect.touches or ())
    state = dialect.initial(header)
    with path.open("rb") as file:
        file.readline()
        for line in file:
            parsed = json.loads(line)
            if parsed["type"] in chunk_rows.TAGS:
                for event in chunk_rows.unpack(parsed) if deltas else ():
                    yield _fact(header.id, line, event)
                continue
            if parsed["type"] in unread:
                continue
            data = parsed["data"]
            if deltas or parsed["type"] != _CHUNK or not data["chunk"]["type"].endswith("-delta"):
                state, events = dialect.step(state, _fact(header.id, line, parsed))
                yield from events


def _fact(session: SessionId, line: bytes, event: dict[str, Any]) -> Recorded:
    """An event that is parsed already, as a fact.

    Its ``raw`` goes on to the end of the line: folds look at how it begins, and take the rest from what was parsed.
    """
    op: Any = event.get("surfaceOp")
    if isinstance(op, dict):
        op = Replace(op.get("start", op.get("startSeq")), op.get("end", op.get("endSeq")))
    placed: SurfaceOp | None = op
    sources = event.get("sourceEventSeqs")
    fact = Recorded(
        session,
        Seq(event["seq"]),
        event["time"],
        event["type"],
        line[line.index(_DATA) + len(_DATA) :],
        placed,
        None if sources is None else tuple(sources),
    )
    fact._json = event["data"]
    return fact
