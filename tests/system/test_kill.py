"""Processes killed at random moments: what was acknowledged is there, and the work can go on.

``PLAYHEAD_SOAK=1`` makes many more rounds. A round names its seed, so that a failure can be tried again; the
moments themselves depend on the machine.
"""

from __future__ import annotations

import io
import os
import random
import signal
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from children import frames, kill_after, log, playhead, start, start_playhead, tree, wait_for
from scripted_server import LONG_S

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import SqlStore

ROUNDS = 200 if os.environ.get("PLAYHEAD_SOAK") == "1" else 30

APPENDER = """
import sys
from playhead import open_store
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent

with open_store(sys.argv[1]) as store:
    session = store.create(SessionHeader(SessionId("live"), 1), idem="live")
    seq = session.next_seq
    while True:
        events = [NewEvent("x/count", {"n": seq + more}) for more in range(1 + seq % 5)]
        done = session.append(events, expected_seq=seq, idem=f"from {seq}")
        seq = done.to_seq
        print(done.from_seq, done.to_seq, done.position, flush=True)
        if seq % 7 == 0:
            session.seal()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs small and large, plain and compressed, torn and broken ones among them."""
    folder = tmp_path_factory.mktemp("home")
    draw = random.Random(1)
    for number in range(40):
        content = log(f"s{number}", draw.choice([0, 5, 60, 700, 4_000]))
        if number % 4 == 0:
            content = frames(content, draw.choice([3, 400]))
        if number % 5 == 0:
            content = content[: -draw.randrange(1, 60)]
        suffix = ".zstd" if number % 4 == 0 else ""
        (folder / f"s{number}.jsonl{suffix}").write_bytes(content)
    (folder / "large.jsonl").write_bytes(log("large", 60_000))
    (folder / "large.jsonl.zstd").write_bytes(frames(log("large-too", 30_000), 200))
    (folder / "noise.jsonl").write_bytes(b"no log\n" * 1000)
    return folder


