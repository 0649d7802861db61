"""Where dsh puts a session: folder and file names, and what they say when read back.

    <sessions>/<project>/<session>/session[.vN].jsonl[.zstd]

``<session>`` is the id, one UTF-16 code unit after the other: ``A-Z a-z 0-9 . _ -`` stand for themselves,
any other unit becomes ``~`` and four upper-case hex digits. The whole names ``.`` and ``..`` are escaped too.
No two ids share a segment, and the empty id has none.

``<project>`` is ``_no-cwd``, or ``--`` + slug + ``--``. The slug comes from the working directory: every run
of ``/``, ``\\`` and ``:`` becomes one ``-``, other units are escaped as above, leading dashes go, an empty
slug becomes ``root``, and what is longer than 251 units is cut. Several directories may share a project.

The file is ``session.jsonl`` for format 0 and ``session.vN.jsonl`` from format 1 on; ``.zstd`` is added when
it is compressed. Source: docs/formats.md, "Places".
"""

from __future__ import annotations

import re
from typing import NamedTuple

NO_CWD = "_no-cwd"
_SLUG_UNITS = 251

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ESCAPE = re.compile(r"~([0-9A-F]{4})")
_SEPARATORS = re.compile(r"[/\\:]+")
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._-]|~[0-9A-F]{4})+")
_PROJECT = re.compile(r"--[A-Za-z0-9._~-]+--")
_FILE = re.compile(r"session(?:\.v([1-9][0-9]{0,8}))?\.jsonl(\.zstd)?")


class LogName(NamedTuple):
    """What the name of a log file says: the format version, and whether it is compressed."""

    version: int
    compressed: bool


class Place(NamedTuple):
    """Where a file lies in the layout of dsh: the two folder names above it, and its own name read."""

    project: str
    session: str
    name: LogName


def _escape(text: str) -> str:
    def units(match: re.Match[str]) -> str:
        encoded = match.group().encode("utf-16-be", "surrogatepass")
        return "".join(f"~{encoded[at]:02X}{encoded[at + 1]:02X}" for at in range(0, len(encoded), 2))

    return _UNSAFE.sub(units, text)


def session_segment(session: str) -> str:
    """The folder name of a session id. Raises ``ValueError`` for the empty id, which has none."""
    if not session:
        raise ValueError("the empty session id has no folder")
    if session in (".", ".."):
        return "~002E" * len(session)
    return _escape(session)


def session_of_segment(segment: str) -> str:
    """The session id whose folder is ``segment``. Raises ``ValueError`` when it is the folder of none."""
    if not _SEGMENT.fullmatch(segment):
        raise ValueError(f"{segment!r} is no session folder")
    units = _ESCAPE.sub(lambda unit: chr(int(unit.group(1), 16)), segment)
    session = units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    if session_segment(session) != segment:
        raise ValueError(f"{segment!r} is no session folder")
    return session


def project_segment(cwd: str | None) -> str:
    """The folder name of the project of a working directory; several directories may share one."""
    if cwd is None:
        return NO_CWD
    slug = _escape(_SEPARATORS.sub("-", cwd)).lstrip("-") or "root"
    return f"--{slug[:_SLUG_UNITS]}--"


def file_name(version: int, *, compressed: bool) -> str:
    """The name of the log file of a format version."""
    return f"session{f'.v{version}' if version else ''}.jsonl{'.zstd' if compressed else ''}"


def log_name(name: str) -> LogName | None:
    """What ``name`` says about a log file; None when dsh gives no log that name."""
    match = _FILE.fullmatch(name)
    return LogName(int(match.group(1) or 0), match.group(2) is not None) if match else None


def place(absolute: str) -> Place | None:
    """The place in the layout that a path with ``/`` between its parts ends in; None outside of it."""
    parts = absolute.rsplit("/", 3)
    if len(parts) < 3:
        return None
    project, session, name = parts[-3:]
    read = log_name(name)
    if read is None or not session or not (project == NO_CWD or _PROJECT.fullmatch(project)):
        return None
    return Place(project, session, read)
