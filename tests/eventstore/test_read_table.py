"""What a column holds of a value, and that a change is never silent."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore import json_text
from playhead.eventstore.read_table import DEPTH, KEY_BYTES, Column, fitted

_texts = st.text(st.characters(exclude_categories=()))
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts,
    lambda inner: st.lists(inner) | st.dictionaries(_texts, inner),
)


_fit = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(_fit)


def column(kind: Any, *, optional: bool = False) -> Column:
    return Column("c", kind, "a column", optional)


@given(_texts)
def test_text_stays_unless_no_database_can_hold_it(text: str) -> None:
    kept, changed = fitted(column("text"), text)
    kept.encode()
    whole = json_text.whole(text)
    unfit = [character for character in whole if character == "\0" or "\ud800" <= character <= "\udfff"]
    assert changed == bool(unfit)
    assert kept == "".join("\ufffd" if character in unfit else character for character in whole)


@given(_texts)
def test_text_of_a_key_is_short_enough_for_an_index(text: str) -> None:
    kept, changed = fitted(column("text"), text * 50, in_key=True)
    assert len(kept.encode()) <= KEY_BYTES
    assert changed or kept == json_text.whole(text * 50)


@given(st.integers())
def test_a_whole_number_stays_or_is_the_nearest_of_64_bits(number: int) -> None:
    kept, changed = fitted(column("int"), number)
    assert -(2**63) <= kept < 2**63
    assert changed == (kept != number)


@pytest.mark.parametrize("number", [10**400, -(10**400), math.inf, -math.inf])
def test_a_number_that_no_double_holds_is_the_largest_one(number: float) -> None:
    kept, changed = fitted(column("real"), number)
    assert (math.isfinite(kept), kept > 0, changed) == (True, number > 0, True)
    assert fitted(column("int"), 2**63) == (2**63 - 1, True)
    assert fitted(column("real"), 3) == (3.0, False)


@given(_json)
def test_json_that_fits_is_the_same_value(value: Any) -> None:
    kept, changed = fitted(column("json"), value)
    kept.encode()
    if not changed:
        assert json.loads(kept) == json.loads(json_text.dumps(value))


@given(st.recursive(_plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(_fit), inner)))
def test_json_without_nul_half_characters_and_infinity_always_fits(value: Any) -> None:
    kept, changed = fitted(column("json"), value)
    assert not changed
    assert json.loads(kept) == value


@pytest.mark.parametrize("text", ["\\ud800", "\\\\ud800", "\\u0000", '"', "\\", "\n", "\x1f", "é", "📝"])
def test_what_only_looks_like_an_escape_stays_as_it_is(text: str) -> None:
    kept, changed = fitted(column("json"), {text: [text]})
    assert not changed
    assert json.loads(kept) == {text: [text]}


@pytest.mark.parametrize("text", ["\ud800", "\\\ud800", "\udfff\\", "\0", "\\\0"])
def test_halves_of_characters_and_nul_are_replaced_in_json(text: str) -> None:
    kept, changed = fitted(column("json"), {"a": text})
    assert changed
    assert json.loads(kept) == {"a": text.replace("\0", "�").replace("\ud800", "�").replace("\udfff", "�")}


def test_json_that_is_nested_too_deeply_is_null() -> None:
    deep: Any = []
    for _ in range(DEPTH - 1):
        deep = [deep]
    assert fitted(column("json"), deep)[1] is False
    assert fitted(column("json"), [deep]) == ("null", True)
    assert fitted(column("json"), ["[" * 3000]) == ('["' + "[" * 3000 + '"]', False)
    assert fitted(column("json"), [math.inf]) == ("null", True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", True), ("int", 1.0), ("real", "1"), ("real", math.nan), ("text", 1), ("bool", 1), ("int", None)],
)
def test_a_value_of_another_kind_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"column c|NaN"):
        fitted(column(kind), value)


@pytest.mark.parametrize("kind", ["int", "real", "text", "bool", "json"])
def test_a_value_that_may_be_absent_is(kind: str) -> None:
    assert fitted(column(kind, optional=True), None) == (None, False)
    assert fitted(column("json"), None) == ("null", False)
