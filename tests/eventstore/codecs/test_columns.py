"""Columns give their numbers back, small ones in a byte each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore.codecs import CodecError, columns

numbers = st.one_of(st.integers(0, 256), st.sampled_from([254, 255, -1]), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(numbers), st.binary(max_size=9), st.binary(max_size=9))
def test_a_column_comes_back_from_between_other_bytes(
    column: list[int], before: bytes, behind: bytes
) -> None:
    content = before + columns.pack(column) + behind
    assert columns.unpack(content, len(before)) == (column, len(content) - len(behind))


def test_a_small_number_takes_one_byte_and_a_wide_one_nine() -> None:
    empty = len(columns.pack([]))
    assert len(columns.pack([0, 1, 254])) == empty + 3
    assert len(columns.pack([255])) == len(columns.pack([-1])) == len(columns.pack([2**40])) == empty + 9


@given(st.lists(numbers, min_size=1), st.data())
def test_a_column_that_is_cut_short_is_refused(column: list[int], data: st.DataObject) -> None:
    content = columns.pack(column)
    with pytest.raises(CodecError):
        columns.unpack(content[: data.draw(st.integers(0, len(content) - 1))], 0)


def test_a_column_whose_wide_numbers_have_no_place_is_refused() -> None:
    content = bytearray(columns.pack([255, 3]))
    content[8] = 7
    with pytest.raises(CodecError, match="places"):
        columns.unpack(bytes(content), 0)
