"""Loading what other distributions add, by entry-point group.

An entry point names a module, which registers when it is imported, or a callable, which registers when it is
called. One that fails is reported as a warning and passed over: a broken plugin never stops a reader.
"""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points

VOCABULARY = "playhead.vocabulary"
"""The group of content blocks, message sources, finish and turn-end reasons, and event types."""


def load(group: str) -> None:
    """Load every entry point of ``group``, in the order of their names."""
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        _load(entry)


def _load(entry: EntryPoint) -> None:
    try:
        found = entry.load()
        if callable(found):
            found()
    except Exception as error:
        warnings.warn(
            f"the plugin {entry.name} ({entry.value}) failed to load and is left out: {error!r}",
            RuntimeWarning,
            stacklevel=2,
        )
