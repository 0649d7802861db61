"""What lies under a path that somebody wants imported.

The path may be a dsh home, a folder of sessions, one project, one session, one file, or a database. Inside a
folder the candidates are ``*.jsonl`` and ``*.jsonl.zstd`` by name, and databases of dsh by their content: the
SQLite magic, and the application id 1146308688 at byte 68. Everything else (locks, caches, unfinished
temporary files, links) is counted and left alone; links inside a folder are never followed. A file that was
named itself is always a candidate. Nothing is opened for writing, and nothing is locked.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Literal

from playhead.eventstore.findings import Finding

SQLITE_MAGIC = b"SQLite format 3\x00"
APPLICATION_ID = 1146308688
_OURS = APPLICATION_ID.to_bytes(4, "big")
_APPLICATION = slice(68, 72)
COMPANIONS = ("-wal", "-journal", "-shm")
"""What SQLite keeps beside a database; the first two hold a part of its content."""

Kind = Literal["log", "database"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file to import. ``file`` is where it is opened; ``root`` and ``path`` are what a store calls it.

    ``root`` is the absolute folder that was asked for, ``path`` the place below it, with ``/`` between parts.
    """

    root: str
    path: str
    file: str
    size_bytes: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Trouble:
    """A path that could not be looked at, and why."""

    path: str
    finding: Finding


@dataclass(slots=True)
class Discovered:
    """What was found, in the order of the names; ``ignored`` counts the files left alone."""

    candidates: list[Candidate] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    ignored: int = 0


def discover(path: str) -> Discovered:
    """The candidates at ``path``. Raises nothing: what cannot be read is among the ``troubles``."""
    found = Discovered()
    path = os.path.abspath(path)
    try:
        status = os.stat(path)
    except OSError as error:
        kind = "missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        found.troubles.append(_trouble(path, kind, error))
        return found
    except ValueError as error:
        found.troubles.append(Trouble(path, Finding("missing", f"no such path: {error}")))
        return found
    if stat.S_ISDIR(status.st_mode):
        _walk(path, found)
    elif stat.S_ISREG(status.st_mode):
        root, name = os.path.split(path)
        kind_of: Kind = "database" if _magic(path) else "log"
        found.candidates.append(Candidate(root, name, path, status.st_size, kind_of))
    else:
        found.troubles.append(Trouble(path, Finding("unreadable", "neither a file nor a folder")))
    return found


def _walk(root: str, found: Discovered) -> None:
    """Add what lies below ``root``, in the order of the names, without recursion."""
    waiting = [(root, True)]
    while waiting:
        place, is_folder = waiting.pop()
        if not is_folder:
            _add_file(root, place, found)
            continue
        try:
            with os.scandir(place) as entries:
                inside = sorted(entries, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            found.troubles.append(_trouble(place, "unreadable", error))
            continue
        for entry in inside:
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                wanted = is_folder or entry.is_file(follow_symlinks=False)
            except OSError as error:
                found.troubles.append(_trouble(entry.path, "unreadable", error))
                continue
            if wanted:
                waiting.append((entry.path, is_folder))
            else:
                found.ignored += 1


def _add_file(root: str, file: str, found: Discovered) -> None:
    name = os.path.basename(file)
    kind: Kind | None = None
    if name.endswith((".jsonl", ".jsonl.zstd")):
        kind = "log"
    elif not name.endswith((".lock", ".tmp", *COMPANIONS)) and is_database(file):
        kind = "database"
    if kind is None:
        if not _belongs_to_database(file):
            found.ignored += 1
        return
    try:
        size = os.stat(file, follow_symlinks=False).st_size
    except OSError as error:
        found.troubles.append(_trouble(file, "unreadable", error))
        return
    path = os.path.relpath(file, root).replace(os.sep, "/")
    found.candidates.append(Candidate(root, path, file, size, kind))


def _belongs_to_database(file: str) -> bool:
    """True for a companion of a database that is a candidate itself; it is taken together with it."""
    return any(file.endswith(end) and is_database(file[: -len(end)]) for end in COMPANIONS)


def is_database(file: str) -> bool:
    """True when ``file`` is a SQLite database whose first page names dsh as its application.

    The first page of a database that was never checkpointed says 0; what it is stands in the WAL.
    """
    head = _magic(file)
    if head is None:
        return False
    application = head[_APPLICATION]
    return application == _OURS or (application == bytes(4) and _wal_names_us(file + "-wal"))


def _wal_names_us(file: str) -> bool:
    """True when a WAL holds a first page that names dsh.

    A WAL is a header of 32 bytes, with the page size at byte 8, and frames: 24 bytes, of which the first four
    are the page number, and the page.
    """
    try:
        with open(file, "rb") as opened:
            page_bytes = int.from_bytes(opened.read(32)[8:12], "big")
            while len(frame := opened.read(24 + 100)) == 24 + 100:
                if frame[:4] == b"\0\0\0\x01" and frame[24:][_APPLICATION] == _OURS:
                    return True
                opened.seek(max(page_bytes - 100, 0), os.SEEK_CUR)
    except OSError:
        pass
    return False


def _magic(file: str) -> bytes | None:
    """The first 100 bytes of a SQLite database; None when ``file`` is none, or cannot be read."""
    try:
        with open(file, "rb") as opened:
            head = opened.read(100)
    except OSError:
        return None
    return head if head.startswith(SQLITE_MAGIC) and len(head) == 100 else None


def _trouble(path: str, kind: str, error: OSError) -> Trouble:
    return Trouble(path, Finding(kind, error.strerror or str(error)))
