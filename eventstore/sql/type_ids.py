"""Numbers for event type names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from playhead.eventstore.sql.columns import escape
from playhead.eventstore.sql.engine import Link


class TypeIds:
    """Numbers for event type names, shared by all sessions of a store."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def ids(self, link: Link, names: Iterable[str]) -> dict[str, int]:
        """The number of each name; a name that is new gets one, which is not yet remembered."""
        found = {}
        for name in sorted(names):
            number = self._ids.get(name)
            if number is None:
                stored = escape(name)
                link.run("INSERT INTO type (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (stored,))
                number = link.one("SELECT id FROM type WHERE name = ?", (stored,))[0]
            found[name] = number
        return found

    def remember(self, ids: Mapping[str, int]) -> None:
        """Take over numbers whose transaction was committed; before that they may still be taken back."""
        self._ids.update(ids)
