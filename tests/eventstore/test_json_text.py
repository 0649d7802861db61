"""JSON text goes in and comes out as JavaScript has it, and nothing that JSON would change gets in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime, timezone
from enum import IntEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.eventstore import json_deep, json_text
from playhead.eventstore.errors import NotLosslessJson

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
exact_ints = st.integers(-(2**53), 2**53)
json_values = st.recursive(
    st.none() | st.booleans() | exact_ints | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("case", cases("json_losslessness", "texts"))
def test_a_text_is_read_checked_and_written_as_the_vectors_say(case: dict[str, Any]) -> None:
    if not case["parses"]:
        for parse in (json_text.parse, json_text.parse_ecma):
            with pytest.raises(ValueError, match=r"\S"):
                parse(case["text"])
        return
    json_text.parse(case["text"])
    value = json_text.parse_ecma(case["text"])
    if not case["accepted"]:
        with pytest.raises(NotLosslessJson):
            json_text.require_lossless(value)
        return
    json_text.require_lossless(value)
    assert json_text.dumps(value).decode() == case["reserialized"]


class Instance:
    """A class of the caller."""


class ListSubclass(list[Any]):
    """What Python has for both a subclass of an array and an array with an extra property."""


class IntSubclass(IntEnum):
    """A number in a box."""

    ONE = 1


def cycle(container: Any) -> Any:
    """The container with itself inside."""
    if isinstance(container, dict):
        container["self"] = container
    else:
        container.append(container)
    return container


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


shared: dict[str, Any] = {"x": 1}
MAPPED: dict[str, Callable[[], Any]] = {
    "undefined": lambda: ...,  # Python's value that is not there
    "undefined-member": lambda: {"a": ...},
    "bigint": lambda: 2**53 + 1,  # an integer that a double cannot hold
    "function": lambda: len,
    "symbol": object,  # a bare object is equal to nothing but itself
    "symbol-key": lambda: {object(): 1},
    "date": lambda: datetime(2026, 1, 1, tzinfo=timezone.utc),  # noqa: UP017
    "map": lambda: MappingProxyType({"a": 1}),  # a mapping that is no dict
    "set": lambda: {1},
    "class-instance": Instance,
    "tojson-object": lambda: {"toJSON": lambda: 1},
    "boxed-number": lambda: IntSubclass.ONE,
    "typed-array": lambda: b"\x01",
    "array-subclass": ListSubclass,
    "array-extra-property": ListSubclass,
    "cycle": lambda: cycle({}),
    "cycle-array": lambda: cycle([]),
    "shared-subtree": lambda: [shared, shared],
    "null-prototype": dict,  # every dict is one
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "negative-zero": lambda: -0.0,
    "deep-nesting": lambda: nested(50_000),
}
NOT_IN_PYTHON = {
    "sparse-array": "a Python list has no holes",
    "non-enumerable": "a dict lists all its keys",
    "getter": "a dict has no accessors",
    "throwing-getter": "a dict has no accessors",
}


@pytest.mark.parametrize("case", cases("json_losslessness", "values"))
def test_a_value_in_memory_is_accepted_as_the_vectors_say(case: dict[str, Any]) -> None:
    if case["id"] in NOT_IN_PYTHON:
        pytest.skip(NOT_IN_PYTHON[case["id"]])
    value = MAPPED[case["id"]]()
    if case["accepted"]:
        json_text.require_lossless(value)
        assert json_text.dumps(value)
    else:
        with pytest.raises(NotLosslessJson):
            json_text.require_lossless(value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "$"),
        ({"a": [1, {"b": -0.0}]}, "$.a[1].b"),
        ({"a": {"b": {1: 2}}}, "$.a.b"),
        ([[], [Fraction(1)]], "$[1][0]"),
        ([{"ok": [1]}, cycle([])], "$[1][0]"),
        ({"a": (1, 2**64 + 1)}, "$.a[1]"),
        ({"a": 10**400}, "$.a"),
    ],
)
def test_the_path_leads_to_what_json_would_change(value: Any, path: str) -> None:
    with pytest.raises(NotLosslessJson) as error:
        json_text.require_lossless(value)
    assert error.value.path == path


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**60, 10**21, 0, 0.5, (1, "x"), "\ud800", {"": None}])
def test_what_comes_back_as_it_is_is_accepted(value: Any) -> None:
    json_text.require_lossless(value)


def test_a_chain_of_100_000_objects_is_checked_and_its_end_is_named() -> None:
    value: Any = {"end": math.inf}
    for _ in range(100_000):
        value = {"k": value}
    with pytest.raises(NotLosslessJson) as error:
        json_text.require_lossless(value)
    assert error.value.path.endswith(".k.k.end")


def joined(part: Any) -> Any:
    """The value with every split character whole."""
    match part:
        case str():
            return json_text.whole(part)
        case list():
            return [joined(element) for element in part]
        case dict():
            return {joined(key): joined(member) for key, member in part.items()}
    return part


@given(json_values)
def test_what_is_written_is_read_back_split_characters_joined(value: Any) -> None:
    assert json_text.parse_ecma(json_text.dumps(value)) == joined(value)


@given(plain_values)
def test_a_plain_value_is_written_as_python_writes_it(value: Any) -> None:
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json_text.dumps(value).decode() == expected
    assert json_text._written(value) == expected


def test_every_character_is_escaped_as_python_escapes_it() -> None:
    text = "".join(chr(code) for code in range(0x3000)) + "\ufeff\uffff😀"
    assert json_text.dumps(text).decode() == json.dumps(text, ensure_ascii=False)


@given(st.integers())
def test_an_integer_is_written_with_all_its_digits(value: int) -> None:
    assert json_text.parse(json_text.dumps({"n": value})) == {"n": value}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_equal(value: float) -> None:
    assert float(json_text.number(value)) == value


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (100.0, "100"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (-1.5e300, "-1.5e+300"),
        (0.1, "0.1"),
        (0.000001, "0.000001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.25e-7, "1.25e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740993.0, "9007199254740992"),
        (4.35, "4.35"),
        (0.3 - 0.1, "0.19999999999999998"),
    ],
)
def test_a_number_is_spelled_as_in_javascript(value: float, spelling: str) -> None:
    assert json_text.number(value) == spelling
    assert json_text.dumps([value]).decode() == f"[{spelling}]"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (math.nan, ValueError),
        ([math.inf], ValueError),
        (cycle([]), ValueError),
        (cycle({"a": 1}), ValueError),
        ({1: 2}, TypeError),
        ({None: 2}, TypeError),
        ({"a": {1}}, TypeError),
        (b"x", TypeError),
        ([datetime(2026, 1, 1)], TypeError),
    ],
)
def test_what_is_no_json_is_not_written(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        json_text.dumps(value)


def test_a_mapping_and_a_tuple_are_written_like_a_dict_and_a_list() -> None:
    assert json_text.dumps(MappingProxyType({"a": (1, MappingProxyType({}))})) == b'{"a":[1,{}]}'
    assert json_text.dumps([IntSubclass.ONE, True]) == b"[1,true]"


def test_a_shared_part_is_written_twice() -> None:
    assert json_text.dumps([shared, shared, 0.5]) == b'[{"x":1},{"x":1},0.5]'


def test_invalid_utf8_is_read_as_replacement_characters() -> None:
    assert json_text.parse(b'"a\xffb"') == "a\ufffdb"


def test_integers_are_exact_to_4300_digits_and_infinite_beyond() -> None:
    assert json_text.parse("[" + "9" * 4300 + "]") == [10**4300 - 1]
    assert json_text.parse("[-" + "9" * 4301 + ",9007199254740993]") == [-math.inf, 2**53 + 1]


@pytest.mark.parametrize("parse", [json_text.parse, json_text.parse_ecma])
def test_nesting_has_no_limit(parse: Callable[[str], Any]) -> None:
    depth = 20_000
    text = '{"9":' * depth + "-0.5" + ', "b": [ ] }' * depth
    value = parse(text)
    assert json_text.dumps(value).decode() == '{"9":' * depth + "-0.5" + ',"b":[]}' * depth


@pytest.mark.parametrize("end", ["", "]" * 19_999, "]" * 20_001, "1}" + "]" * 20_000])
def test_a_deep_text_that_is_no_json_is_refused(end: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json_text.parse("[" * 20_000 + end)


def test_long_integers_are_read_in_a_deep_text_too() -> None:
    value = json_text.parse("[" * 9_000 + "9" * 5_000 + "]" * 9_000)
    for _ in range(8_999):
        (value,) = value
    assert value == [math.inf]


texts_near_json = st.one_of(
    json_values.map(json.dumps),
    json_values.map(lambda value: json.dumps(value, indent=1)),
    st.lists(st.sampled_from([*'[]{},:"', "1", "-0", "1e5", '"a"', "true", "nul", "NaN", " "])).map("".join),
)


@given(texts_near_json)
def test_reading_without_recursion_gives_what_the_decoder_gives(text: str) -> None:
    try:
        expected = json_text.exact_decoder.decode(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"\S"):
            json_deep.decode(text, json_text.exact_decoder)
    else:
        assert json_deep.decode(text, json_text.exact_decoder) == expected


@given(json_values, st.sampled_from(["", " ", "\n\t", "x", ","]), st.booleans())
def test_reading_quickly_gives_what_the_standard_decoder_gives(
    value: Any, around: str, escaped: bool
) -> None:
    text = around + json.dumps(value, ensure_ascii=escaped) + around
    _read_alike(text, text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))


@given(st.text("0123456789-+.eE", max_size=30))
def test_a_spelling_of_a_number_is_read_as_the_standard_decoder_reads_it(text: str) -> None:
    _read_alike(text, text)


def _read_alike(text: str, replaced: str) -> None:
    """As text, and as bytes, in which what is not UTF-8 is ``replaced``."""
    for given_text, standard in ((text, text), (text.encode("utf-8", "surrogatepass"), replaced)):
        try:
            wanted = json_text.exact_decoder.decode(standard)
        except json.JSONDecodeError:
            with pytest.raises(ValueError, match=r"\S"):
                json_text.parse(given_text)
        else:
            assert repr(json_text.parse(given_text)) == repr(wanted)


def test_an_ecma_reading_rounds_and_moves_index_keys_at_every_level() -> None:
    value = json_text.parse_ecma('{"b":{"x":1,"2":2,"1":3},"0":9007199254740993}')
    assert json_text.dumps(value) == b'{"0":9007199254740992,"b":{"1":3,"2":2,"x":1}}'
    assert math.copysign(1, json_text.parse_ecma("-0")) == -1


def test_stringify_is_blind_to_what_javascript_does_not_see() -> None:
    assert json_text.stringify({"b": 1.0, "3": 2**53 + 1}) == json_text.stringify({"3": 2**53, "b": 1})
    assert json_text.stringify({"a": 1, "b": 2}) != json_text.stringify({"b": 2, "a": 1})


@given(any_text)
def test_whole_joins_pairs_and_nothing_else(text: str) -> None:
    joined = json_text.whole(text)
    assert joined == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert json_text.whole(joined) == joined
