"""Shows the whole way on the example sessions: import, list, look at one, export, compare, verify.

    python examples/demo.py FOLDER

FOLDER gets a store and the exported files. What an earlier demo left there is removed; a folder with anything
else in it is left alone. Exits 1 when a byte differs, 2 when FOLDER is not to be used.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SESSIONS = ROOT / "examples" / "sessions"
SHOWN = "pancakes-v0"

STORE = "demo.sqlite"
STORE_FILES = (STORE, f"{STORE}-wal", f"{STORE}-shm", f"{STORE}-journal")
ONE = f"{SHOWN}.jsonl.zstd"
ALL = "exported"


class Failed(Exception):
    """Something did not come out as it should; the message says what."""


def main(folder: Path) -> int:
    """Run the demonstration in ``folder``; the exit code."""
    if folder.exists() and not folder.is_dir():
        print(f"{folder} is no folder", file=sys.stderr)
        return 2
    foreign = next(not_ours(folder), None)
    if foreign is not None:
        print(f"{folder} holds {foreign}, which is not of this demo; name another folder", file=sys.stderr)
        return 2
    clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        show(folder)
    except Failed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    return 0


def not_ours(folder: Path) -> Iterator[str]:
    """The paths of what lies in ``folder`` and was not written there by a demo; a link never was."""
    ours = {*STORE_FILES, ONE, *(f"{ALL}/{file.relative_to(SESSIONS).as_posix()}" for file in originals())}
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*files, *links):
            path = (Path(place) / name).relative_to(folder).as_posix()
            if path not in ours or (Path(place) / name).is_symlink():
                yield path


def clear(folder: Path) -> None:
    """Remove what a demo left in ``folder``."""
    for name in (*STORE_FILES, ONE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / ALL, ignore_errors=True)


def show(folder: Path) -> None:
    """Run every command and compare what comes out with what went in. Raises ``Failed``."""
    files = list(originals())
    store, one, everything = folder / STORE, folder / ONE, folder / ALL
    os.environ["PLAYHEAD_STORE"] = str(store)
    say(f"{len(files)} example files: one conversation in every layout of dsh, and in Playhead's own.")
    print(f"\n$ export PLAYHEAD_STORE={shown(store)}")
    run("import", SESSIONS)
    run("sessions")
    run("show", SHOWN, "--turn", 1)
    say("The same in the log, where the call breaks off and is made again:")
    run("events", SHOWN, "--from", 9, "--to", 14)
    run("export", SHOWN, "-o", one)
    [original] = [file for file in files if SHOWN in file.parts]
    compare(original, one)
    run("export", "--all", "-o", everything)
    for file in files:
        compare(file, everything / file.relative_to(SESSIONS))
    run("verify")
    say(f"All {len(files)} files came back bit for bit, and the store is sound.")


def originals() -> Iterator[Path]:
    """The example files, in the order of their paths."""
    yield from sorted(path for path in SESSIONS.rglob("*") if path.is_file())


def compare(original: Path, copy: Path) -> None:
    """Say that two files have the same SHA-256. Raises ``Failed`` when they have not."""
    before, after = sha256(original), sha256(copy)
    name = Path(*original.relative_to(SESSIONS).parts[-2:])
    if before != after:
        raise Failed(f"{shown(copy)} is not {name}: SHA-256 {after}, was {before}")
    print(f"  same SHA-256 {before[:12]}  {name}")


def sha256(file: Path) -> str:
    """The SHA-256 of a file in hex; of a missing one a word that says so."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "missing"


def run(*words: object) -> None:
    """Run a command as a user would, and show it with what it prints. Raises ``Failed`` unless it exits 0."""
    arguments = [shown(word) if isinstance(word, Path) else str(word) for word in words]
    print(f"\n$ playhead {shlex.join(arguments)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "playhead.cli.main", *map(str, words)], cwd=ROOT).returncode
    if code != 0:
        raise Failed(f"playhead {arguments[0]} ended with exit code {code}")


def say(text: str) -> None:
    """Print a sentence between the commands."""
    print(f"\n{text}", flush=True)


def shown(path: Path) -> str:
    """The path as a user would type it: relative to where the demo was started, if it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python examples/demo.py FOLDER", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(os.path.abspath(sys.argv[1]))))
