from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.projections.provenance import Provenance, classify, is_injected, is_prompt

SYSTEM = "@deepseek-ai/dsh-system-prompt"


@pytest.mark.parametrize(
    ("early", "late", "role", "kind"),
    [
        ({"kind": "user"}, {"kind": "user", "rpcId": "r"}, "user", "prompt"),
        ({"kind": "plugin", "plugin": SYSTEM}, {"kind": "runtime-context"}, "user", "runtime-context"),
        ({"kind": "plugin", "plugin": SYSTEM}, {"kind": "system-prompt"}, "system", "system-prompt"),
        ({"kind": "plugin", "plugin": "compact"}, {"kind": "compact-checkpoint"}, "user", "checkpoint"),
        ({"kind": "plugin", "plugin": "tool-jobs"}, {"kind": "tool-jobs"}, "user", "job-notice"),
        ({"kind": "plugin", "plugin": "tool-goal"}, {"kind": "tool-goal"}, "user", "goal-notice"),
        ({"kind": "plugin", "plugin": "weather"}, {"kind": "plugin:weather"}, "user", "injected"),
    ],
)
def test_both_spellings_of_a_source_have_one_provenance(
    early: dict[str, Any], late: dict[str, Any], role: str, kind: str
) -> None:
    assert classify(early, role) == classify(late, role)
    assert classify(early, role).kind == kind


def test_labels_name_who_is_behind_a_message() -> None:
    goal = {"kind": "goal", "goalId": "g", "revision": 1, "round": 2}
    assert classify(goal) == Provenance("goal-round", "goal round 2", "g")
    assert classify({"kind": "plugin", "plugin": "weather"}).label == "injected by weather"
    assert (
        classify({"kind": "subagent-settled", "senderSessionId": "child"}).label == "subagent finished: child"
    )
    assert classify({"kind": "from-the-future"}).label == "injected by from-the-future"


@pytest.mark.parametrize("nothing", [None, 5, [], {}, {"kind": ""}, {"kind": 3}])
def test_no_source_is_an_unknown_provenance_and_no_person(nothing: Any) -> None:
    assert classify(nothing).kind == "unknown"
    assert not is_prompt(nothing)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["kind", "plugin", "round", "name"]), inner)
        ),
    ),
    st.none() | st.text(),
)
def test_any_value_is_classified_and_only_kind_user_is_a_person(source: Any, role: str | None) -> None:
    person = isinstance(source, dict) and source.get("kind") == "user"
    assert is_prompt(source) == person == (classify(source, role).kind == "prompt")
    assert not (person and is_injected(source))


def test_what_models_and_tools_say_is_not_injected() -> None:
    assert not is_injected({"kind": "model", "provider": "p", "model": "m"})
    assert not is_injected({"kind": "tool", "callId": "c"})
    assert is_injected({"kind": "goal", "goalId": "g", "revision": 1, "round": 1})
