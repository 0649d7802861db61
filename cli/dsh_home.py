"""Putting a log where dsh looks for it: ``DSH_HOME/sessions/PROJECT/SESSION/session.jsonl[.zstd]``.

A home holds compressed logs or plain ones, and dsh refuses a mixture; a home without logs gets compressed ones, as the
full profile of dsh writes them. dsh also refuses a session that lies in two projects, and reads the newest format of
those in one folder. So nothing is put beside another log of the same id. What is made is private, like what dsh makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from playhead.adapters.dsh import paths
from playhead.cli import output
from playhead.cli.new_file import new_file_below
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader

SESSIONS = "sessions"


def is_compressed(home: Path) -> bool:
    """Whether logs in this dsh home are compressed."""
    found = (name for _, name in _logs(home, "*"))
    return next((name.compressed for name in found), True)


def write_into(
    home: Path, header: SessionHeader, pieces: Iterable[bytes], *, compressed: bool, force: bool
) -> Path:
    """The file that now holds the ``pieces`` of the log, whose format ``header`` tells.

    Raises ``UsageError`` without a home, and where a log of this session lies in it already: with ``force`` the file
    of the same name is replaced, and never another.
    """
    if not home.is_dir():
        raise UsageError(f"{home}: no such folder; dsh makes its home when it runs for the first time")
    if not header.id:
        raise UsageError("the empty session id has no folder in a dsh home")
    name = paths.file_name(header.version, compressed=compressed)
    parts = (SESSIONS, paths.project_segment(header.cwd), paths.session_segment(header.id), name)
    file = home.joinpath(*parts)
    for other, _ in _logs(home, parts[2]):
        if other != file:
            raise UsageError(
                f"{other} is a log of the same session, and dsh would not take both; give another id"
            )
    with new_file_below(home, parts, force=force, private=True) as out:
        for piece in pieces:
            out.write(piece)
    return file


def tell_without_cwd(header: SessionHeader) -> None:
    """Say on stderr what dsh makes of a log that names no working folder: its own prompt needs one."""
    if header.cwd is None:
        output.note(
            "the session names no working folder: dsh opens it, and every turn fails; fork it with --cwd DIR"
        )


def _logs(home: Path, session: str) -> Iterator[tuple[Path, paths.LogName]]:
    """The logs of a session, or with ``*`` of all, in the order of their names."""
    for file in sorted((home / SESSIONS).glob(f"*/{session}/session.*")):
        name = paths.log_name(file.name)
        if name is not None:
            yield file, name
