"""Text laid out as it comes: the same whatever the pieces, within the width, and safe for a terminal."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from playhead.cli.replay_flow import Flow

WIDTH = 40


def screen(written: str) -> list[str]:
    """What a terminal shows, where each character has one cell: it moves back, and wipes the rest of a line."""
    lines = [""]
    for part in re.findall(r"\x1b\[\d+D|\x1b\[K|\n|[^\x1b\n]+", written):
        if part == "\n":
            lines.append("")
        elif part.startswith("\x1b") and part != "\x1b[K":
            lines[-1] = lines[-1][: -int(part[2:-1])]
        elif part != "\x1b[K":
            lines[-1] += part
    return [line.rstrip() for line in lines]


def flowed(pieces: list[str], *, width: int | None = WIDTH, lead: str = "  ", rubs_out: bool = True) -> str:
    flow = Flow(width, rubs_out=rubs_out)
    return flow.begin(lead) + "".join(map(flow.feed, pieces)) + flow.end()


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


words = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=12)
prose = st.lists(words | st.sampled_from(["\n", "\n\n", "\r\n", "  ", "\t"]), max_size=30).map(" ".join)
anything = st.text(st.characters(exclude_categories=()), max_size=60)
places = st.lists(st.integers(0, 1000), max_size=20)


@given(prose, places)
def test_a_terminal_shows_the_same_whatever_the_pieces(text: str, at: list[int]) -> None:
    assert screen(flowed(cut(text, at))) == screen(flowed([text]))


@given(anything, places)
def test_without_wrapping_the_very_same_is_written_whatever_the_pieces(text: str, at: list[int]) -> None:
    assert flowed(cut(text, at), width=None) == flowed([text], width=None)


@given(anything, places, st.booleans(), st.integers(1, 60))
def test_no_line_is_wider_than_it_may_be_and_nothing_controls_the_terminal(
    text: str, at: list[int], rubs_out: bool, width: int
) -> None:
    written = flowed(cut(text, at), width=width, rubs_out=rubs_out)
    written.encode()  # no half characters
    plain = re.sub(r"\x1b\[\d+D\x1b\[K", "", written) if rubs_out else written
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", plain)
    if rubs_out is False:
        assert all(cell_len(line) <= max(width, 20) for line in written.split("\n"))


@given(prose, places, st.booleans())
def test_every_word_is_there_in_its_order(text: str, at: list[int], rubs_out: bool) -> None:
    shown = "".join(screen(flowed(cut(text, at), rubs_out=rubs_out)))
    assert shown.replace(" ", "") == "".join(text.split())


def test_a_word_that_grows_too_long_for_its_line_moves_to_the_next_one() -> None:
    written = flowed(["twenty-five cells in this ", "grow", "ing word"], width=32)
    assert screen(written) == ["  twenty-five cells in this", "  growing word", ""]
    assert "\x1b[4D\x1b[K" in written


def test_where_nothing_can_be_rubbed_out_the_word_is_broken() -> None:
    written = flowed(["twenty-five cells in this ", "grow", "ing word"], width=32, rubs_out=False)
    assert written == "  twenty-five cells in this grow\n  ing word\n"


def test_lines_keep_their_indent_and_blank_lines_at_the_ends_are_left_out() -> None:
    assert (
        flowed(["\n\n  def f():\n", "      pass\n\n", "x  y  \n"]) == "    def f():\n        pass\n\n  x  y\n"
    )


def test_a_lead_stands_in_front_of_every_line() -> None:
    flow = Flow(24)
    written = flow.begin("  │ ") + flow.feed("one two three four five\n\nsix") + flow.end()
    assert written == "  │ one two three four\n  │ five\n  │\n  │ six\n"


def test_text_goes_on_behind_a_beginning_and_its_next_lines_are_indented() -> None:
    flow = Flow(30)
    written = flow.begin("      ", first="  ▸ bash  ", painted="  ▸ bash  ")
    written += flow.feed('{"command": "ls -l /home/ada"}') + flow.end()
    assert written == '  ▸ bash  {"command": "ls -l\n      /home/ada"}\n'


def test_halves_of_a_character_find_each_other_and_a_lone_one_is_an_escape() -> None:
    assert flowed(["ok \ud83d", "\ude00 do", "ne"]) == "  ok 😀 done\n"
    assert flowed(["cut \ud83d"]) == "  cut \\ud83d\n"
    assert flowed(["cut \ud83d", "x\ude00"]) == "  cut \\ud83dx\\ude00\n"


@pytest.mark.parametrize("end", [["\r\n"], ["\r", "\n"], ["\n"], ["\r"]])
def test_a_line_end_is_one_however_it_is_written_and_cut(end: list[str]) -> None:
    assert flowed(["a", *end, "b"]) == "  a\n  b\n"


def test_a_paragraph_without_text_leaves_no_line() -> None:
    assert flowed([]) == flowed(["", " \n "]) == ""
