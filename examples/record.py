"""Records the example sessions: one conversation, in every layout of dsh and as Playhead writes it itself.

    python examples/record.py [FOLDER]

FOLDER is ``examples/sessions`` by default, where the files lie in the repository. They are laid out as in the
``sessions`` folder of a dsh home, with one liberty: a home of dsh holds compressed logs or plain ones, not
both. The same program gives the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from conversation import CWD, play
from playhead import Recorded, SessionHeader
from playhead.adapters.dsh import paths
from playhead.adapters.dsh.database_writer import StoredSession, write_database
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog

FOLDER = Path(__file__).parent / "sessions"
_FIRST_MS = 1_780_300_800_000
_HOUR_MS = 3_600_000
_STORE_ID = UUID("00000000-0000-4000-8000-000000000000")

FILES = {
    "pancakes-v0-plain": ("v0", False),
    "pancakes-v0": ("v0", True),
    "pancakes-v0-ranged": ("v0-ranged", True),
    "pancakes-v1": ("v1", True),
    "pancakes-v2": ("v2", True),
    "pancakes-v3": ("v3", True),
    "pancakes-v4-plain": ("v4", False),
    "pancakes-v4": ("v4", True),
}
"""Session id -> its layout, and whether it is compressed."""

DATABASES = {"pancakes-schema-15": 15, "pancakes-schema-17": 17}
"""Session id -> the schema of the database that holds it."""

NATIVE = "native-pancakes"


class Recording(NamedTuple):
    """A session as Playhead holds it: header, events in the batches they came in, and its own lines."""

    header: SessionHeader
    batches: list[list[Recorded]]
    lines: list[bytes]


def record(session: str, start_ms: int) -> Recording:
    """Play the conversation into a new session."""
    header = SessionHeader(SessionId(session), start_ms, cwd=CWD)
    with MemoryLog(clock=lambda: start_ms) as log:
        recorded = log.create(header)
        batches = play(recorded, start_ms)
        return Recording(header, batches, [header.line(), *recorded.lines()])


def files() -> Iterator[tuple[str, bytes]]:
    """Every file as its path below the folder, and its content."""
    starts = iter(range(_FIRST_MS, _FIRST_MS + 100 * _HOUR_MS, _HOUR_MS))
    project = paths.project_segment(CWD)
    for session, (layout, compressed) in FILES.items():
        header, batches, _ = record(session, next(starts))
        name = paths.file_name(LAYOUTS[layout].version, compressed=compressed)
        path = f"{project}/{paths.session_segment(session)}/{name}"
        yield path, write_log(LAYOUTS[layout], header, batches, compressed=compressed)
    for session, schema in DATABASES.items():
        header, batches, _ = record(session, next(starts))
        yield f"schema-{schema}.db", write_database(schema, [StoredSession(header, batches)], _STORE_ID)
    native = record(NATIVE, next(starts))
    yield f"{NATIVE}.jsonl", b"".join(line + b"\n" for line in native.lines)


def main(folder: Path) -> None:
    """Write the files below ``folder``; older ones of the same name are replaced."""
    for path, content in files():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        print(f"{len(content):>6} bytes  {file}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
