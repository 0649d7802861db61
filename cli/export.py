"""``playhead export``: what was imported, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from playhead.cli import output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command, explain
from playhead.cli.destinations import Parts, destinations, session_places
from playhead.cli.new_file import new_file, new_file_below, new_folder
from playhead.cli.progress import bar
from playhead.cli.safe_text import safe
from playhead.cli.target import GenerationOption, opened
from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import PlayheadError, UsageError

if TYPE_CHECKING:
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.artifacts import StoredFile
    from playhead.eventstore.sql.rebuilding import Rebuilt
    from playhead.eventstore.sql.sql_session import SqlSession

    _Job = tuple[Parts, Callable[[BinaryIO], Rebuilt]]
    """A place below the folder, and what writes the file that belongs there."""


@command("export")
def export(
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="A session id, the beginning of one, or a log file."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PATH", help="The file to write; with --all the folder."),
    ] = None,
    all: Annotated[
        bool,
        typer.Option(
            "--all", help="Every imported file under its relative path, and every session made here."
        ),
    ] = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="With --all: earlier versions too, as NAME.~1~, NAME.~2~ ...")
    ] = False,
    decoded: Annotated[
        bool, typer.Option("--decoded", help="The plain lines, whatever the file was.")
    ] = False,
    dsh_home: Annotated[
        Path | None,
        typer.Option("--dsh-home", metavar="DIR", help="A session made here in its place in this dsh home."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Write the original file of a session, or with --all every file.

    Without -o the bytes go to stdout. Nothing is written outside the folder that you name, through a symbolic
    link in it, or over a file that is there. Exits 1 when a file could not be given back as it was. A session
    that was made here is a log of format 0, compressed in a file NAME.jsonl.zstd. With --all it becomes ID.jsonl, or
    a name like it where an id is no safe file name.
    """
    if all:
        if session is not None or decoded or generation is not None or dsh_home is not None:
            raise UsageError("--all takes no SESSION, no --decoded, no --generation and no --dsh-home")
        if out is None:
            raise UsageError("--all needs -o FOLDER")
        return _export_all(out, versions, force, store)
    if session is None:
        raise UsageError("name a SESSION, or give --all -o FOLDER")
    if versions:
        raise UsageError("--versions goes with --all; for one session there is --generation")
    if dsh_home is not None and (out is not None or decoded):
        raise UsageError("--dsh-home is a place of its own: it takes no -o and no --decoded")
    with opened(session, generation, store) as (held, log):
        native = log.info.dialect == Native.name
        if dsh_home is not None:
            if not native:
                raise UsageError(
                    f"{session} was imported; `playhead fork` makes a session that dsh can go on with"
                )
            return _into_home(log, dsh_home, force)
        if out is None or str(out) == "-":
            rebuilt = held.export(log, sys.stdout.buffer, decoded=decoded)
        else:
            with new_file(out, force=force) as file:
                if native and not decoded and out.name.endswith(".zstd"):
                    return _copy(_pieces(log, compressed=True), file)
                rebuilt = held.export(log, file, decoded=decoded)
    if not rebuilt.same:
        output.note(f"{safe(session)}: {rebuilt.reason}")
    return DONE if rebuilt.same else FOUND_A_PROBLEM


def _pieces(log: SqlSession, *, compressed: bool) -> Iterator[bytes]:
    """The log file of a session that was made here."""
    from playhead.adapters.dsh.writer import stored_pieces

    return stored_pieces(log.header_line, log.blocks(), compressed=compressed)


def _copy(pieces: Iterable[bytes], file: BinaryIO) -> int:
    for piece in pieces:
        file.write(piece)
    return DONE


def _into_home(log: SqlSession, dsh_home: Path, force: bool) -> int:
    """Put a session that was made here where dsh finds it, and say so if dsh would not open it."""
    from playhead.adapters.dsh.acceptance import refusal
    from playhead.cli import dsh_home as homes

    compressed = homes.is_compressed(dsh_home)
    pieces = _pieces(log, compressed=compressed)
    file = homes.write_into(dsh_home, log.header, pieces, compressed=compressed, force=force)
    output.note(f"written to {safe(str(file))}")
    homes.tell_without_cwd(log.header)
    refused = refusal(log.header, log.read())
    if refused is not None:
        output.note(f"dsh will not open this log: {safe(refused)}")
    return DONE if refused is None else FOUND_A_PROBLEM


def _export_all(folder: Path, versions: bool, force: bool, store: str | None) -> int:
    with place.open_store(store) as held:
        files = held.files()
        wanted = destinations(files, versions)
        jobs = [*_imported(held, wanted), *_made_here(held, wanted)]
        new_folder(folder)
        written = problems = 0
        with bar("exporting", len(jobs)) as advance:
            for number, (parts, write) in enumerate(jobs, 1):
                shown = safe(str(Path(*parts)))
                try:
                    with new_file_below(folder, parts, force=force) as out:
                        rebuilt = write(out)
                    written += 1
                    if not rebuilt.same:
                        problems += 1
                        output.note(f"{shown}: {rebuilt.reason}")
                except (PlayheadError, OSError) as error:
                    problems += 1
                    output.note(f"{shown}: not written: {explain(error)}")
                advance(number)
    earlier = 0 if versions else len(destinations(files, versions=True)) - len(wanted)
    hint = (
        f"; {units.count(earlier, 'earlier version')} left out, --versions writes them too" if earlier else ""
    )
    output.note(f"{units.count(written, 'file')} written to {safe(str(folder))}{hint}")
    return FOUND_A_PROBLEM if problems else DONE


def _imported(held: SqlStore, wanted: Mapping[Parts, StoredFile]) -> Iterator[_Job]:
    for parts, file in wanted.items():
        yield parts, partial(held.export_file, file)


def _made_here(held: SqlStore, taken: Collection[Parts]) -> Iterator[_Job]:
    native = [info for info in held.sessions(all_generations=True) if info.dialect == Native.name]
    places = session_places([info.id for info in native], taken)
    for info in native:
        session = held.session(info.id, generation=info.generation)
        yield places[info.id], partial(held.export, session, decoded=True)
