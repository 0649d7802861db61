"""``playhead sessions``: what is in the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import damage, output, place, table, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command, explain
from playhead.cli.progress import bar
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.log import SessionInfo
from playhead.projections.folding import advance, begin
from playhead.projections.session_list import session_list
from playhead.projections.text_filter import TextFilter
from playhead.projections.text_search import Match, best_match

if TYPE_CHECKING:
    from playhead.eventstore.sql import SqlStore


class Order(StrEnum):
    """What the list is sorted by."""

    created = "created"
    latest = "latest"
    events = "events"
    id = "id"


_BY: dict[Order, Callable[[SessionInfo], Any]] = {
    Order.created: lambda info: -info.header.created_ms,
    Order.latest: lambda info: -(info.header.created_ms if info.last_ms is None else info.last_ms),
    Order.events: lambda info: -info.events,
    Order.id: lambda info: info.id,
}


@dataclass(frozen=True)
class Line:
    """A session of the list. ``match`` is there when a text was looked for."""

    info: SessionInfo
    title: str | None
    match: Match | None = None


@command("sessions")
def sessions(
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    cwd: Annotated[str | None, typer.Option(help="Only sessions of this working directory.")] = None,
    parent: Annotated[str | None, typer.Option(help="Only children of this session.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only ids that begin so.")] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only sessions that hold this, and where; best match first."),
    ] = None,
    all_generations: Annotated[
        bool, typer.Option("--all-generations", help="Every log of an id, not only the newest.")
    ] = False,
    sort: Annotated[
        Order | None, typer.Option(help="Newest (the default), latest active, largest first, or by id.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    store: place.StoreOption = None,
) -> int:
    """List the sessions in the store, with their titles; or find those that hold a text.

    Generations are differing logs of one id; the plain id means the newest format, then the latest event.
    Exits 1 when a listed session is damaged.
    """
    wanted = None if text is None else TextFilter(text)
    with place.open_store(store) as held:
        infos = held.sessions(id_prefix=prefix, cwd=cwd, parent=parent, all_generations=all_generations)
        infos.sort(key=lambda info: (_BY[sort or Order.created](info), info.id, info.generation))
        if wanted is None:
            lines, unread = [Line(info, None) for info in infos[:limit]], False
        else:
            lines, unread = _search(held, infos, wanted)
            if sort is None:
                lines.sort(key=lambda line: line.match.rank if line.match else ())
        lines = [Line(line.info, _title(held, line.info), line.match) for line in lines[:limit]]
    if json:
        for line in lines:
            output.json_line(_as_json(line))
    elif lines:
        _show(lines)
    else:
        filtered = prefix or cwd or parent or text
        output.note("no session fits" if filtered else "no sessions yet; `playhead import` adds some")
    return FOUND_A_PROBLEM if unread or any(damaged(line.info.findings) for line in lines) else DONE


def _search(held: SqlStore, infos: list[SessionInfo], wanted: TextFilter) -> tuple[list[Line], bool]:
    """The sessions that hold the text, and whether any could not be read; which, is said on stderr."""
    found, unread = [], False
    with bar("Searching", len(infos)) as advanced:
        for at, info in enumerate(infos):
            advanced(at)
            session = held.session(info.id, generation=info.generation)
            try:
                match = best_match(session.events(deltas=False), wanted)
            except (CorruptLog, UsageError) as error:
                output.note(f"{safe(info.id)}: not searched: {explain(error)}")
                unread = True
                continue
            if match is not None:
                found.append(Line(info, None, match))
    return found, unread


_TITLING = ("session/title", "user/message")
"""The types of events that give a session its title. They say it the same way in every format."""


def _title(held: SqlStore, info: SessionInfo) -> str | None:
    """The title of a session, or what stands in for it; None for a log that has none or cannot be read."""
    session = held.session(info.id, generation=info.generation)
    try:
        return advance(
            session_list, begin(session_list, session.header), session.read(types=_TITLING)
        ).state.shown_title
    except CorruptLog:
        return None


@dataclass(frozen=True)
class _Column:
    """A column of the list; a terminal has it when it is at least so wide."""

    heading: str
    cell: Callable[[Line], str]
    least_width: int = 0


def _generation(line: Line) -> str:
    info = line.info
    return str(info.generation) if info.generations == 1 else f"{info.generation}/{info.generations}"


_LIST = (
    _Column("SESSION", lambda line: line.info.id),
    _Column(">GEN", _generation, 130),
    _Column("FORMAT", lambda line: line.info.dialect, 130),
    _Column("CREATED", lambda line: units.when(line.info.header.created_ms)),
    _Column("LAST EVENT", lambda line: units.when(line.info.last_ms), 130),
    _Column(">EVENTS", lambda line: str(line.info.events)),
    _Column(">LINES", lambda line: str(line.info.lines), 200),
    _Column("STATE", lambda line: "damaged" if damaged(line.info.findings) else "ok", 110),
    _Column("CWD", lambda line: line.info.header.cwd or "-", 200),
    _Column("TITLE", lambda line: line.title or "-"),
)
_FOUND = (
    _Column("SESSION", lambda line: line.info.id),
    _Column(">GEN", _generation, 130),
    _Column(">SEQ", lambda line: str(line.match.seq) if line.match else ""),
    _Column("TYPE", lambda line: line.match.type if line.match else "", 110),
    _Column(">EVENTS", lambda line: str(line.match.events) if line.match else ""),
    _Column("TITLE", lambda line: line.title or "-", 160),
    _Column("SNIPPET", lambda line: line.match.snippet if line.match else ""),
)


def _show(lines: list[Line]) -> None:
    columns: tuple[_Column, ...] = _FOUND if lines[0].match is not None else _LIST
    if output.on_terminal():
        width = get_terminal_size().columns
        several = any(line.info.generations > 1 for line in lines)
        hurt = any(damaged(line.info.findings) for line in lines)
        told = {">GEN": several, "STATE": hurt}
        columns = tuple(
            column for column in columns if told.get(column.heading) or column.least_width <= width
        )
    table.show(
        [column.heading for column in columns], ([column.cell(line) for column in columns] for line in lines)
    )


def _as_json(line: Line) -> dict[str, Any]:
    info, match = line.info, line.match
    header = info.header
    found: dict[str, Any] = {
        "id": info.id,
        "generation": info.generation,
        "generations": info.generations,
        "title": line.title,
        "dialect": info.dialect,
        "version": header.version,
        "createdAt": header.created_ms,
        "firstEventAt": info.first_ms,
        "lastEventAt": info.last_ms,
        "events": info.events,
        "lines": info.lines,
        "nextSeq": info.next_seq,
        "cwd": header.cwd,
        "parentSession": header.parent,
        "seedLength": header.seed_length,
        "isSeeded": header.is_seeded,
        "origin": header.origin,
        "delegationDepth": header.delegation_depth,
        "agentPreset": header.agent_preset,
        "head": info.head.hex(),
        "damaged": [damage.as_json(finding) for finding in info.findings if finding.severity == "damage"],
        "notes": [damage.as_json(finding) for finding in info.findings if finding.severity == "note"],
    }
    if match is not None:
        found["match"] = {
            "seq": match.seq,
            "type": match.type,
            "time": match.time_ms,
            "times": match.times,
            "events": match.events,
            "snippet": match.snippet,
        }
    return found
