"""``playhead store``: care of the store itself."""

from __future__ import annotations

from typing import Annotated

import typer

from playhead.cli import output, place, units
from playhead.cli.app import DONE, command, group
from playhead.cli.safe_text import safe

store = group("store", "Care of the store: its state, its schema, its compression.")


@command("status", of=store)
def status(
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    store: place.StoreOption = None,
) -> int:
    """Say what is in the store and how large it is."""
    with place.open_store(store) as held:
        figures = held.status()
    if json:
        output.json_line(figures)
        return DONE
    for name, value in figures.items():
        if value is not None:
            output.line(f"{_NAMES.get(name, name):<16}{_shown(name, value)}")
    return DONE


_NAMES = {
    "unsealed_lines": "not sealed",
    "line_bytes": "sealed, plain",
    "segment_bytes": "sealed, stored",
    "exchange_bytes": "wire, stored",
    "size_bytes": "size",
}


def _shown(name: str, value: str | int) -> str:
    if isinstance(value, str):
        return safe(value)
    return units.size(value) if name.endswith("_bytes") else f"{value:,}"


@command("upgrade", of=store)
def upgrade(store: place.StoreOption = None) -> int:
    """Bring the store to the schema of this release, in one transaction. Back it up first."""
    from playhead.eventstore.sql.upgrading import migrate

    before, after = migrate(place.store_url(store), "playhead:migrations")
    if before == after:
        output.note(f"the store has schema {after} already")
    else:
        output.note(f"the store went from schema {before} to {after}")
    return DONE


@command("seal", of=store)
def seal(store: place.StoreOption = None) -> int:
    """Compress what was appended since the last time. Hashes, readers and exports see no difference."""
    with place.open_store(store) as held:
        sealed = held.seal()
    output.note(f"{units.count(sealed, 'session')} sealed")
    return DONE
