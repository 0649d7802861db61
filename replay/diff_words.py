"""Where two texts differ, word by word.

A word is a run of letters and digits, an id that no person chose, a run of blanks, or one other character. A line break
is a word of its own, so that lines are found again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from playhead.replay.diff_form import ID_WORD
from playhead.replay.diff_matching import gaps, matches

_WORD = re.compile(rf"({ID_WORD.pattern})|\w+|\r?\n|[^\S\n]+|.", re.DOTALL)


class WordChange(NamedTuple):
    """``a`` of the one text stands where ``b`` of the other does; one of them may be empty.

    ``a_at`` and ``b_at`` are where they begin, counted in characters.
    """

    a: str
    b: str
    a_at: int
    b_at: int


Naming = Callable[[str], Hashable]
"""What an id-like word is compared by."""


def word_changes(a: str, b: str, a_name: Naming = str, b_name: Naming = str) -> tuple[WordChange, ...]:
    """What differs between two texts, in order. ``a_name`` and ``b_name`` say by what id-like words are compared."""
    ours, theirs = list(_WORD.finditer(a)), list(_WORD.finditer(b))
    found = matches([_key(word, a_name) for word in ours], [_key(word, b_name) for word in theirs])
    return tuple(_joined(a, b, _changes(ours, theirs, found, len(a), len(b))))


def _key(word: re.Match[str], name: Naming) -> Hashable:
    return (name(word.group()),) if word.group(1) is not None else word.group()


_Spans = tuple[int, int, int, int]


def _changes(
    ours: list[re.Match[str]],
    theirs: list[re.Match[str]],
    found: list[tuple[int, int]],
    a_length: int,
    b_length: int,
) -> Iterator[_Spans]:
    """Start and end of what differs, in A and in B."""

    def start(words: list[re.Match[str]], at: int, length: int) -> int:
        return words[at].start() if at < len(words) else length

    for gone, new, match in gaps(found, len(ours), len(theirs)):
        if gone or new:
            a_end = a_length if match is None else ours[match[0]].start()
            b_end = b_length if match is None else theirs[match[1]].start()
            yield start(ours, gone.start, a_length), a_end, start(theirs, new.start, b_length), b_end


def _joined(a: str, b: str, changes: Iterator[_Spans]) -> Iterator[WordChange]:
    """The changes, neighbours made one where little lies between them: a rewritten sentence is one change."""
    last: _Spans | None = None
    for change in changes:
        if last is None:
            last = change
        elif 2 * (change[0] - last[1]) <= min(_size(last), _size(change)):
            last = (last[0], change[1], last[2], change[3])
        else:
            yield _change(a, b, last)
            last = change
    if last is not None:
        yield _change(a, b, last)


def _size(spans: _Spans) -> int:
    return max(spans[1] - spans[0], spans[3] - spans[2])


def _change(a: str, b: str, spans: _Spans) -> WordChange:
    return WordChange(a[spans[0] : spans[1]], b[spans[2] : spans[3]], spans[0], spans[2])
