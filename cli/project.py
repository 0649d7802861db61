"""``playhead project``: the read tables, brought up to date, made anew, or looked at."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import output, place, table, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command, explain
from playhead.cli.progress import bar
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import UsageError

if TYPE_CHECKING:
    from playhead.eventstore.sql.builds import Trouble
    from playhead.projections.materialised import Materialised, ProjectedStore, Status

_SHOWN = 20
"""So many problems are told one by one."""


@command("project")
def project(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Which projections; without it all that have read tables."),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the tables anew, beside the ones that readers see.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Change nothing: say how the tables stand.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per projection and line.")] = False,
    store: place.StoreOption = None,
) -> int:
    """Bring the read tables up to what is in the store.

    Only what is new is read, in batches; stop it at any time, and the next run goes on from there. Readers of the
    tables always see whole ones. Exits 1 when a session could not be folded, or holds events that nobody knows.
    """
    if rebuild and status:
        raise UsageError("--status changes nothing, --rebuild does: choose one")
    code = DONE
    with place.open_store(store) as held:
        chosen = _chosen(held, names or [], every=status)
        for each in chosen:
            if not status and not _run(each, rebuild):
                code = FOUND_A_PROBLEM
        found = [each.status() for each in chosen]
    _tell_troubles(found)
    if json:
        for one in found:
            output.json_line(_as_json(one))
    elif status:
        table.show(
            ["projection", "state", ">version", ">position", ">lag", ">sessions", ">rows", ">problems"],
            [_cells(one) for one in found],
        )
    else:
        rows = sum(one.rows for one in found)
        output.note(f"{units.count(len(found), 'projection')}, {units.count(rows, 'row')}")
    return FOUND_A_PROBLEM if any(one.troubles for one in found) else code


def _chosen(store: ProjectedStore, names: list[str], *, every: bool) -> list[Materialised[Any]]:
    """The projections that are meant: those named, else those with tables that need not be asked for."""
    if names:
        return [store.projection(name) for name in dict.fromkeys(names)]
    return [
        each
        for each in store.projections()
        if every or (each.projection.tables and not each.projection.on_request)
    ]


def _run(each: Materialised[Any], rebuild: bool) -> bool:
    """Bring a projection up to date. False, and the reason told, when a newer release made its tables."""
    from playhead.projections.runner import NewerTables

    with bar(each.projection.name, None) as advance:
        try:
            (each.rebuild if rebuild else each.catch_up)(advance)
        except NewerTables as error:
            output.note(explain(error))
            return False
    return True


def _tell_troubles(found: list[Status]) -> None:
    """Say on stderr what is not whole, once for all projections that stumbled over the same."""
    names: dict[str, list[str]] = {}
    for status in found:
        for trouble in status.troubles:
            names.setdefault(_sentence(trouble), []).append(status.name)
    for sentence, of in islice(names.items(), _SHOWN):
        output.note(f"{sentence} ({of[0] if len(of) == 1 else f'{len(of)} projections'})")
    if len(names) > _SHOWN:
        output.note(f"{units.count(len(names) - _SHOWN, 'more problem')}; --json lists all")


def _sentence(trouble: Trouble) -> str:
    name = trouble.session
    if trouble.generation > 1:
        name += f" generation {trouble.generation}"
    if trouble.problem is not None:
        return safe(f"session {name} could not be folded: {trouble.problem}")
    unknown = "; ".join(f"{type}, seq {seq}" for type, seq in trouble.unknown)
    return safe(f"session {name}: interpretation incomplete: {unknown}")


def _cells(status: Status) -> list[str]:
    return [
        status.name,
        status.state + (", rebuilding" if status.building and status.built_version is not None else ""),
        str(status.version),
        f"{status.position:,}",
        f"{status.lag:,}",
        f"{status.sessions:,}",
        f"{status.rows:,}",
        f"{len(status.troubles):,}",
    ]


def _as_json(status: Status) -> dict[str, Any]:
    return {
        "projection": status.name,
        "state": status.state,
        "version": status.version,
        "builtVersion": status.built_version,
        "building": status.building,
        "position": status.position,
        "lag": status.lag,
        "sessions": status.sessions,
        "rows": status.rows,
        "tables": list(status.tables),
        "problems": [_trouble_as_json(trouble) for trouble in status.troubles],
    }


def _trouble_as_json(trouble: Trouble) -> dict[str, Any]:
    found: dict[str, Any] = {"session": trouble.session, "generation": trouble.generation}
    if trouble.problem is not None:
        found["problem"] = trouble.problem
    if trouble.unknown:
        found["unknown"] = [{"type": type, "seq": seq} for type, seq in trouble.unknown]
    return found
