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
        if value is None:
            continue
        if name.endswith("_bytes"):
            shown = units.size(value)
        else:
            shown = f"{value:,}" if isinstance(value, int) else safe(str(value))
        output.line(f"{name.removesuffix('_bytes').replace('_', ' '):<16}{shown}")
    return DONE


@command("seal", of=store)
def seal(store: place.StoreOption = None) -> int:
    """Compress what was appended since the last time. Hashes, readers and exports see no difference."""
    with place.open_store(store) as held:
        sealed = held.seal()
    output.note(f"{units.count(sealed, 'session')} sealed")
    return DONE
