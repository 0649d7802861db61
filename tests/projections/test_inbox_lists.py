from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.projections.inbox_lists import (
    MOST_UNNAMED,
    UNNAMED,
    Lists,
    Misfit,
    Said,
    Splice,
    fitted,
    normalised,
    read,
)

SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def number(value: Any) -> float:
    return SPECIAL[value["$num"]] if isinstance(value, dict) else value


def splices() -> list[Any]:
    """The vector cases whose operation is a splice."""
    return [case for case in cases("inbox_splices", "cases") if case.values[0] is None or _is_splice(case)]


def _is_splice(case: Any) -> bool:
    return bool(case.values[0]["op"]["op"] == "splice")


@pytest.mark.parametrize("case", splices())
def test_splices_of_the_vectors(case: dict[str, Any]) -> None:
    op, expect = case["op"], case["expect"]
    lists = Lists(tuple(case["initial"]["next-turn"]), tuple(case["initial"]["next-step"]))
    length = len(lists.of(op["target"]))
    start, removed = normalised(length, number(op["start"]), number(op["deleteCount"]))
    ids = tuple(message["id"] for message in op["inserted"])
    splice, misfits = fitted(lists, Splice(op["target"], start, removed, ids))
    if "error" in expect:
        assert misfits[0].kind == expect["error"]
        return
    assert not misfits
    after, gone = lists.spliced(splice)
    assert list(gone) == expect["returns"]
    assert {"next-turn": list(after.next_turn), "next-step": list(after.next_step)} == expect["lists"]
    for event in expect["events"]:
        said = read(event)
        assert isinstance(said, Said)
        assert said.splice == splice
        assert not said.misfits
    assert bool(expect["events"]) == bool(splice.removed or splice.inserted)


@pytest.mark.parametrize("start", [-0.0, -0.5, 0.9])
def test_a_fraction_near_nothing_is_nothing(start: float) -> None:
    assert normalised(3, start, 1) == (0, 1)
    assert str(normalised(3, start, 1)[0]) == "0"


_numbers = st.floats() | st.integers(-9, 9)


@given(st.integers(0, 6), _numbers, _numbers)
def test_normalised_numbers_always_fit(length: int, start: float, delete_count: float) -> None:
    first, removed = normalised(length, start, delete_count)
    assert 0 <= first <= first + removed <= length


_ids = st.sampled_from("abcdef")
_lists = st.builds(
    lambda ids, cut: Lists(tuple(ids[:cut]), tuple(ids[cut:])), st.lists(_ids, unique=True), st.integers(0, 6)
)
_splices = st.builds(
    Splice,
    st.sampled_from(["next-turn", "next-step"]),
    st.integers(0, 8) | st.just(2**53),
    st.integers(0, 4),
    st.lists(_ids, max_size=4).map(tuple),
)


@given(_lists, _splices)
def test_the_nearest_splice_fits_and_a_splice_that_fits_is_its_own_nearest(
    lists: Lists, splice: Splice
) -> None:
    nearest, misfits = fitted(lists, splice)
    assert (nearest is splice) == (not misfits)
    assert nearest.start + nearest.removed <= len(lists.of(splice.target))
    after, removed = lists.spliced(nearest)
    assert len(removed) == nearest.removed
    named = [id for id in (*after.next_turn, *after.next_step) if id != UNNAMED]
    assert len(named) == len(set(named))
    assert {misfit.kind for misfit in misfits} <= {"invalid-splice", "duplicate-pending-id"}


def test_a_splice_behind_the_end_leaves_room_for_what_the_log_does_not_show() -> None:
    nearest, misfits = fitted(Lists(("a",)), Splice("next-turn", 3, 0, ("b",)))
    assert nearest == Splice("next-turn", 1, 0, (UNNAMED, UNNAMED, "b"))
    assert misfits[0].kind == "invalid-splice"
    assert "2 in front of it that the log does not show" in misfits[0].message


def test_a_nonsensical_start_makes_no_room() -> None:
    nearest, misfits = fitted(Lists(), Splice("next-turn", MOST_UNNAMED + 1, 0, ("b",)))
    assert nearest == Splice("next-turn", 0, 0, ("b",))
    assert "assumed its end" in misfits[0].message


@pytest.mark.parametrize(
    ("data", "kind", "splice"),
    [
        ({"target": "later", "start": 0, "inserted": []}, "malformed-splice", None),
        ({}, "malformed-splice", None),
        ({"target": "next-turn", "inserted": []}, "malformed-splice", Splice("next-turn", 0)),
        ({"target": "next-turn", "start": True, "inserted": []}, "malformed-splice", Splice("next-turn", 0)),
        ({"target": "next-turn", "start": 1.5, "inserted": []}, "malformed-splice", Splice("next-turn", 0)),
        ({"target": "next-turn", "start": -1, "inserted": []}, "invalid-splice", Splice("next-turn", 0)),
        ({"target": "next-turn", "start": 0}, "malformed-splice", Splice("next-turn", 0)),
        (
            {"target": "next-turn", "start": 0, "removedCount": None, "inserted": []},
            "malformed-splice",
            Splice("next-turn", 0),
        ),
        (
            {"target": "next-turn", "start": 0, "inserted": [{"id": ""}]},
            "malformed-splice",
            Splice("next-turn", 0, 0, (UNNAMED,)),
        ),
        (
            {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": [{"id": "a"}]},
            "unclear-outcome",
            Splice("next-turn", 0, 1, ("a",)),
        ),
        (
            {"target": "next-turn", "start": 0, "inserted": [], "outcome": "canceled"},
            "unclear-outcome",
            Splice("next-turn", 0),
        ),
        (
            {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": [], "outcome": "expired"},
            "unclear-outcome",
            Splice("next-turn", 0, 1),
        ),
    ],
)
def test_data_that_is_no_splice_is_told_apart(data: dict[str, Any], kind: str, splice: Splice | None) -> None:
    said = read(data)
    if splice is None:
        assert isinstance(said, Misfit)
        assert said.kind == kind
    else:
        assert isinstance(said, Said)
        assert [misfit.kind for misfit in said.misfits] == [kind]
        assert said.splice == splice


def test_a_whole_number_may_be_spelled_with_a_point() -> None:
    said = read({"target": "next-step", "start": 2.0, "removedCount": 1.0, "inserted": []})
    assert isinstance(said, Said)
    assert (said.splice, said.misfits, said.is_claim) == (Splice("next-step", 2, 1), [], True)
