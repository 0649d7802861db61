"""``playhead project`` killed at random moments: tables and checkpoints agree, and nothing is there twice.

``PLAYHEAD_SOAK=1`` makes many more rounds.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from children import kill_after, log, start, start_playhead, wait_for
from read_rows import everything, rows, tables
from sample_projections import Seen, seen, tally
from stores import store_address

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.projections.materialised import Materialised, ProjectedStore

ROUNDS = 200 if os.environ.get("PLAYHEAD_SOAK") == "1" else 30

PROJECT = """
import sys
sys.path.insert(0, sys.argv[3])
from sample_projections import seen, tally
from playhead import open_store
from playhead.projections import runner
from playhead.projections.materialised import Materialised

runner.BATCH_SESSIONS, runner.BATCH_ROWS = 4, 500
with open_store(sys.argv[1]) as store:
    for projection in (tally(), seen):
        each = Materialised(store, projection)
        each.rebuild() if sys.argv[2] == "rebuild" else each.catch_up()
        print(projection.name, flush=True)
"""
HELPERS = Path(__file__).resolve().parents[1] / "helpers"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with many sessions, native and imported ones, and nothing projected."""
    folder = tmp_path_factory.mktemp("filled")
    draw = random.Random(1)
    (folder / "logs").mkdir()
    for number in range(12):
        (folder / "logs" / f"i{number}.jsonl").write_bytes(log(f"i{number}", draw.choice([0, 80, 900])))
    with open_store(str(folder / "store.sqlite")) as store:
        import_paths(store, [folder / "logs"])
        for number in range(30):
            session = store.create(SessionHeader(SessionId(f"n{number}"), number))
            texts = draw.choices("abcdef", k=draw.randrange(1, 200))
            session.append([NewEvent("feedback/record", {"text": text}) for text in texts])
    return folder / "store.sqlite"


def agree(store: ProjectedStore) -> None:
    """Fail unless what readers see is what a fresh build gives, with no table left over."""
    for projection in (tally(), seen):
        each = Materialised(store, projection)
        each.catch_up()
        before = everything(store, projection.name)
        each.rebuild()
        assert everything(store, projection.name) == before
    assert len(tables(store)) == 2


def rows_are_those_of_checkpoints(store: ProjectedStore) -> None:
    """Fail unless each session has the rows that the state in its checkpoint gives, no more and no less."""
    for projection, columns in ((tally(), ("seq", "text", "times")), (seen, ("number",))):
        if Materialised(store, projection).status().state == "missing":
            continue
        shown: dict[int, list[tuple[object, ...]]] = {}
        for id, *values in rows(store, projection.tables[0].name, "session_id", *columns):
            shown.setdefault(id, []).append(tuple(values))
        for id, kept in everything(store, projection.name)["checkpoints"].items():
            assert kept is not None
            state = projection.load(kept.state)
            if isinstance(state, Seen):
                expected: list[tuple[object, ...]] = [(number + 1,) for number in range(state.events)]
            else:
                expected = [
                    (seq, *values[:2]) for seq, values in ((r.seq, r.values) for r in tally().rows(state))
                ]
            assert sorted(shown.get(id, []), key=repr) == sorted(expected, key=repr)


def one_round(filled: Path, folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    address = folder / "store.sqlite"
    shutil.copy(filled, address)
    for _ in range(draw.choice([1, 2, 3])):
        how = draw.choice(["catch up", "rebuild"])
        process = start(PROJECT, address, how, HELPERS)
        wait_for(lambda: Path(f"{address}-wal").exists(), process)
        kill_after(process, draw.uniform(0, 0.7))
        process.communicate(timeout=600)
        with open_store(str(address)) as store:
            rows_are_those_of_checkpoints(store)
            store.session(f"n{draw.randrange(30)}").append([NewEvent("feedback/record", {"text": "more"})])
    with open_store(str(address)) as store:
        agree(store)


def test_a_projection_killed_once(filled: Path, tmp_path: Path) -> None:
    one_round(filled, tmp_path, 0)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1, ROUNDS + 1))
def test_a_projection_killed_at_random_moments(filled: Path, tmp_path: Path, seed: int) -> None:
    one_round(filled, tmp_path, seed)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(ROUNDS // 3))
def test_a_projection_killed_at_random_moments_on_postgresql(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    with store_address("postgres", tmp_path) as url:
        with open_store(url) as store:
            for number in range(20):
                session = store.create(SessionHeader(SessionId(f"n{number}"), number))
                texts = draw.choices("abcdef", k=draw.randrange(1, 100))
                session.append([NewEvent("feedback/record", {"text": text}) for text in texts])
        for _ in range(3):
            process = start(PROJECT, url, draw.choice(["catch up", "rebuild"]), HELPERS)
            kill_after(process, draw.uniform(0.5, 1.5))
            process.communicate(timeout=600)
            with open_store(url) as store:
                rows_are_those_of_checkpoints(store)
                store.session(f"n{draw.randrange(20)}").append(
                    [NewEvent("feedback/record", {"text": "more"})]
                )
        with open_store(url) as store:
            agree(store)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_command_killed_at_random_moments(filled: Path, tmp_path: Path, seed: int) -> None:
    address = tmp_path / "store.sqlite"
    shutil.copy(filled, address)
    draw = random.Random(seed)
    for _ in range(draw.choice([1, 2])):
        process = start_playhead("project", *draw.choice([[], ["--rebuild"]]), store=address)
        wait_for(lambda: Path(f"{address}-wal").exists(), process)
        kill_after(process, draw.uniform(0, 2.0))
        process.communicate(timeout=600)
    with open_store(str(address)) as store:
        for each in store.projections():
            if each.projection.tables and not each.projection.on_request:
                each.catch_up()
                before = everything(store, each.projection.name)
                each.rebuild()
                assert everything(store, each.projection.name) == before
