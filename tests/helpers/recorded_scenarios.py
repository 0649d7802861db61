"""The recorded scenarios of dsh as sessions in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from exchanges import Scenario

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.log import Session


@contextmanager
def sessions_of(scenario: Scenario) -> Iterator[dict[str, Session]]:
    """Every session of the newest log of a scenario, by id."""
    names = ("after", "sessions", "sqlite")
    newest = next(scenario.folder / name for name in names if (scenario.folder / name).is_dir())
    with playhead.open_store("sqlite://", create=True) as store:
        import_paths(store, [newest])
        yield {info.id: store.session(info.id) for info in store.sessions()}
