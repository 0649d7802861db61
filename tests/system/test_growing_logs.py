"""Logs that grow while they are imported, again and again: in the end the store has what one import gives."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import frames, log, start

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore import zstd_frames
from playhead.eventstore.sql import SqlStore

IMPORTER = """
import sys
from pathlib import Path
from playhead import open_store
from playhead.adapters.dsh.importer import import_paths

with open_store(sys.argv[1]) as store:
    rounds = 0
    print("ready", flush=True)
    while not Path(sys.argv[3]).exists():
        import_paths(store, [sys.argv[2]])
        rounds += 1
        print(rounds, flush=True)
"""


def contents(store: SqlStore) -> dict[str, object]:
    """All that may be known of the sessions and files, positions and numbers of rows left out."""
    files = {}
    for file in store.files():
        out = io.BytesIO()
        assert store.export_file(file, out).same
        files[file.path, file.version] = out.getvalue()
    sessions = {}
    for info in store.sessions(all_generations=True):
        session = store.session(info.id, generation=info.generation)
        facts = [(fact.seq, fact.time_ms, fact.type, fact.raw) for fact in session.read()]
        sessions[info.id, info.generation] = info, facts, list(session.lines())
    assert [problem for problem in store.verify() if problem.severity == "error"] == []
    return {"files": files, "sessions": sessions}


def imported_once(path: Path) -> dict[str, object]:
    with open_store("sqlite://") as store:
        import_paths(store, [path])
        return contents(store)


def pieces(content: bytes, compressed: bool, draw: random.Random) -> Iterator[bytes]:
    """The bytes of a log as it grows: whole lines or frames, and now and then a torn piece of one."""
    lines = [line + b"\n" for line in content.split(b"\n")[:-1]]
    written = [zstd_frames.write_frame(lines[0])] if compressed else [lines[0]]
    at = 1
    while at < len(lines):
        count = draw.choice([1, 1, 7, 60, 300])
        batch = b"".join(lines[at : at + count])
        written.append(zstd_frames.write_frame(batch) if compressed else batch)
        at += count
    for piece in written:
        cuts = sorted(draw.randrange(len(piece) + 1) for _ in range(draw.choice([0, 0, 1, 2])))
        for start_, end in zip([0, *cuts], [*cuts, len(piece)], strict=True):
            yield piece[start_:end]


def grown_while_imported(tmp_path: Path, events: int, seed: int) -> None:
    draw = random.Random(seed)
    logs, address, stop = tmp_path / "logs", tmp_path / "store.sqlite", tmp_path / "stop"
    logs.mkdir()
    damaged = log("damaged", events).replace(b'"turn":2}', b'"turn":2', 1) + b"a tail"
    growing = {
        logs / "plain.jsonl": list(pieces(log("plain", events), False, draw)),
        logs / "packed.jsonl.zstd": list(pieces(log("packed", events), True, draw)),
        logs / "damaged.jsonl": list(pieces(damaged + b"\n", False, draw)),
    }
    importer = start(IMPORTER, address, logs, stop)
    turns = [file for file, parts in growing.items() for _ in parts]
    draw.shuffle(turns)
    assert importer.stdout is not None
    assert importer.stdout.readline() == b"ready\n"
    for number, file in enumerate(turns):
        time.sleep(draw.choice([0, 0.002, 0.01]))
        with file.open("ab") as opened:
            opened.write(growing[file].pop(0))
        if number % (len(turns) // 8) == 0:
            assert importer.stdout.readline(), "another round is over"
    stop.touch()
    _, err = importer.communicate(timeout=300)
    assert importer.returncode == 0, err.decode()
    with open_store(str(address)) as store:
        import_paths(store, [logs])
        assert contents(store) == imported_once(logs)


def test_logs_that_grow_while_they_are_imported_give_what_one_import_gives(tmp_path: Path) -> None:
    grown_while_imported(tmp_path, 3_000, 1)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2, 8))
def test_long_logs_that_grow_while_they_are_imported_give_what_one_import_gives(
    tmp_path: Path, seed: int
) -> None:
    grown_while_imported(tmp_path, 40_000, seed)


SMALL = (
    log("small", 6).replace(b" of", "\U0001f9ff".encode())
    + b'{"type":"x/note","seq":6,"time":7,"data":"\\r"}\r\n'
)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_every_prefix_of_a_log_one_after_the_other_gives_what_the_whole_gives(
    tmp_path: Path, compressed: bool
) -> None:
    whole = frames(SMALL, 2) if compressed else SMALL
    file = tmp_path / ("small.jsonl.zstd" if compressed else "small.jsonl")
    with open_store(str(tmp_path / "store.sqlite")) as store:
        for size in range(len(whole) + 1):
            file.write_bytes(whole[:size])
            import_paths(store, [file])
            newest = next(stored for stored in store.files() if stored.newest)
            out = io.BytesIO()
            assert store.export_file(newest, out).same
            assert out.getvalue() == whole[:size]
        assert contents(store) == imported_once(file)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_each_prefix_and_then_the_whole_gives_what_the_whole_gives(tmp_path: Path, compressed: bool) -> None:
    whole = frames(SMALL, 2) if compressed else SMALL
    file = tmp_path / ("small.jsonl.zstd" if compressed else "small.jsonl")
    file.write_bytes(whole)
    expected = imported_once(file)
    for size in range(0, len(whole), 17):
        with open_store("sqlite://") as store:
            file.write_bytes(whole[:size])
            import_paths(store, [file])
            file.write_bytes(whole)
            import_paths(store, [file])
            assert contents(store) == expected
