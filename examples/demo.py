"""Shows the whole way: logs in, a look at them, the same bytes out, everything verified.

    python examples/demo.py [FOLDER]

Makes FOLDER (``demo`` by default) with a dsh home of example sessions, a store and an export.
"""

from __future__ import annotations

import filecmp
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import example_logs

import playhead
from playhead import NewEvent, SessionHeader
from playhead.eventstore.ids import SessionId

MARK = ".made-by-playhead-demo"


def main(folder: Path) -> int:
    """Run the demonstration in ``folder``; 0 when every byte came back."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        print(f"{folder} holds something else; name another folder", file=sys.stderr)
        return 2
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    home, store, out = folder / "dsh-home", folder / "playhead.sqlite", folder / "out"

    files = example_logs.write_home(home)
    say(f"{len(files)} example logs lie in {home}. One of them is torn, as after a crash.")
    write_own_session(store)
    say("One more session was written straight into the store, through the Python API.")

    run(store, "import", home, expect=1)
    say("Exit code 1: the torn log was kept as it is, and said so.")
    run(store, "sessions", expect=1)
    run(store, "events", "compressed-v4", "--to", 12)
    run(store, "events", "torn-v0", "--from", 25, expect=1)
    run(store, "export", "--all", "-o", out)
    same = [filecmp.cmp(file, out / file.relative_to(home), shallow=False) for file in files]
    say(f"{sum(same)} of {len(files)} files came back with identical bytes.")
    run(store, "verify", expect=1)
    run(store, "store", "status")
    return 0 if all(same) else 1


def write_own_session(store: Path) -> None:
    """Write a session through the API: what a program of your own would do."""
    with playhead.open_store(str(store)) as opened:
        session = opened.create(SessionHeader(SessionId("written-here"), example_logs.START_MS))
        for events in example_logs.session(0).batches:
            session.append(
                [
                    NewEvent(
                        event["type"],
                        event["data"],
                        event["time"],
                        event.get("surfaceOp"),
                        event.get("sourceEventSeqs"),
                    )
                    for event in events
                ],
                expected_seq=session.next_seq,
            )


def run(store: Path, *command: object, expect: int = 0) -> None:
    """Run a command on the store and show what it prints. Another exit code than expected ends the demo."""
    words = [str(word) for word in command]
    print(f"\n$ playhead {shlex.join(words)}", flush=True)
    program = [sys.executable, "-m", "playhead.cli.main", *words]
    code = subprocess.run(program, env=os.environ | {"PLAYHEAD_STORE": str(store)}).returncode
    if code != expect:
        sys.exit(f"exit code {code} instead of {expect}")


def say(text: str) -> None:
    """Print a sentence between the commands."""
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo")))
