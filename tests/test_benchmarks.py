"""The benchmarks run, and what they measure on is what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from playhead.eventstore import envelope
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "benchmarks"


def made(folder: Path, layout: str, seed: int = 3) -> list[Path]:
    """The files of a small corpus, made by another process so that its modules stay out of this one."""
    program = (
        "import sys; from pathlib import Path; from corpus import corpus\n"
        f"print(*corpus(3000, {layout!r}, {seed}, Path(sys.argv[1])).files, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    return [Path(line) for line in done.stdout.split("\n") if line]


def facts(files: list[Path]) -> list[Recorded]:
    return [
        fact
        for file in files
        for line in file.read_bytes().splitlines()[1:]
        for fact in envelope.facts(line, SessionId(file.stem))
    ]


def test_one_seed_gives_one_corpus_and_another_seed_another(tmp_path: Path) -> None:
    first, again = made(tmp_path / "1", "live"), made(tmp_path / "2", "live")
    other = made(tmp_path / "3", "live", seed=4)
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]
    assert first[0].read_bytes() != other[0].read_bytes()


def test_live_and_packed_logs_hold_the_same_facts_mostly_deltas(tmp_path: Path) -> None:
    live, packed = facts(made(tmp_path, "live")), facts(made(tmp_path, "packed"))
    assert live == packed
    deltas = [fact for fact in live if "-delta" in fact.json.get("chunk", {}).get("type", "")]
    assert 0.8 < len(deltas) / len(live) < 0.9


@pytest.mark.parametrize("layout", ["live", "packed", "embedded"])
def test_a_corpus_is_sound_logs_numbered_without_gaps(tmp_path: Path, layout: str) -> None:
    for file in made(tmp_path, layout):
        header, *lines = file.read_bytes().splitlines()
        assert SessionHeader.parse(header).version == (4 if layout == "embedded" else 0)
        next_seq = 0
        for line in lines:
            view = envelope.view(line)
            assert (view.seq0, view.defect) == (next_seq, None)
            next_seq += view.n


@pytest.mark.parametrize("layout", ["live", "packed", "embedded"])
def test_both_sides_of_a_fold_come_to_the_same(tmp_path: Path, layout: str) -> None:
    program = (
        "import sys; from pathlib import Path; from corpus import corpus; import folds, playhead\n"
        "from playhead.adapters.dsh.importer import import_paths\n"
        f"logs = corpus(3000, {layout!r}, 3, Path(sys.argv[1]))\n"
        "with playhead.open_store('sqlite://') as store:\n"
        "    import_paths(store, [logs.folder])\n"
        "    for path in logs.files:\n"
        "        for projection in (*folds.FACTS, *folds.FULL):\n"
        "            header, events = folds.plain_events(\n"
        "                path, deltas=projection.deltas, without=folds.left_out(projection)\n"
        "            )\n"
        "            state = folds.advance(projection, folds.begin(projection, header), events).state\n"
        "            assert state == folds.fold(store.session(header.id), projection).state\n"
        "            assert projection.view(state)\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=FOLDER, env=env, check=True)


def test_the_benchmarks_measure_every_item_and_write_what_they_found(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    sizes = ["--events", "1000", "--peer-events", "500", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), *sizes, "--json", str(out)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    results = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert {result["item"] for result in results} == {
        *(
            "import",
            "size",
            "export",
            "facts",
            "fold",
            "full fold",
            "verify",
            "verify, deep",
            "append",
            "stream",
            "replay",
            "peers",
        )
    }
    assert all(result["ratio"] > 0 for result in results)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["playhead-benchmarks", "result.json"]
