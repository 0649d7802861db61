"""Writing files where the user said, and nowhere else.

A file appears under its name only when it is whole, and it is on the disk when the context has ended: first its bytes,
then its name, and the names of folders made for it. So neither a kill nor a loss of power leaves half of it there.
Nothing that exists is written over unless asked for, and no symbolic link below the target folder is followed: its
parts are opened one by one, relative to each other.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from playhead.eventstore.errors import UsageError


def new_folder(path: Path) -> None:
    """Make the folder ``path`` and those above it, where they are missing. Raises ``OSError``."""
    if path.is_dir():
        return
    new_folder(path.parent)
    path.mkdir()
    above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync_folder(above)
    finally:
        os.close(above)


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file to write that becomes ``path`` when the context ends well, and leaves nothing when it does not.

    Raises ``UsageError`` when ``path`` is there and may not be replaced, ``OSError`` for a missing folder.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _new_in(folder, path.name, str(path), force) as file:
            yield file
    finally:
        os.close(folder)


@contextmanager
def new_file_below(
    root: Path, parts: Sequence[str], *, force: bool, private: bool = False
) -> Iterator[BinaryIO]:
    """As ``new_file``, for the file at ``parts`` below the folder ``root``; folders on the way are made.

    Only their owner may look into what is made ``private``. Raises ``UsageError`` also for parts that would lead out of
    ``root`` or through a link.
    """
    shown = str(root.joinpath(*parts))
    if not parts or not all(map(_names_an_entry, parts)):
        raise UsageError(f"{'/'.join(parts)!r} is no place below {root}")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            folder = _enter(folder, part, shown, 0o700 if private else 0o777)
        with _new_in(folder, parts[-1], shown, force, 0o600 if private else 0o666) as file:
            yield file
    finally:
        os.close(folder)


def _names_an_entry(part: str) -> bool:
    """True when ``part`` can name something in a folder, and nothing outside of it."""
    try:
        os.fsencode(part)
    except UnicodeEncodeError:
        return False
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part


def _enter(folder: int, part: str, shown: str, mode: int) -> int:
    """The folder ``part`` in ``folder``, made if missing; ``folder`` is closed when this returns."""
    with suppress(FileExistsError):
        os.mkdir(part, mode, dir_fd=folder)
        _sync_folder(folder)
    try:
        inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise UsageError(f"{shown}: {part} is in the way, and is no folder: {error.strerror}") from error
    os.close(folder)
    return inner


@contextmanager
def _new_in(folder: int, name: str, shown: str, force: bool, mode: int = 0o666) -> Iterator[BinaryIO]:
    partial = f".playhead-{secrets.token_hex(8)}.partial"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not force:
            _claim(folder, partial, name)
        os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync_folder(folder)
    except FileExistsError:
        raise UsageError(f"{shown} is there already; --force replaces it") from None
    except IsADirectoryError:
        raise UsageError(f"{shown} is a folder") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=folder)


def _claim(folder: int, partial: str, name: str) -> None:
    """Make ``name`` a second name of ``partial``; where there are no links, an empty file.

    Raises ``FileExistsError`` when the name is taken, by a broken link as well.
    """
    try:
        os.link(partial, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder))


def _sync_folder(folder: int) -> None:
    """Returns once the names in ``folder`` are on the disk; some file systems keep them by themselves, and say so."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
