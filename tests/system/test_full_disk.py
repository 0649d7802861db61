"""A disk that is full, a file that may not grow: said in one line, and what was there before is still there.

A limit on the size of files (``RLIMIT_FSIZE``) works everywhere; a small file system of one's own needs Linux and
the right to mount one.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import Ended, environment, log, playhead, tree

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths


def at_most(size: int) -> None:
    """Let no file of this (child) process grow above ``size`` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(log("a", 20))
    (folder / "b.jsonl").write_bytes(b"".join(_hard_to_compress()))
    (folder / "c.jsonl").write_bytes(log("c", 20))
    return folder


def _hard_to_compress() -> Iterator[bytes]:
    import random

    draw = random.Random(4)
    yield log("b", 0)
    for seq in range(4_000):
        text = draw.randbytes(600).hex().encode()
        yield b'{"type":"x/noise","seq":%d,"time":%d,"data":"%b"}\n' % (seq, seq, text)


def test_an_import_into_a_store_that_may_not_grow_exits_3_and_leaves_it_sound(
    tmp_path: Path, logs: Path
) -> None:
    address = tmp_path / "store.sqlite"
    with open_store(str(address)):
        pass
    ran = playhead("import", logs, store=address, before=lambda: at_most(1 << 20))
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, b"", 1)
    assert f"{address}: " in ran.err
    with open_store(str(address)) as store:
        assert [problem for problem in store.verify() if problem.severity == "error"] == []
        assert [info.id for info in store.sessions()] == ["a"]
        assert import_paths(store, [logs]).clean


def test_an_export_that_does_not_fit_leaves_no_half_file(tmp_path: Path, logs: Path) -> None:
    address, out = tmp_path / "store.sqlite", tmp_path / "out"
    assert playhead("import", logs, store=address).code == 0
    ran = playhead("export", "--all", "-o", out, store=address, before=lambda: at_most(1 << 20))
    assert ran.code == 1
    assert "b.jsonl: not written: File too large" in ran.err
    assert tree(out) == {name: data for name, data in tree(logs).items() if name != "b.jsonl"}
    ran = playhead("export", "b", "-o", tmp_path / "b", store=address, before=lambda: at_most(1 << 20))
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert not (tmp_path / "b").exists()
    assert not list(tmp_path.glob(".playhead-*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A folder on which a file system of 2 MB is mounted, for those who enter by ``on_small_disk``."""
    folder = tmp_path / "disk"
    folder.mkdir()
    trial = on_small_disk(folder, "true")
    if trial is None or trial.code != 0:
        pytest.skip("no file system of one's own can be mounted here")
    return folder


def on_small_disk(folder: Path, script: str) -> Ended | None:
    """A shell script with its own small disk at ``folder``; None where there is no way to give it one."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    command = f'mount -t tmpfs -o size=2m none "{folder}" && cd "{folder}" && {script}'
    ran = subprocess.run(
        [unshare, "--mount", "--map-root-user", "sh", "-c", command],
        env=environment(str(folder / "store.sqlite"))
        | {"PLAYHEAD": f"{sys.executable} -m playhead.cli.main"},
        capture_output=True,
        timeout=600,
        check=False,
    )
    return Ended(ran.returncode, ran.stdout, ran.stderr.decode())


def test_an_import_onto_a_full_disk_says_so_and_can_go_on_when_there_is_room(
    tmp_path: Path, logs: Path, small_disk: Path
) -> None:
    ran = on_small_disk(small_disk, f'$PLAYHEAD import "{logs}"; echo $?; cp store.sqlite* "{tmp_path}"')
    assert ran is not None
    assert ran.out.decode().splitlines() == ["3"], ran.err
    assert "the disk is full; nothing of this transaction was kept" in ran.err
    assert ran.err.count("\n") == 1
    with open_store(str(tmp_path / "store.sqlite")) as store:
        assert [problem for problem in store.verify() if problem.severity == "error"] == []
        assert [info.id for info in store.sessions()] == ["a"]
        assert import_paths(store, [logs]).clean


def test_an_export_onto_a_full_disk_leaves_no_half_file(tmp_path: Path, logs: Path, small_disk: Path) -> None:
    address = tmp_path / "store.sqlite"
    assert playhead("import", logs, store=address).code == 0
    script = f'$PLAYHEAD export --store "{address}" --all -o out; echo $?; find . -type f | sort'
    ran = on_small_disk(small_disk, script)
    assert ran is not None
    assert ran.out.decode().splitlines() == ["1", "./out/a.jsonl", "./out/c.jsonl"]
    assert "b.jsonl: not written: No space left on device" in ran.err
    for words in (f'events --store "{address}" b', "--version", "--help"):
        ran = on_small_disk(small_disk, f"yes 2> said > filler; $PLAYHEAD {words} > listing; echo $?")
        assert ran is not None
        assert (ran.out, ran.err) == (b"3\n", "playhead: No space left on device\n")
