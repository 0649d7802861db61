from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.replay.diff_words import word_changes

texts = st.text(st.sampled_from("ab \n.é\ud83d"), max_size=60) | st.text(
    st.characters(exclude_categories=()), max_size=20
)


def applied(a: str, changes: tuple[tuple[str, str, int, int], ...]) -> str:
    """``a`` with the changes made."""
    parts, at = [], 0
    for gone, new, a_at, b_at in changes:
        assert a[a_at : a_at + len(gone)] == gone
        parts += [a[at:a_at], new]
        assert sum(map(len, parts)) == b_at + len(new)
        at = a_at + len(gone)
    return "".join([*parts, a[at:]])


@given(texts, texts)
def test_the_changes_make_the_one_text_of_the_other(a: str, b: str) -> None:
    assert applied(a, word_changes(a, b)) == b


@given(texts)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert word_changes(text, text) == ()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("the answer is 41.", "the answer is 42.", [("41", "42")]),
        ("one two three", "one three", [("two ", "")]),
        ("", "new", [("", "new")]),
        ("exit code: 0\n", "exit code: 0\nok\n", [("", "ok\n")]),
        ("an old sentence here", "a new one here", [("an old sentence", "a new one")]),
        ("a.b", "a,b", [(".", ",")]),
    ],
)
def test_differences_are_told_in_words(a: str, b: str, expected: list[tuple[str, str]]) -> None:
    assert [(change.a, change.b) for change in word_changes(a, b)] == expected


def test_one_word_in_a_long_text_is_one_change() -> None:
    words = [f"word{at % 500}" for at in range(40_000)]
    a = " ".join(words)
    words[23_456] = "another"
    (change,) = word_changes(a, " ".join(words))
    assert (change.a, change.b) == (f"word{23_456 % 500}", "another")
    assert a[change.a_at :].startswith(change.a)
