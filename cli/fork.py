"""``playhead fork``: a session that goes on from a place in another one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from ntpath import isabs as is_absolute_on_windows
from pathlib import Path
from typing import Annotated, Any

import typer

from playhead.cli import damage, output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.new_file import new_file
from playhead.cli.safe_text import safe
from playhead.cli.target import GenerationOption, is_file, opened
from playhead.eventstore.errors import UsageError
from playhead.replay.fork import Branch, branch

_BATCH_EVENTS = 4096


@command("fork")
def fork(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="A session id, the beginning of one, or a log file.")
    ],
    at: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEQ", help="The last event to take over; if nothing is said, the last there is."
        ),
    ] = None,
    new_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The id of the new session; a random one if not given."),
    ] = None,
    repaired: Annotated[
        bool,
        typer.Option("--repaired", help="Close a turn that is open there, and end before the first damage."),
    ] = False,
    cwd: Annotated[
        str | None,
        typer.Option(
            "--cwd", metavar="DIR", help="The working folder of the new session, if not that of the original."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A log file for dsh instead: NAME.jsonl or NAME.jsonl.zstd.",
        ),
    ] = None,
    dsh_home: Annotated[
        Path | None,
        typer.Option("--dsh-home", metavar="DIR", help="A log file in its place in this dsh home instead."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="What was made, as one JSON object.")] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Make a session that goes on from a place in another one, and print its id.

    It goes into the store, or becomes a log file of format 0, which dsh resumes. The original stays as it is. Exits 1
    when it is damaged, and when dsh would not open the file.
    """
    if out is not None and dsh_home is not None:
        raise UsageError("--output and --dsh-home are two places; give one of them")
    if out is not None and not out.name.endswith((".jsonl", ".jsonl.zstd")):
        raise UsageError(f"{out}: a log file is called NAME.jsonl or NAME.jsonl.zstd")
    if force and out is None and dsh_home is None:
        raise UsageError("--force goes with --output or --dsh-home; nothing in the store is ever replaced")
    if new_id == "":
        raise UsageError("a session needs an id")
    if cwd == "":
        raise UsageError("--cwd needs a folder")
    from playhead.eventstore.sql.store import now_ms

    id = str(uuid.uuid4()) if new_id is None else new_id
    refused = None
    with (
        opened(session, generation, store) as (held, log),
        branch(log, id, now_ms(), at=at, repaired=repaired, cwd=_absolute(cwd)) as made,
    ):
        parent, file = log.id, None
        damaged = at is None and damage.tell(parent, log.info.findings)
        if out is None and dsh_home is None:
            with place.open_store(store) if is_file(session) else nullcontext(held) as target:
                target.create_from(made.header, made.blocks())
        else:
            file = _write(made, out, dsh_home, force)
            refused = _refusal(made)
    if json:
        output.json_line(_members(made, parent, file, refused))
    else:
        output.line(safe(id))
    _tell(made, file, refused)
    return FOUND_A_PROBLEM if damaged or refused else DONE


def _absolute(cwd: str | None) -> str | None:
    """``cwd`` as a header has it: absolute, on the machine where the session goes on, which may be another one."""
    return cwd if cwd is None or is_absolute_on_windows(cwd) else os.path.abspath(cwd)


def _write(made: Branch, out: Path | None, dsh_home: Path | None, force: bool) -> Path:
    """The file that the fork was written to, its token deltas in rows like those that dsh writes."""
    from playhead.adapters.dsh.writer import LAYOUTS, log_pieces
    from playhead.cli import dsh_home as homes

    def pieces(compressed: bool) -> Iterator[bytes]:
        return log_pieces(LAYOUTS["v0"], made.header, _batches(made), compressed=compressed)

    if dsh_home is not None:
        compressed = homes.is_compressed(dsh_home)
        return homes.write_into(dsh_home, made.header, pieces(compressed), compressed=compressed, force=force)
    assert out is not None
    with new_file(out, force=force) as file:
        for piece in pieces(out.name.endswith(".zstd")):
            file.write(piece)
    return out


def _batches(made: Branch) -> Iterator[list[Any]]:
    facts = made.facts()
    while batch := list(islice(facts, _BATCH_EVENTS)):
        yield batch


def _refusal(made: Branch) -> str | None:
    from playhead.adapters.dsh.acceptance import refusal

    return refusal(made.header, made.facts())


def _members(made: Branch, parent: str, file: Path | None, refused: str | None) -> dict[str, Any]:
    members: dict[str, Any] = {
        "id": made.header.id,
        "parent": parent,
        "at": made.at if made.at >= 0 else None,
        "seedLength": made.header.seed_length,
        "events": made.events,
        "closers": made.closers,
        "leftOut": made.left_out,
        "lost": made.lost,
        "file": None if file is None else str(file),
        "refused": refused,
    }
    return members


def _tell(made: Branch, file: Path | None, refused: str | None) -> None:
    if file is not None:
        from playhead.cli.dsh_home import tell_without_cwd

        output.note(f"written to {safe(str(file))}")
        tell_without_cwd(made.header)
    if made.closers:
        output.note(f"{units.count(made.closers, 'event')} added to close the turn that was open")
    if made.lost:
        output.note(f"{units.count(made.lost, 'event')} behind the damage left out")
    if refused is not None:
        output.note(f"dsh will not open this log: {safe(refused)}")
