"""Text that streams into whole lines: nothing is lost, and words that are rubbed out are gone."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from playhead.cli.replay_flow import Flow
from playhead.cli.run_tail import Tail

WORDS = st.text("ab 漢\n", max_size=12)


def screen(text: str) -> list[str]:
    """What a terminal that is wide enough shows: lines of cells, a wide character in two."""
    lines: list[list[str]] = [[]]
    for rubbed, plain in re.findall(r"\x1b\[(\d+)D\x1b\[K|(.)", text, re.DOTALL):
        if rubbed:
            lines[-1] = lines[-1][: -int(rubbed)]
        elif plain == "\n":
            lines.append([])
        else:
            lines[-1] += [plain, *[""] * (cell_len(plain) - 1)]
    return ["".join(line) for line in lines]


@given(st.lists(WORDS), st.integers(20, 30))
def test_the_lines_are_those_that_a_terminal_would_show(pieces: list[str], width: int) -> None:
    flow, tail = Flow(width, rubs_out=True), Tail()
    written = flow.begin("  ")
    tail.feed(written)
    lines = ""
    for piece in pieces:
        fed = flow.feed(piece)
        tail.feed(fed)
        written += fed
        if len(piece) % 2:
            lines += tail.lines()
    assert (lines + tail.lines() + tail.line).split("\n") == screen(written)
    assert not tail.has_lines


def test_rubbing_out_leaves_styles_alone() -> None:
    tail = Tail()
    tail.feed("\x1b[2mone \x1b[0m\x1b[2mtw\x1b[0m\x1b[2D\x1b[K\n\x1b[2mtwo\x1b[0m")
    assert tail.lines() == "\x1b[2mone \x1b[0m\x1b[2m\x1b[0m\n"
    assert tail.line == "\x1b[2mtwo\x1b[0m"


def test_a_line_that_is_inserted_stands_above_the_one_that_is_not_whole() -> None:
    tail = Tail()
    tail.feed("one\nha")
    tail.insert("aside")
    tail.feed("lf\n")
    assert tail.lines() == "one\naside\nhalf\n"
