"""Whole logs in and out of a store: import, size, export, reading and folding facts, verification."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import folds
from corpus import Corpus
from measure import Result, Target, medians, seconds

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore import chunk_rows
from playhead.replay.verify import Watcher

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

ITEMS = ("import", "size", "export", "facts", "fold", "full fold", "verify", "verify, deep")

_CHUNK = "assistant/chunk"
_TARGETS = {
    "import": Target(1.0, 1.6),
    "size": Target(0.08, 0.055, less_is_better=True),
    "export": Target(0.15, 0.30),
    "facts": Target(3, 8),
    "fold": Target(3, 8),
    "verify": Target(1.0, 2.0),
    "verify, deep": Target(1.0, 2.0),
}
"""They are meant for live logs; the other layouts are reported."""


def _types(corpus: Corpus) -> set[str]:
    """The types of the facts in the corpus."""
    found: set[str] = set()
    for path in corpus.files:
        for line in path.read_bytes().splitlines()[1:]:
            found.add(line[len(b'{"type":"') : line.index(b'"', len(b'{"type":"'))].decode())
    return found - chunk_rows.TAGS


class _Nowhere(BytesIO):
    """A file that forgets."""

    def write(self, data: Buffer) -> int:
        return memoryview(data).nbytes


class LayoutBenchmark:
    """One corpus, and a store that the last import left."""

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        self._corpus = corpus
        self._folder = folder / corpus.layout
        self._url = str(self._folder / "store.db")
        self._types = sorted(_types(corpus) - {_CHUNK})

    def results(self, rounds: int, wanted: set[str]) -> Iterator[Result]:
        """What was measured for the ``wanted`` items."""
        self.import_seconds()
        pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
            "import": (self.import_seconds, self.parse_seconds),
            "export": (self.export_seconds, self.raw_seconds),
            "facts": (self.facts_seconds, self.parsed_facts_seconds),
            "fold": (
                lambda: folds.stored_seconds(self._url, folds.FACTS),
                lambda: folds.plain_seconds(self._corpus, folds.FACTS),
            ),
            "full fold": (
                lambda: folds.stored_seconds(self._url, folds.FULL),
                lambda: folds.plain_seconds(self._corpus, folds.FULL),
            ),
            "verify": (self.verify_seconds, self.import_seconds),
            "verify, deep": (self.verify_deep_seconds, self.import_seconds),
        }
        megabytes = self._corpus.size_bytes / 1e6
        for item in ITEMS:
            if item not in wanted:
                continue
            target = _TARGETS.get(item) if self._corpus.layout == "live" else None
            what = f"{item}, {self._corpus.layout}"
            if item == "size":
                stored = self.store_bytes() / 1e6
                yield Result(item, what, stored, megabytes, "MB", stored / megabytes, target)
                continue
            ours, reference = pairs[item]
            found = medians(rounds, {"ours": ours, "reference": reference})
            rates = megabytes / found["ours"], megabytes / found["reference"]
            yield Result(item, what, *rates, "MB/s", rates[0] / rates[1], target)

    def import_seconds(self) -> float:
        """A fresh store takes all files, is committed and closed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

        def work() -> None:
            with playhead.open_store(self._url) as store:
                report = import_paths(store, [str(self._corpus.folder)])
            if not report.clean or report.imported != len(self._corpus.files):
                raise RuntimeError(f"the import was not clean: {report}")

        return seconds(work)

    def parse_seconds(self) -> float:
        """``json.loads`` of every line."""

        def work() -> None:
            for path in self._corpus.files:
                with path.open("rb") as file:
                    for line in file:
                        json.loads(line)

        return seconds(work)

    def store_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.iterdir())

    def export_seconds(self) -> float:
        """Every session's file as bytes that go nowhere."""
        with playhead.open_store(self._url) as store:
            sessions = [store.session(info.id) for info in store.sessions()]
            return seconds(lambda: [store.export(session, _Nowhere()) for session in sessions])

    def raw_seconds(self) -> float:
        return seconds(lambda: [path.read_bytes() for path in self._corpus.files])

    def facts_seconds(self) -> float:
        """Every fact but the chunks, counted by type."""
        with playhead.open_store(self._url) as store:
            sessions = [store.session(info.id) for info in store.sessions()]
            counts: Counter[str] = Counter()

            def work() -> None:
                for session in sessions:
                    for fact in session.read(types=self._types):
                        counts[fact.type] += 1

            return seconds(work)

    def parsed_facts_seconds(self) -> float:
        """The same with ``json.loads``."""
        counts: Counter[str] = Counter()

        def work() -> None:
            for path in self._corpus.files:
                with path.open("rb") as file:
                    for line in file:
                        event = json.loads(line)
                        if event["type"] != _CHUNK:
                            counts[event["type"]] += 1

        return seconds(work)

    def verify_seconds(self) -> float:
        with playhead.open_store(self._url) as store:
            return seconds(lambda: [*store.verify()])

    def verify_deep_seconds(self) -> float:
        """The same, and every message held against its chunks: what the command does."""

        def work() -> None:
            watcher = Watcher(lambda id, generation: store.session(id, generation=generation))
            found: list[object] = [*store.verify(watch=watcher.watch)]
            for info in store.sessions():
                found += watcher.discrepancies(info.id, info.generation)
            if found:
                raise RuntimeError(f"the logs are not sound: {found[0]}")

        with playhead.open_store(self._url) as store:
            return seconds(work)
