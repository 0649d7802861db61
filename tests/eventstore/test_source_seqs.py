"""Source seqs: lists, pairs and blobs stand for the same seqs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.eventstore import source_seqs
from playhead.eventstore.ids import SAFE_INTEGER

_seqs = st.integers(0, SAFE_INTEGER)
_lists = st.lists(_seqs, max_size=20) | st.lists(st.integers(0, 40), unique=True).map(sorted)


@pytest.mark.parametrize(
    ("stored", "seqs"),
    [
        ([], []),
        ([26], [26]),
        ([[12, 15]], [12, 13, 14, 15]),
        ([3, [5, 7], 9, [9, 9]], [3, 5, 6, 7, 9, 9]),
        ([5, 3], [5, 3]),
        ([1.0, [2.0, 3]], [1, 2, 3]),
    ],
)
def test_expand_takes_numbers_pairs_and_mixtures(stored: Any, seqs: list[int]) -> None:
    assert source_seqs.expand(stored) == seqs


@pytest.mark.parametrize(
    "stored",
    [
        None,
        3,
        "3",
        {},
        [-1],
        [True],
        [0.5],
        [None],
        ["1"],
        [[1]],
        [[1, 2, 3]],
        [[3, 1]],
        [[1, "2"]],
        [[[1, 2], 3]],
    ],
)
def test_expand_refuses_everything_else(stored: Any) -> None:
    with pytest.raises(ValueError, match=r"seq"):
        source_seqs.expand(stored)


@pytest.mark.parametrize(
    "stored", [[[0, SAFE_INTEGER]], [[0, 1 << 20]], [[0, 600_000], [700_000, 1_300_000]]]
)
def test_pairs_that_name_an_absurd_number_of_seqs_are_refused_before_they_take_memory(stored: Any) -> None:
    with pytest.raises(ValueError, match="more than 1048576"):
        source_seqs.expand(stored)


@pytest.mark.parametrize(
    ("seqs", "stored"),
    [
        ([], []),
        ([4, 5], [4, 5]),
        ([4, 5, 6], [[4, 6]]),
        ([1, 4, 5, 6, 8, 9], [1, [4, 6], 8, 9]),
        ([4, 5, 6, 6], [4, 5, 6, 6]),
        ([7, 4, 5, 6], [7, 4, 5, 6]),
    ],
)
def test_collapse_pairs_runs_of_three_in_an_increasing_list(seqs: list[int], stored: Any) -> None:
    assert source_seqs.collapse(seqs) == stored


@given(_lists)
def test_expanding_what_was_collapsed_gives_the_list_back(seqs: list[int]) -> None:
    assert source_seqs.expand(source_seqs.collapse(seqs)) == seqs


@pytest.mark.parametrize("case", cases("sqlite_rows", "source_event_seqs"))
def test_vector_of_a_blob(case: dict[str, Any]) -> None:
    blob = bytes.fromhex(case["blob_hex"])
    assert source_seqs.encode_varints(case["values"]) == blob
    assert source_seqs.decode_varints(blob) == case["values"]


@pytest.mark.parametrize("case", cases("sqlite_rows", "bad_source_blobs"))
def test_vector_of_a_bad_blob(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="source seq"):
        source_seqs.decode_varints(bytes.fromhex(case["blob_hex"]))


@given(st.lists(_seqs))
def test_decoding_an_encoded_blob_gives_the_list_back(seqs: list[int]) -> None:
    assert source_seqs.decode_varints(source_seqs.encode_varints(seqs)) == seqs


@given(st.binary(max_size=12))
def test_a_blob_that_decodes_is_the_one_that_is_encoded(blob: bytes) -> None:
    try:
        seqs = source_seqs.decode_varints(blob)
    except ValueError:
        return
    assert source_seqs.encode_varints(seqs) == blob


@pytest.mark.parametrize("seqs", [[-1], [SAFE_INTEGER + 1], [True], [1.5]])
def test_encoding_refuses_what_is_no_seq(seqs: Any) -> None:
    with pytest.raises(ValueError, match="no seq"):
        source_seqs.encode_varints(seqs)
