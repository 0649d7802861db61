"""A log and its migrated form give the same rows in every table, but for what a migration has to change.

The pairs are those that released runtimes left behind, each source in its repaired view, and sessions of the driver
model, written in every later layout and read back. Seqs differ, because streams move into messages; system prompts
become messages of their own; producers of injected messages get kinds of their own. Nothing else may differ.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from driver_model import Played, playing
from hypothesis import given, settings
from twin_rows import OF_CHUNKS, PROJECTIONS, assert_alike, rows
from twins import Log, Twins, twins

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.projections.folding import closing_events, fold
from playhead.projections.inbox import inbox, moments
from playhead.projections.projection import Projection


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("pair", twins())
def test_a_recorded_log_and_its_migrated_form_give_the_same_rows(
    pair: Twins, projection: Projection[Any]
) -> None:
    assert_alike(rows(projection, pair.source, repaired=True), rows(projection, pair.migrated))


def test_recorded_pairs_come_from_every_older_format_and_some_end_in_a_crash() -> None:
    pairs: list[Twins] = [parameter.values[0] for parameter in twins()]
    if pairs == [None]:
        pytest.skip("the reference material is not here")
    steps = {(pair.source.header.version, pair.migrated.header.version) for pair in pairs}
    assert steps >= {(0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}
    assert any(closing_events(pair.source, pair.source.next_seq) for pair in pairs)


OTHER_LAYOUTS = [name for name, layout in LAYOUTS.items() if not layout.adds_totals]
"""The layouts that keep the figures of a session as they are."""


def written(played: Played, layout: str) -> Log:
    """The session as it comes back from a file of this layout."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "session.jsonl"
        file.write_bytes(write_log(LAYOUTS[layout], played.header, [played.facts], compressed=False))
        with playhead.open_store("sqlite://") as store:
            import_paths(store, [file])
            (info,) = store.sessions()
            session = store.session(info.id)
            return Log(session.header, tuple(session.events()))


@pytest.mark.parametrize("layout", OTHER_LAYOUTS)
@settings(max_examples=20)
@given(played=playing(steady_clock=True))
def test_a_session_gives_the_same_rows_in_every_layout(layout: str, played: Played) -> None:
    """The clock never steps back: whether it did is told by facts, and chunks are facts in some layouts only."""
    native, other = Log(played.header, tuple(played.facts)), written(played, layout)
    for projection in PROJECTIONS:
        free = OF_CHUNKS if projection.name == "session-list" else ()
        assert_alike(rows(projection, native), rows(projection, other), free)
    pending = fold(other, inbox).state
    lists = [(lists.next_turn, lists.next_step) for _, lists in moments(pending)]
    assert lists == [(lists.next_turn, lists.next_step) for _, lists in moments(fold(native, inbox).state)]
