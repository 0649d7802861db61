"""Citations inside data follow when events are numbered anew."""

from __future__ import annotations

from typing import Any

import pytest

from playhead.eventstore.cited_seqs import CITING, renumbered

NOW = {4: 14, 5: 15, 7: 17}


@pytest.mark.parametrize(
    ("type", "before", "after"),
    [
        ("session/title", {"title": "t", "messageSeqs": [4, 7]}, {"title": "t", "messageSeqs": [14, 17]}),
        ("session/title", {"messageSeqs": [4, 6]}, {"messageSeqs": [14]}),
        ("session/title-llm-request", {"messageSeqs": []}, {"messageSeqs": []}),
        ("command/done", {"sourceEventSeq": 5}, {"sourceEventSeq": 15}),
        ("command/done", {"commandId": "c", "sourceEventSeq": 6}, {"commandId": "c"}),
        (
            "compaction/prune",
            {"shadowedRange": {"start": 4, "end": 7}, "shadowedSeqs": [4, 5, 7]},
            {"shadowedRange": {"start": 14, "end": 17}, "shadowedSeqs": [14, 15, 17]},
        ),
        (
            "compaction/summary",
            {"shadowedRange": {"start": 6, "end": 7}, "shadowedSeqs": [6, 4, 7]},
            {"shadowedRange": {"start": 14, "end": 17}, "shadowedSeqs": [14, 17]},
        ),
        (
            "compaction/summary",
            {"shadowedRange": {"start": 6, "end": 6}, "shadowedSeqs": [6]},
            {"shadowedSeqs": []},
        ),
    ],
)
def test_citations_follow_and_what_is_gone_is_left_out(type: str, before: Any, after: Any) -> None:
    assert renumbered(type, before, NOW.get) == after


@pytest.mark.parametrize("data", [None, [], "x", {"messageSeqs": "4"}, {"messageSeqs": [True, -1, 0.5, "4"]}])
@pytest.mark.parametrize("type", sorted(CITING))
def test_what_is_no_seq_stays_as_it_is(type: str, data: Any) -> None:
    assert renumbered(type, data, NOW.get) == data


def test_data_that_cites_nothing_is_the_same_object() -> None:
    data = {"turn": 4, "messageSeqs": [4]}
    assert renumbered("turn/start", data, NOW.get) is data
