from __future__ import annotations

import json
from typing import Any

import pytest
from driver_model import Played, playing
from hypothesis import given, settings
from twins import Log

from playhead.eventstore import json_text
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempts import attempts
from playhead.projections.block_chunks import place_of
from playhead.projections.folding import fold
from playhead.projections.projection import Projection
from playhead.projections.transcript import transcript
from playhead.projections.usage import usage


def chunk(raw: bytes) -> Recorded:
    return Recorded(SessionId("s"), Seq(0), 0, "assistant/chunk", raw)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("block-start", (3, 12)),
        ("block-end", (3, 12)),
        ("text-delta", None),
        ("usage", None),
        ("finish", None),
    ],
)
def test_only_the_beginning_and_the_end_of_a_block_have_a_place(
    kind: str, place: tuple[int, int] | None
) -> None:
    event = chunk(json_text.dumps({"turn": 3, "step": 12, "chunk": {"type": kind, "index": 0}}))
    assert place_of(event) == place


@pytest.mark.parametrize(
    "raw", [b"null", b"{}", b'{"step":1,"turn":1,"chunk":{"type":"block-end","index":0}}']
)
def test_odd_spellings_have_none(raw: bytes) -> None:
    assert place_of(chunk(raw)) is None


@pytest.mark.parametrize("projection", [transcript, usage, attempts], ids=lambda each: each.name)
@settings(max_examples=40)
@given(played=playing())
def test_a_fold_does_not_depend_on_how_chunks_are_spelled(
    projection: Projection[Any], played: Played
) -> None:
    spaced = [_spaced(event) for event in played.facts]
    assert all(place_of(event) is None for event in spaced)
    told = fold(Log(played.header, tuple(played.facts)), projection).state
    assert fold(Log(played.header, tuple(spaced)), projection).state == told


def _spaced(event: Recorded) -> Recorded:
    """The same event, its JSON with blanks and escapes."""
    return Recorded(
        event.session,
        event.seq,
        event.time_ms,
        event.type,
        json.dumps(event.json, indent=1).encode(),
        event.surface_op,
        event.source_seqs,
        event.ignorable,
    )
