"""Session statistics: the vectors, what the original counted in recorded logs, and migrated twins."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from reference import cases, shared_path
from session_logs import recorded
from twins import Log, Twins, read_log, twins

from playhead.projections.folding import fold
from playhead.projections.session_stats import SessionStats, session_stats


@pytest.mark.parametrize("case", cases("projections", "sessionStats"))
def test_vector(case: dict[str, Any]) -> None:
    state = fold(Log.of(recorded(case["events"])), session_stats).state
    assert msgspec.to_builtins(state) == case["state"]
    assert session_stats.view(state) == case["view"]


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_a_recorded_log_has_the_figures_of_the_original(case: dict[str, Any]) -> None:
    state = fold(read_log(shared_path(case["corpus"])), session_stats).state
    assert session_stats.view(state) == case["stats"]


@pytest.mark.parametrize("pair", twins())
def test_a_migrated_log_has_the_figures_of_its_source(pair: Twins) -> None:
    source = fold(pair.source, session_stats, repaired=True).state
    assert session_stats.view(fold(pair.migrated, session_stats).state) == session_stats.view(source)


def test_the_first_token_of_a_failed_attempt_is_the_first_of_its_step() -> None:
    stream = [{"type": "text-chunks", "time0": 120, "index": 0, "dt": [5], "texts": ["", "a"]}]
    place = {"turn": 1, "step": 1}
    facts = recorded(
        [
            {"type": "step/start", "seq": 0, "time": 100, "data": place},
            {"type": "assistant/attempt", "seq": 1, "time": 130, "data": {**place, "stream": stream}},
            {
                "type": "assistant/message",
                "seq": 2,
                "time": 200,
                "data": {**place, "message": {}, "usage": {"outputTokens": 4}, "stream": stream},
                "surfaceOp": "append",
            },
        ]
    )
    assert fold(Log.of(facts), session_stats).state == SessionStats(
        llm_ms=100, ttft_ms=25, ttft_steps=1, decode_ms=75, decode_tokens=4
    )
