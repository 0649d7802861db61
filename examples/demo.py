"""Shows the whole way on the example sessions: import, look at one, export, compare, verify; replay, diff, fork, serve.

    python examples/demo.py FOLDER

FOLDER gets a store and the exported files. What an earlier demo left there is removed; a folder with anything
else in it is left alone. Exits 1 when a byte or an event differs, 2 when FOLDER is not to be used.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SESSIONS = ROOT / "examples" / "sessions"
SHOWN = "pancakes-v0"
MIGRATED = "pancakes-v4"
SERVED = ROOT / "examples" / "tour" / "shopping.jsonl"
PROMPTS = ROOT / "examples" / "shopping-script.txt"

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
        archive(folder)
        replay()
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


def archive(folder: Path) -> None:
    """Put the sessions into a store, and compare what comes out with what went in. Raises ``Failed``."""
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


def replay() -> None:
    """Play, compare, go on with and serve what is in the store. Raises ``Failed``."""
    say("The first call again, in the pieces in which it came, up to where the connection broke:")
    run("replay", SHOWN, "--as", "chunks", "--at", 12, "--speed", "max")
    say("The same conversation as a newer format has it; formats make no difference:")
    run("diff", SHOWN, MIGRATED)
    say("Another way from the middle of a turn on; what was open there is closed first:")
    run("fork", MIGRATED, "--at", 14, "--repaired", "--id", "what-if")
    run("show", "what-if")
    say("A recording in the place of the provider: an agent that asks the same is answered the same.")
    with served(SERVED) as url:
        prompts = ("--script", PROMPTS, "--tool", "read-file")
        run("run", "--base-url", url, "--model", "example-1", *prompts, "--id", "again")
    run("diff", SERVED, "again", "--chunks", "--ignore", "session")
    run("replay", "again", "--turn", 2, "--speed", "max")
    say("The second conversation equals the first, chunk by chunk. Everything came out as it should.")


@contextmanager
def served(session: Path, wait_s: float = 60) -> Iterator[str]:
    """The base URL at which a session is served until all its calls were answered. Raises ``Failed``."""
    words = ["serve", "--replay", str(session), "--match", "strict", "--once"]
    print(f"\n$ playhead serve --replay {shown(session)} --match strict --once &", flush=True)
    program = [sys.executable, "-m", "playhead.cli.main", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(program, cwd=ROOT, **pipes) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            if not url:
                raise Failed(f"playhead serve did not start: {server.communicate()[1]}")
            print(url, flush=True)
            yield url
            told = server.communicate(timeout=wait_s)[1]
        except subprocess.TimeoutExpired:
            raise Failed("playhead serve waits for calls that were never made") from None
        finally:
            server.terminate()
    print(told, end="", file=sys.stderr, flush=True)
    if server.returncode != 0:
        raise Failed(f"playhead serve ended with exit code {server.returncode}")


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
