from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.cli.safe_text import safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢 🎈", "plain é 漢 🎈"),
        ("two\nlines\ttab\r", "two\\nlines\\ttab\\r"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_controls_and_halves_are_shown_as_escapes(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_is_one_printable_line_in_utf_8(text: str) -> None:
    shown = safe(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(unit) in {"Cc", "Zl", "Zp"} for unit in shown)


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 30))
def test_a_limit_holds_for_the_escaped_text(text: str, limit: int) -> None:
    shown = safe(text, limit)
    assert len(shown) <= limit
    assert shown == safe(text) or shown.endswith("…")
