"""One event appended and durable, against one write of as many bytes and ``fdatasync``."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Result, Target

import playhead

_PER_ROUND = 60
_TARGET = Target(3, 1.5, less_is_better=True)


def results(folder: Path, rounds: int) -> Iterator[Result]:
    """The medians over all appends; the two sides take turns append by append."""
    folder.mkdir(parents=True, exist_ok=True)
    header = playhead.SessionHeader(id=playhead.SessionId("appended"), created_ms=1_790_000_000_000)
    data = {"turn": 1, "step": 1, "note": "x" * 120}
    ours: list[float] = []
    reference: list[float] = []
    file = os.open(folder / "plain.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with playhead.open_store(str(folder / "appended.db")) as store, store.create(header) as session:
            for number in range(rounds * _PER_ROUND):
                event = playhead.NewEvent("bench/note", data)
                begin = time.perf_counter()
                session.append([event], expected_seq=number)
                between = time.perf_counter()
                os.write(file, event.line(number, 1_790_000_000_000) + b"\n")
                os.fdatasync(file)
                ours.append(between - begin)
                reference.append(time.perf_counter() - between)
    finally:
        os.close(file)
    ours_us, reference_us = statistics.median(ours) * 1e6, statistics.median(reference) * 1e6
    what = "durable append of one event"
    yield Result("append", what, ours_us, reference_us, "µs", ours_us / reference_us, _TARGET)
