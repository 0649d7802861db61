"""``playhead sessions``: what is in the store."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from playhead.cli import damage, output, place, table, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.log import SessionInfo


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


@command("sessions")
def sessions(
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    cwd: Annotated[str | None, typer.Option(help="Only sessions of this working directory.")] = None,
    parent: Annotated[str | None, typer.Option(help="Only children of this session.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only ids that begin so.")] = None,
    all_generations: Annotated[
        bool, typer.Option("--all-generations", help="Every log of an id, not only the newest.")
    ] = False,
    sort: Annotated[
        Order, typer.Option(help="Newest, latest active, largest first, or by id.")
    ] = Order.created,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    store: place.StoreOption = None,
) -> int:
    """List the sessions in the store.

    Generations are differing logs of one id; the plain id means the newest format, then the latest event.
    Exits 1 when a listed session is damaged.
    """
    with place.open_store(store) as held:
        found = held.sessions(id_prefix=prefix, cwd=cwd, parent=parent, all_generations=all_generations)
    found.sort(key=lambda info: (_BY[sort](info), info.id, info.generation))
    found = found[:limit]
    if json:
        for info in found:
            output.json_line(_as_json(info))
    elif found:
        table.show(_HEADINGS, map(_row, found))
    else:
        output.note(
            "no session fits" if prefix or cwd or parent else "no sessions yet; `playhead import` adds some"
        )
    return FOUND_A_PROBLEM if any(damaged(info.findings) for info in found) else DONE


_HEADINGS = ("SESSION", ">GEN", "FORMAT", "CREATED", "LAST EVENT", ">EVENTS", ">LINES", "STATE", "CWD")


def _row(info: SessionInfo) -> tuple[str, ...]:
    return (
        info.id,
        str(info.generation) if info.generations == 1 else f"{info.generation}/{info.generations}",
        info.dialect,
        units.when(info.header.created_ms),
        units.when(info.last_ms),
        str(info.events),
        str(info.lines),
        "damaged" if damaged(info.findings) else "ok",
        "-" if info.header.cwd is None else info.header.cwd,
    )


def _as_json(info: SessionInfo) -> dict[str, Any]:
    header = info.header
    return {
        "id": info.id,
        "generation": info.generation,
        "generations": info.generations,
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
