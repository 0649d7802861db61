"""Two sessions side by side: which events are each other's counterpart, and what differs between them.

Both are read once, from the beginning to the end, and never held whole. Events are told apart by turn and step: a turn
or a step that only one side has is that side's alone. Inside a step, events are paired while they are alike; from the
first that is not, the rest of the step is laid side by side. There, events that may be equal are paired first, then
those that tell of the same thing, then those of one type; see ``diff_matching.py`` for how.

What does not count is told in ``diff_rules.py`` and ``diff_drafts.py``. Source: docs/diff.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from playhead.projections.folding import Foldable
from playhead.replay.diff_changes import Change, changes
from playhead.replay.diff_entries import Entry, Place, entries
from playhead.replay.diff_links import Links
from playhead.replay.diff_matching import gaps, matches

PairKind = Literal["same", "changed", "only-a", "only-b"]
_Couple = tuple[Entry | None, Entry | None]
_Section = tuple[Place, Iterator[Entry]]


@dataclass(frozen=True, slots=True)
class Pair:
    """An event of session A and its counterpart in session B, or one that has none.

    ``changes`` says what differs between them. For an event without a counterpart it is empty.
    """

    a: Entry | None
    b: Entry | None
    changes: tuple[Change, ...] = ()

    @property
    def kind(self) -> PairKind:
        """``same``, ``changed``, ``only-a`` or ``only-b``."""
        if self.a is None or self.b is None:
            return "only-b" if self.a is None else "only-a"
        return "changed" if self.changes else "same"

    @property
    def entry(self) -> Entry:
        """Its event in A, or where A has none in B."""
        found = self.a or self.b
        assert found is not None
        return found


def pairs(
    a: Foldable, b: Foldable, *, as_chunks: bool = False, ignore: Collection[str] = ()
) -> Iterator[Pair]:
    """Every event of both sessions, paired, in an order that is that of both; those of a type in ``ignore`` left out.

    The header comes first, as an event of type ``session``. ``as_chunks`` compares the streams of model calls chunk by
    chunk, else by what they add up to. Never raises because of what is in a log.
    """
    links = Links()
    for one, other in _couples(_sections(a, as_chunks), _sections(b, as_chunks)):
        differing = changes(one, other, links) if one is not None and other is not None else ()
        pair = Pair(one, other, differing)
        if pair.entry.type not in ignore:
            yield pair


def differences(
    a: Foldable, b: Foldable, *, as_chunks: bool = False, ignore: Collection[str] = ()
) -> Iterator[Pair]:
    """The pairs that differ; none when the sessions are equal. See ``pairs``."""
    return (pair for pair in pairs(a, b, as_chunks=as_chunks, ignore=ignore) if pair.kind != "same")


def _sections(session: Foldable, as_chunks: bool) -> Iterator[_Section]:
    """The entries of a session, step by step. A section ends when the next one is asked for."""
    return groupby(entries(session, as_chunks=as_chunks), key=lambda entry: entry.place)


def _couples(a: Iterator[_Section], b: Iterator[_Section]) -> Iterator[_Couple]:
    """The entries of both sides, coupled."""
    ours, theirs = next(a, None), next(b, None)
    while ours is not None and theirs is not None:
        if ours[0] == theirs[0]:
            yield from _within(ours[1], theirs[1])
            ours, theirs = next(a, None), next(b, None)
        elif ours[0] < theirs[0]:
            yield from ((entry, None) for entry in ours[1])
            ours = next(a, None)
        else:
            yield from ((None, entry) for entry in theirs[1])
            theirs = next(b, None)
    while ours is not None:
        yield from ((entry, None) for entry in ours[1])
        ours = next(a, None)
    while theirs is not None:
        yield from ((None, entry) for entry in theirs[1])
        theirs = next(b, None)


def _within(a: Iterator[Entry], b: Iterator[Entry]) -> Iterator[_Couple]:
    """The entries of one step on both sides, coupled: one by one as long as they are alike, then all that is left."""
    one, other = next(a, None), next(b, None)
    while one is not None and other is not None and one.marks.key == other.marks.key:
        yield one, other
        one, other = next(a, None), next(b, None)
    ours = [] if one is None else [one, *a]
    theirs = [] if other is None else [other, *b]
    yield from _laid_out(ours, theirs, _LIKENESS)


_Likeness = Callable[[Entry], Hashable]
_LIKENESS: tuple[_Likeness, ...] = (
    lambda entry: entry.marks.key,
    lambda entry: entry.kin,
    lambda entry: entry.type,
)
"""By what entries are coupled, the surest first."""


def _laid_out(a: list[Entry], b: list[Entry], likeness: tuple[_Likeness, ...]) -> Iterator[_Couple]:
    if not likeness or not a or not b:
        yield from ((entry, None) for entry in a)
        yield from ((None, entry) for entry in b)
        return
    found = matches([likeness[0](entry) for entry in a], [likeness[0](entry) for entry in b])
    for gone, new, match in gaps(found, len(a), len(b)):
        yield from _laid_out(a[gone.start : gone.stop], b[new.start : new.stop], likeness[1:])
        if match is not None:
            yield a[match[0]], b[match[1]]
