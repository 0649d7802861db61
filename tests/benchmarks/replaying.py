"""Playing one call out of a very long session: how long until its first chunk, in how much memory, reading how much.

One session holds all the events. A process of its own opens the store and asks for calls at random places, each by turn
and step as a person would; what it found is compared with a second and with 200 MB. So is the command, from its start
to its first line. Verification of the messages is measured on the same session, against the import of it.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from corpus import one_session
from measure import Result, Target, medians, seconds

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.replay.attempt import attempt_of
from playhead.replay.verify import discrepancies

LAYOUTS = ("live", "embedded")
_CALLS = 9
"""How many calls are asked for in a round."""

_FIRST_CHUNK = Target(1.0, 0.5, less_is_better=True)
_MEMORY = Target(1.0, 0.5, less_is_better=True)
_SECOND, _MEGABYTES = 1.0, 200.0
"""What a first chunk may take."""


class _Counted:
    """A session that counts the events which it hands out."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self.header = session.header
        self.next_seq = session.next_seq
        self.events_read = 0

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        for event in self._session.events(from_seq, to_seq, deltas=deltas, without=without):
            self.events_read += 1
            yield event


def results(events: int, layout: str, seed: int, folder: Path, rounds: int) -> Iterator[Result]:
    """What was measured for one session of so many events."""
    log = one_session(events, layout, seed)
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder / 'store.db'}"
    with playhead.open_store(url, create=True) as store:
        import_seconds = seconds(lambda: import_paths(store, [log]))
        session_id = store.sessions()[0].id
        *_, last = store.session(session_id).read(types=("turn/start",))
    found = [_asked(url, seed + number) for number in range(rounds)]
    slowest = max(first for one in found for first in one.first_chunk_s)
    peak = max(one.peak_mb for one in found)
    read = max(one.events_read for one in found)
    stored = found[0].events
    yield Result(
        "replay", f"replay, first chunk, {layout}", slowest, _SECOND, "s", slowest / _SECOND, _FIRST_CHUNK
    )
    yield Result("replay", f"replay, memory, {layout}", peak, _MEGABYTES, "MB", peak / _MEGABYTES, _MEMORY)
    yield Result("replay", f"replay, events read, {layout}", read, stored, "events", read / stored, None)
    played = [_played(url, session_id, last.json["turn"]) for _ in range(rounds)]
    taken_s, peak = (median(figures) for figures in zip(*played, strict=True))
    what = f"replay command, first line, {layout}"
    yield Result("replay", what, taken_s, _SECOND, "s", taken_s / _SECOND, _FIRST_CHUNK)
    what = f"replay command, memory, {layout}"
    yield Result("replay", what, peak, _MEGABYTES, "MB", peak / _MEGABYTES, _MEMORY)
    with playhead.open_store(url) as store:
        session = store.session(session_id)

        def re_assembled() -> float:
            return seconds(lambda: [*discrepancies(session)])

        taken = medians(rounds, {"ours": re_assembled})["ours"]
    megabytes = log.stat().st_size / 1e6
    rates = megabytes / taken, megabytes / import_seconds
    yield Result("replay", f"re-assemble, {layout}", *rates, "MB/s", rates[0] / rates[1], None)


class _Asked(NamedTuple):
    """What one process found that asked for calls of a session with so many ``events``."""

    first_chunk_s: list[float]
    peak_mb: float
    events_read: int
    events: int


def _asked(url: str, seed: int) -> _Asked:
    """What a process of its own found."""
    done = subprocess.run(
        [sys.executable, __file__, url, str(seed)], stdout=subprocess.PIPE, text=True, check=True
    )
    return _Asked(**json.loads(done.stdout))


def _played(url: str, session: str, turn: int) -> tuple[float, float]:
    """Seconds until the command shows the first line of a turn, and the most megabytes it held by then."""
    words = ["replay", session, "--store", url, "--turn", str(turn), "--as", "chunks"]
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "playhead.cli.main", *words], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        taken_s = time.perf_counter() - begin
        peak_mb = _peak_mb(str(process.pid))
        process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"the command ended with {process.returncode}")
    return taken_s, peak_mb


def _ask(url: str, seed: int) -> None:
    """Ask for calls at random places of the one session in the store, and print what it took."""
    rng = random.Random(seed)
    first_chunk_s: list[float] = []
    most = 0
    with playhead.open_store(url) as store:
        stored = store.session(store.sessions()[0].id)
        for _ in range(_CALLS):
            near = rng.randrange(stored.next_seq)
            turn = max(
                (fact.json["turn"] for fact in stored.read(near, near + 2000, types=("turn/start",))),
                default=1,
            )
            session = _Counted(stored)
            begin = time.perf_counter()
            attempt = attempt_of(session, turn, 1)
            assert attempt is not None
            next(attempt.chunks())
            first_chunk_s.append(time.perf_counter() - begin)
            most = max(most, session.events_read)
        print(json.dumps(_Asked(first_chunk_s, _peak_mb(), most, stored.next_seq)._asdict()))


def _peak_mb(process: str = "self") -> float:
    """The most memory that a process has held; on Linux what it took over from its parent does not count."""
    status = Path("/proc") / process / "status"
    if status.is_file():
        kilobytes = next(
            (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")), "0"
        )
        return int(kilobytes) / 1024
    who = resource.RUSAGE_SELF if process == "self" else resource.RUSAGE_CHILDREN
    return resource.getrusage(who).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    _ask(sys.argv[1], int(sys.argv[2]))
