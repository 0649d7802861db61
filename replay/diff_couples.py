"""Which entries of two sessions are each other's counterpart.

Both are read once, from the beginning to the end, and never held whole. Entries are told apart by turn and step: a turn
or a step that only one side has is that side's alone. Inside a step, entries are coupled while they are alike; from the
first that is not, the rest of the step is laid side by side. There, entries that may be equal are coupled first (those
that name the same things before all others), then those that tell of the same thing, then those of one type, in the
order of both; see ``diff_matching.py`` for how. What is left over on both sides and is alike, or is the one of its
kind, has moved.

What ids stand for is learned on the way: whoever takes a couple ties its ids before taking the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby

from playhead.projections.folding import Foldable
from playhead.replay.diff_entries import Entry, Place, entries
from playhead.replay.diff_links import Links
from playhead.replay.diff_matching import gaps, matches

Couple = tuple[Entry | None, Entry | None]
"""Counterparts, or an entry without one. They come in the order of both sides, but for those that have moved."""

_Section = tuple[Place, Iterator[Entry]]


def couples(
    a: Foldable, b: Foldable, links: Links, *, as_chunks: bool = False
) -> Iterator[tuple[Couple, bool]]:
    """The entries of both sessions, coupled, and whether they have moved. For ``as_chunks`` see ``entries``."""
    one, other = _sections(a, as_chunks), _sections(b, as_chunks)
    ours, theirs = next(one, None), next(other, None)
    while ours is not None or theirs is not None:
        if ours is not None and (theirs is None or ours[0] < theirs[0]):
            yield from (((entry, None), False) for entry in ours[1])
            ours = next(one, None)
        elif theirs is not None and (ours is None or theirs[0] < ours[0]):
            yield from (((None, entry), False) for entry in theirs[1])
            theirs = next(other, None)
        elif ours is not None and theirs is not None:
            yield from _within(ours[1], theirs[1], links)
            ours, theirs = next(one, None), next(other, None)


def _sections(session: Foldable, as_chunks: bool) -> Iterator[_Section]:
    """The entries of a session, step by step. A section ends when the next one is asked for."""
    return groupby(entries(session, as_chunks=as_chunks), key=lambda entry: entry.place)


def _within(a: Iterator[Entry], b: Iterator[Entry], links: Links) -> Iterator[tuple[Couple, bool]]:
    """The entries of one step on both sides, coupled: one by one as long as they are alike, then all that is left."""
    one, other = next(a, None), next(b, None)
    while one is not None and other is not None and _alike(one, other, links):
        yield (one, other), False
        one, other = next(a, None), next(b, None)
    ours = [] if one is None else [one, *a]
    theirs = [] if other is None else [other, *b]
    yield from _with_moved(list(_laid_out(ours, theirs, _likeness(links))))


def _alike(a: Entry, b: Entry, links: Links) -> bool:
    """Whether two entries may be equal, by all that is known so far."""
    return a.marks.key == b.marks.key and links.names_on_b(a.marks) == links.known_names(b.marks)


_Key = Callable[[Entry], Hashable]
_Likeness = tuple[_Key, _Key]
"""By what entries of A and of B are coupled."""


def _likeness(links: Links) -> list[_Likeness]:
    """By what entries are coupled, the surest first."""

    def named(a: Entry) -> Hashable:
        return a.marks.key, links.names_on_b(a.marks)

    def known(b: Entry) -> Hashable:
        return b.marks.key, links.known_names(b.marks)

    return [(named, known), *((key, key) for key in (_by_marks, _by_kin, _by_type))]


def _by_marks(entry: Entry) -> Hashable:
    return entry.marks.key


def _by_kin(entry: Entry) -> Hashable:
    return entry.kin


def _by_type(entry: Entry) -> Hashable:
    return entry.type


def _laid_out(a: list[Entry], b: list[Entry], likeness: list[_Likeness]) -> Iterator[Couple]:
    if not likeness or not a or not b:
        yield from ((entry, None) for entry in a)
        yield from ((None, entry) for entry in b)
        return
    of_a, of_b = likeness[0]
    found = matches([of_a(entry) for entry in a], [of_b(entry) for entry in b])
    for gone, new, match in gaps(found, len(a), len(b)):
        yield from _laid_out(a[gone.start : gone.stop], b[new.start : new.stop], likeness[1:])
        if match is not None:
            yield a[match[0]], b[match[1]]


def _with_moved(laid_out: list[Couple]) -> Iterator[tuple[Couple, bool]]:
    """The couples of one step, with those made that stand in another order on side B."""
    gone = [a for a, b in laid_out if a is not None and b is None]
    new = [b for a, b in laid_out if b is not None and a is None]
    moved = _moved(gone, new)
    taken = {id(entry) for entry in moved.values()}
    for a, b in laid_out:
        if a is not None and id(a) in moved:
            yield (a, moved[id(a)]), True
        elif b is None or id(b) not in taken:
            yield (a, b), False


def _moved(gone: list[Entry], new: list[Entry]) -> dict[int, Entry]:
    """The counterparts of entries in ``gone`` among ``new``, by the ``id`` of the object.

    Equal ones in turn, then those that are the one of their kin on either side.
    """
    found: dict[int, Entry] = {}
    left: dict[Hashable, list[Entry]] = defaultdict(list)
    for entry in reversed(new):
        left[entry.marks.key].append(entry)
    for entry in gone:
        if left[entry.marks.key]:
            found[id(entry)] = left[entry.marks.key].pop()
    taken = {id(entry) for entry in found.values()}
    ours = _of_kin(entry for entry in gone if id(entry) not in found)
    theirs = _of_kin(entry for entry in new if id(entry) not in taken)
    for kin, entries_of_kin in ours.items():
        if len(entries_of_kin) == 1 and len(theirs.get(kin, ())) == 1:
            found[id(entries_of_kin[0])] = theirs[kin][0]
    return found


def _of_kin(found: Iterable[Entry]) -> dict[Hashable, list[Entry]]:
    kinds: dict[Hashable, list[Entry]] = defaultdict(list)
    for entry in found:
        kinds[entry.kin].append(entry)
    return kinds
