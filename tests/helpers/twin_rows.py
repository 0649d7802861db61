"""Rows of one session in two layouts, compared: all that read tables show, but for what a layout has to change.

Seqs differ, because streams move into messages; system prompts become messages of their own; producers of injected
messages get kinds of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Any

from twins import Log

from playhead.projections import registry
from playhead.projections.folding import advance, begin, closing_events
from playhead.projections.projection import Projection, Row

PROJECTIONS = [each for each in registry.every() if each.tables and each.name != "events"]
"""All that show folded state; ``read_event`` holds the events themselves."""

UNLIKE = {
    ("read_session", "format"),
    ("read_session", "events"),
    ("read_session", "inherited_events"),
    ("read_message", "source_kind"),  # ``source`` and ``provenance`` say the same for all formats
}
KNOWN_LATER = {("read_model_call", "first_token_ms"), ("read_message", "first_token_ms")}
"""The first token is a delta: facts tell it only where streams lie inside messages."""

OF_CHUNKS = {"first_ms", "last_ms"}
"""Times of the first and the last fact: a chunk is one only where it is an event."""

CLOSERS = ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")


def rows(
    projection: Projection[Any], log: Log, *, repaired: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    """The rows of the log in order, as far as a migration keeps them."""
    events = log.events(deltas=False)
    emitted: list[Row] = []
    folded = advance(
        projection,
        begin(projection, log.header),
        chain(events, closing_events(log, log.next_seq)) if repaired else events,
        emitted=emitted,
    )
    assert folded.complete
    columns = {table.name: [column.name for column in table.columns] for table in projection.tables}
    named = [
        (row.table, dict(zip(columns[row.table], row.values, strict=True)))
        for row in (*emitted, *projection.rows(folded.state))
    ]
    return [(table, _kept(table, row)) for table, row in named if row.get("provenance") != "system-prompt"]


def _kept(table: str, row: dict[str, Any]) -> dict[str, Any]:
    kept = {
        name: value for name, value in row.items() if not name.endswith("seq") and (table, name) not in UNLIKE
    }
    if row.get("error_code") in CLOSERS:  # the wording of a repair is free, and its id ends with its seq
        kept = {name: value for name, value in kept.items() if not name.startswith("result")}
    return kept


def assert_alike(
    older: list[tuple[str, dict[str, Any]]],
    newer: list[tuple[str, dict[str, Any]]],
    free: Collection[str] = (),
) -> None:
    """No difference, but in ``free`` columns, and that the newer one may know what the older one does not."""
    assert [table for table, _ in older] == [table for table, _ in newer]
    for (table, before), (_, after) in zip(older, newer, strict=True):
        for name, value in before.items():
            if name in free or (value is None and (table, name) in KNOWN_LATER):
                continue
            assert after[name] == value, (table, name, before)
