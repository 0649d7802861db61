"""Where ``export --all`` writes: relative places for files that were imported and for sessions made here.

No two of them share a place, also where names are compared without case.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from playhead.adapters.dsh.importer import STDIN

if TYPE_CHECKING:
    from playhead.eventstore.sql.artifacts import StoredFile

Parts = tuple[str, ...]

_PLAIN = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,99}")
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")
_OTHER = re.compile(r"[^a-z0-9_-]+")


def destinations(files: Iterable[StoredFile], versions: bool = False) -> dict[Parts, StoredFile]:
    """Where each imported file goes, as the parts of a relative path.

    That is its path below the folder that was imported; where several folders were, below the deepest folder
    that holds them all. One file that was imported by way of two folders goes to one place, what was taken in
    last counts. What came from standard input goes to the folder ``stdin``. With ``versions`` the Nth earlier
    version of a file is NAME.~N~.
    """
    files = list(files)
    roots = {file.root for file in files if os.path.isabs(file.root)}
    base = os.path.commonpath(roots) if roots else ""
    same: dict[Parts, list[StoredFile]] = defaultdict(list)
    piped: list[StoredFile] = []
    for file in files:
        if file.root == STDIN:
            piped.append(file)
        else:
            same[(*_below(file.root, base), *file.path.split("/"))].append(file)
    stdin = _free("stdin", {parts[0] for parts in same})
    for file in piped:
        same[stdin, *file.path.split("/")].append(file)
    found: dict[Parts, StoredFile] = {}
    for parts, held in same.items():
        *earlier, newest = _one_of_each(held)
        found[parts] = newest
        for number, file in enumerate(earlier if versions else [], 1):
            found[*parts[:-1], f"{parts[-1]}.~{number}~"] = file
    return found


def _below(root: str, base: str) -> list[str]:
    """The parts of a folder below ``base``. A root that no import writes gives parts that nobody can write to."""
    below = os.path.relpath(root, base) if os.path.isabs(root) else root
    return [] if below == "." else below.split("/")


def _one_of_each(files: list[StoredFile]) -> list[StoredFile]:
    """What stood at one place, in the order in which it was taken in, the same bytes only once."""
    ordered = sorted(files, key=lambda file: (file.newest, file.taken_ms, file.version, file.id))
    last_of = {file.sha256: file for file in ordered}
    return [file for file in ordered if last_of[file.sha256] is file]


def _free(name: str, taken: set[str]) -> str:
    """``name``, with as many ``~`` as make it differ from all that is ``taken``, case or not."""
    folded = {other.casefold() for other in taken}
    while name in folded:
        name += "~"
    return name


def session_places(sessions: Iterable[str], taken: Iterable[Parts]) -> dict[str, Parts]:
    """Where each session that was made here goes: a name of its own in the folder, beside what is ``taken``."""
    tops = {parts[0].casefold() for parts in taken}
    places: dict[str, Parts] = {}
    for session in sessions:
        name = session_file_name(session)
        places[session] = (name if name not in tops else _hashed(session),)
    return places


def session_file_name(session: str) -> str:
    """A file name for a session id: at most 255 bytes, for no other id, also where case does not count.

    An id of up to 100 of ``a-z 0-9 . _ -`` stands for itself, unless it begins with a dot or is the name of a
    device somewhere. Of any other the readable part is followed by ``~`` and 32 hex digits of its SHA-256. The
    way back is the header of the file.
    """
    if _PLAIN.fullmatch(session) and not _DEVICES.fullmatch(session):
        return f"{session}.jsonl"
    return _hashed(session)


def _hashed(session: str) -> str:
    digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    readable = _OTHER.sub("_", session.lower())[:60].strip("_")
    return f"{readable or 'session'}~{digest}.jsonl"
