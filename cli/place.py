"""Where the store is, and opening it.

In this order: ``--store`` behind the command, ``--store`` before it, ``PLAYHEAD_STORE``, and the SQLite file
``playhead/playhead.sqlite`` in the data folder (``XDG_DATA_HOME``, else ``~/.local/share``).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from playhead.projections.materialised import ProjectedStore

chosen: str | None = None
"""What ``playhead --store URL COMMAND`` chose; set afresh by every invocation."""

StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store, if not the usual one.")
]
"""Every command that opens a store takes this option, so that it may stand behind the command as well."""


def data_folder() -> Path:
    """The folder that holds the default store. A relative ``XDG_DATA_HOME`` does not count."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share") / "playhead"


def store_url(given: str | None = None) -> str:
    """The address of the store to use."""
    return given or chosen or os.environ.get("PLAYHEAD_STORE") or str(data_folder() / "playhead.sqlite")


def shown(url: str) -> str:
    """``url`` as it may be printed: without a password."""
    return re.sub(r"(://[^/@]*?):[^/@]*@", r"\1:***@", url)


def open_store(given: str | None = None, *, create: bool = False) -> ProjectedStore:
    """The store, opened. Only with ``create`` a missing one is made, and its folder with it.

    Raises ``StoreUnavailable``, which says which command makes or upgrades a store.
    """
    import playhead

    return playhead.open_store(store_url(given), create=create)
