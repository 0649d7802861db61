from __future__ import annotations

from itertools import chain

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from playhead.projections.growing import Index, Journal


@given(st.lists(st.lists(st.integers(), max_size=5)))
def test_a_journal_holds_what_was_added_in_order(parts: list[list[int]]) -> None:
    journal: Journal[int] = Journal()
    for part in parts:
        before = list(journal)
        grown = journal.plus(part)
        assert (grown is journal) == (not part)
        assert list(journal) == before
        journal = grown
    assert list(journal) == list(chain(*parts))
    assert len(journal) == sum(map(len, parts))


_keys = st.sampled_from("abcdefgh")


@given(st.lists(st.dictionaries(_keys, st.integers(), max_size=4)))
def test_an_index_gives_the_newest_value_of_a_key(parts: list[dict[str, int]]) -> None:
    index: Index[int] = Index()
    expected: dict[str, int] = {}
    for part in parts:
        grown = index.plus(part)
        assert (grown is index) == (not part)
        assert index.items() == expected
        index, expected = grown, expected | part
    assert index.items() == expected
    assert {key: index.get(key) for key in "abcdefgh"} == {key: expected.get(key) for key in "abcdefgh"}


def test_what_is_held_is_copied_a_logarithm_of_times() -> None:
    journal: Journal[int] = Journal()
    index: Index[int] = Index()
    copied = 0
    for number in range(4096):
        kept = {id(run) for run in journal.runs}
        journal, index = journal.plus([number]), index.plus({str(number): number})
        copied += sum(len(run) for run in journal.runs if id(run) not in kept)
        assert max(len(journal.runs), len(index.runs)) <= 13
    assert copied <= 4096 * 13


def test_both_come_back_from_json() -> None:
    journal = Journal[int]().plus([1, 2]).plus([3])
    index = Index[int]().plus({"a": 1, "b": 2}).plus({"a": 3})
    assert msgspec.convert(msgspec.to_builtins(journal), Journal[int]) == journal
    assert msgspec.convert(msgspec.to_builtins(index), Index[int]) == index