@pytest.fixture(scope="module")
def undisturbed(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The heads that an import gives which nobody disturbs."""
    with open_store(str(tmp_path_factory.mktemp("undisturbed") / "store.sqlite")) as store:
        import_paths(store, [home])
        return heads(store)


def heads(store: SqlStore) -> dict[str, str]:
    return {f"{head.id}/{head.generation}": head.head for head in store.heads() if head.id != "live"}


def exported(store: SqlStore) -> dict[str, bytes]:
    files = {}
    for file in store.files():
        out = io.BytesIO()
        assert store.export_file(file, out).same
        files[file.path] = out.getvalue()
    return files


def acknowledged(appender: subprocess.Popen[bytes]) -> list[list[int]]:
    """What the appender said to have written: first seq, next seq and position of each append."""
    out, _ = appender.communicate(timeout=LONG_S)
    whole = out[: out.rfind(b"\n") + 1].decode().splitlines()
    return [list(map(int, line.split())) for line in whole]


def require_no_traceback(process: subprocess.Popen[bytes]) -> None:
    _, err = process.communicate(timeout=LONG_S)
    assert b"Traceback" not in err, err.decode()


def check(store: SqlStore, acks: list[list[int]]) -> None:
    """Nothing acknowledged is lost, nothing is there twice, nothing is damaged."""
    assert [problem for problem in store.verify() if problem.severity == "error"] == []
    facts = list(store.read_all())
    assert [fact.position for fact in facts] == list(range(1, store.position + 1))
    live = [fact for fact in facts if fact.session == "live"]
    assert [(fact.seq, fact.data.to_json()["n"]) for fact in live] == [(n, n) for n in range(len(live))]
    if acks:
        assert len(live) >= acks[-1][1]
        assert [live[seq].position for seq, _, _ in acks] == [position for _, _, position in acks]


def one_round(home: Path, undisturbed: dict[str, str], folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    address = folder / "store.sqlite"
    acks: list[list[int]] = []
    for _ in range(draw.choice([1, 2])):
        importer = start_playhead("import", home, store=address)
        wait_for(lambda: Path(f"{address}-wal").exists(), importer)
        appender = start(APPENDER, address)
        for process in draw.sample([importer, appender], 2):
            kill_after(process, draw.uniform(0, 0.8))
        require_no_traceback(importer)
        acks += acknowledged(appender)
        with open_store(str(address)) as store:
            check(store, acks)
    with open_store(str(address)) as store:
        import_paths(store, [home])
        check(store, acks)
        assert exported(store) == tree(home)
        assert heads(store) == undisturbed


def test_an_import_and_appends_killed_once(home: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    one_round(home, undisturbed, tmp_path, 0)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1, ROUNDS + 1))
def test_an_import_and_appends_killed_at_random_moments(
    home: Path, undisturbed: dict[str, str], tmp_path: Path, seed: int
) -> None:
    one_round(home, undisturbed, tmp_path, seed)


@pytest.fixture(scope="module")
def unsealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a store of which nothing is sealed."""
    address = tmp_path_factory.mktemp("unsealed") / "store.sqlite"
    with open_store(str(address)) as store:
        for number in range(12):
            session = store.create(SessionHeader(SessionId(f"n{number}"), number))
            session.append([NewEvent("x/count", {"n": n, "text": "x" * (n % 50)}) for n in range(4_000)])
    return address.read_bytes()


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(ROUNDS // 3))
def test_sealing_killed_at_random_moments_changes_nothing_that_can_be_read(
    unsealed: bytes, tmp_path: Path, seed: int
) -> None:
    address = tmp_path / "store.sqlite"
    address.write_bytes(unsealed)
    with open_store(str(address)) as store:
        before = heads(store)
    sealing = start_playhead("store", "seal", store=address)
    wait_for(lambda: Path(f"{address}-wal").exists(), sealing)
    kill_after(sealing, random.Random(seed).uniform(0, 0.5))
    require_no_traceback(sealing)
    with open_store(str(address)) as store:
        assert [problem for problem in store.verify() if problem.severity == "error"] == []
        assert heads(store) == before
        store.seal()
        assert store.status()["unsealed_lines"] == 0
        assert heads(store) == before
        for info in store.sessions():
            counts = [fact.data.to_json()["n"] for fact in store.session(info.id).read()]
            assert counts == list(range(4_000))


@pytest.fixture(scope="module")
def imported(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The address of a store into which the home was imported."""
    address = tmp_path_factory.mktemp("imported") / "store.sqlite"
    with open_store(str(address)) as store:
        import_paths(store, [home])
    return address


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(ROUNDS // 3))
def test_an_export_killed_at_random_moments_leaves_whole_files_only(
    home: Path, imported: Path, tmp_path: Path, seed: int
) -> None:
    out = tmp_path / "out"
    exporting = start_playhead("export", "--all", "-o", out, store=imported)
    wait_for(out.is_dir, exporting)
    kill_after(exporting, random.Random(seed).uniform(0, 1.0))
    require_no_traceback(exporting)
    original = tree(home)
    for name, content in tree(out).items():
        if not name.endswith(".partial"):
            assert content == original[name]
    again = playhead("export", "--all", "--force", "-o", out, store=imported)
    assert again.code == 0, again.err
    assert {name: data for name, data in tree(out).items() if not name.endswith(".partial")} == original


def has_sessions(address: Path) -> bool:
    """Whether an import into a new store has come so far that it keeps something."""
    with (
        suppress(sqlite3.Error),  # it is not there yet, or has no tables yet
        closing(sqlite3.connect(f"file:{address}?mode=ro", uri=True)) as store,
    ):
        found: tuple[int] = store.execute("SELECT count(*) FROM session").fetchone()
        return found[0] > 0
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_import_that_is_told_to_stop_exits_130_and_leaves_the_store_sound(
    tmp_path: Path, how: signal.Signals
) -> None:
    address, logs = tmp_path / "store.sqlite", tmp_path / "logs"
    logs.mkdir()
    (logs / "a.jsonl").write_bytes(log("a", 10))
    (logs / "b.jsonl").write_bytes(log("b", 400_000))
    importer = start_playhead("import", logs, store=address)
    wait_for(lambda: has_sessions(address), importer)
    assert kill_after(importer, 0.1, how)
    out, err = importer.communicate(timeout=LONG_S)
    assert (importer.returncode, out) == (130, b"")
    assert err.decode().splitlines() == [
        "playhead: stopped; what was finished is in the store, and the same command goes on from there"
    ]
    with open_store(str(address)) as store:
        check(store, [])
        assert [file.path for file in store.files()] == ["a.jsonl"]
        assert import_paths(store, [logs]).clean
        assert exported(store) == tree(logs)
