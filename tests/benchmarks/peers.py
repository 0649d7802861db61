"""Other stores that take the same lines, each in the way that its documentation gives for many events.

Every peer reads the files, parses each line with ``json``, and commits a thousand events at a time.
``eventsourcing`` and ``openai-agents`` come with the extra ``bench``.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from corpus import Corpus
from layouts import LayoutBenchmark
from measure import Result, Target, medians, seconds
from sqlalchemy import LargeBinary, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

_BATCH = 1_000

Events = Iterator[tuple[dict[str, Any], bytes]]
Peer = Callable[[Corpus, Path], float]


def results(corpus: Corpus, folder: Path, rounds: int, say: Callable[[str], None]) -> Iterator[Result]:
    """Our import against each peer's, in events per second; ``say`` hears which peer is not installed."""
    ours = LayoutBenchmark(corpus, folder)
    sides: dict[str, Callable[[], float]] = {"ours": ours.import_seconds}
    for name, (module, take, _) in _PEERS.items():
        if find_spec(module) is None:
            say(f"{name} is not installed: skipped (pip install '.[bench]')")
            continue
        sides[name] = _side(take, corpus, folder)
    found = medians(rounds, sides)
    rate = corpus.events / found["ours"] / 1e3
    for name in sides:
        if name != "ours":
            theirs = corpus.events / found[name] / 1e3
            what = f"import, against {name}"
            yield Result("peers", what, rate, theirs, "kev/s", rate / theirs, _PEERS[name][2])


def _side(take: Peer, corpus: Corpus, folder: Path) -> Callable[[], float]:
    def side() -> float:
        file = folder / f"peer-{uuid.uuid4().hex}.db"
        try:
            return take(corpus, file)
        finally:
            for left in folder.glob(file.name + "*"):
                left.unlink()

    return side


def _events(path: Path) -> Events:
    """The events of one file, parsed, with their lines."""
    with path.open("rb") as file:
        next(file)
        for line in file:
            yield json.loads(line), line


def _batches(events: Events) -> Iterator[list[tuple[dict[str, Any], bytes]]]:
    while batch := list(islice(events, _BATCH)):
        yield batch


def _orm(corpus: Corpus, file: Path) -> float:
    """A SQLAlchemy object per event."""

    class Base(DeclarativeBase):
        pass

    class Row(Base):
        __tablename__ = "event"
        session: Mapped[str] = mapped_column(primary_key=True)
        seq: Mapped[int] = mapped_column(primary_key=True)
        type: Mapped[str]
        time: Mapped[int]
        data: Mapped[bytes] = mapped_column(LargeBinary)

    def work() -> None:
        engine = create_engine(f"sqlite:///{file}")
        Base.metadata.create_all(engine)
        for path in corpus.files:
            for batch in _batches(_events(path)):
                with Session(engine) as session:
                    session.add_all(
                        Row(
                            session=path.stem,
                            seq=event["seq"],
                            type=event["type"],
                            time=event["time"],
                            data=line,
                        )
                        for event, line in batch
                    )
                    session.commit()
        engine.dispose()

    return seconds(work)


def _eventsourcing(corpus: Corpus, file: Path) -> float:
    """Stored events through the SQLite recorder of ``eventsourcing``."""
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

    def work() -> None:
        recorder = SQLiteApplicationRecorder(SQLiteDatastore(str(file)))
        recorder.create_table()
        for path in corpus.files:
            origin = uuid.uuid5(uuid.NAMESPACE_URL, path.stem)
            for batch in _batches(_events(path)):
                recorder.insert_events(
                    [StoredEvent(origin, event["seq"], event["type"], line) for event, line in batch]
                )

    return seconds(work)


def _agents(corpus: Corpus, file: Path) -> float:
    """Items of an openai-agents ``SQLiteSession``."""
    from agents import SQLiteSession

    async def take() -> None:
        for path in corpus.files:
            session = SQLiteSession(path.stem, file)
            for batch in _batches(_events(path)):
                await session.add_items([event for event, _ in batch])
            session.close()

    return seconds(lambda: asyncio.run(take()))


_PEERS: dict[str, tuple[str, Peer, Target]] = {
    "eventsourcing": ("eventsourcing", _eventsourcing, Target(4, 5)),
    "openai-agents SQLiteSession": ("agents", _agents, Target(6, 9)),
    "a SQLAlchemy object per event": ("sqlalchemy", _orm, Target(20, 28)),
}
"""Name: the module it needs, how it takes a corpus, and what is asked of our import beside it."""
