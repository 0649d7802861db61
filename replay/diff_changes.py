"""What differs between two events that are each other's counterpart: which member, and how.

============= =====================================================================================
``changed``   another value
``text``      another text; ``words`` says where
``removed``   only A has the member, or the element of a list
``added``     only B has it
``id``        A's id stands for ``expected`` elsewhere, and B has another one here
``reference`` the two seqs do not mean events that are each other's counterpart
============= =====================================================================================
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from playhead.projections import same_json
from playhead.replay.diff_entries import Entry
from playhead.replay.diff_form import ID_WORD, Cited, Id, marks_of, plain
from playhead.replay.diff_links import Links
from playhead.replay.diff_matching import gaps, matches
from playhead.replay.diff_words import WordChange, word_changes

Kind = Literal["changed", "text", "removed", "added", "id", "reference"]
Path = tuple[str | int, ...]

_DEEPEST = 64
"""Values that lie deeper are compared as wholes."""

_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two events. ``path`` goes into the data of A's event, for ``added`` of B's.

    An envelope member has a path of its own: ``sourceEventSeqs``, ``surfaceOp``. ``a`` and ``b`` are JSON values; None
    for what is not there. ``expected`` is the id that stands for A's on side B, where that is what is wrong.
    """

    path: Path
    kind: Kind
    a: Any
    b: Any
    words: tuple[WordChange, ...] = ()
    expected: str | None = None


def changes(a: Entry, b: Entry, links: Links) -> tuple[Change, ...]:
    """What differs between two entries of one type; ties the ids and the events that meet."""
    if a.is_event and b.is_event and a.seq is not None and b.seq is not None:
        links.tie_events(a.seq, b.seq)
    comparing = _Comparing(a, b, links)
    if comparing.marks_agree():
        return ()
    return tuple(comparing.walk())


class _Comparing:
    """Two entries under comparison."""

    def __init__(self, a: Entry, b: Entry, links: Links) -> None:
        self._a = a
        self._b = b
        self._links = links
        self._binds = not (a.is_authored or b.is_authored)

    def marks_agree(self) -> bool:
        """Whether nothing differs, told without a look at members. All ids are tied, as far as they can be."""
        ours, theirs = self._a.marks, self._b.marks
        if ours.key != theirs.key or ours.leaves is None or theirs.leaves is None:
            return False
        same = [self._same_leaf(one, other) for one, other in zip(ours.leaves, theirs.leaves, strict=True)]
        same += [
            self._links.same_word(one, other, binds=self._binds)
            for one, other in zip(ours.words, theirs.words, strict=True)
        ]
        return all(same)

    def walk(self) -> Iterator[Change]:
        """Every difference, member by member."""
        for member in dict.fromkeys((*self._a.form, *self._b.form)):
            path: Path = () if member == "data" else (member,)
            yield from self._values(
                path, self._a.form.get(member, _ABSENT), self._b.form.get(member, _ABSENT)
            )

    def _same_leaf(self, a: Id | Cited, b: Id | Cited) -> bool:
        if isinstance(a, Id) and isinstance(b, Id):
            return self._links.same_id(a, b)
        if isinstance(a, Cited) and isinstance(b, Cited):
            return self._links.same_event(a.seq, b.seq, self._a.seq or 0, self._b.seq or 0)
        return False

    def _values(self, path: Path, a: Any, b: Any) -> Iterator[Change]:
        if a is _ABSENT:
            yield Change(path, "added", None, plain(b))
        elif b is _ABSENT:
            yield Change(path, "removed", plain(a), None)
        elif isinstance(a, Id | Cited) and isinstance(b, Id | Cited):
            if not self._same_leaf(a, b):
                yield self._leaves(path, a, b)
        elif isinstance(a, str) and isinstance(b, str):
            yield from self._texts(path, a, b)
        elif len(path) > _DEEPEST:
            if same_json.digest(a) != same_json.digest(b):
                yield Change(path, "changed", plain(a), plain(b))
        elif isinstance(a, dict) and isinstance(b, dict):
            for member in dict.fromkeys((*a, *b)):
                yield from self._values((*path, member), a.get(member, _ABSENT), b.get(member, _ABSENT))
        elif isinstance(a, list) and isinstance(b, list):
            yield from self._lists(path, a, b)
        elif not _same_scalar(a, b):
            yield Change(path, "changed", plain(a), plain(b))

    def _leaves(self, path: Path, a: Id | Cited, b: Id | Cited) -> Change:
        if isinstance(a, Id) and isinstance(b, Id):
            return Change(path, "id", a.text, b.text, expected=self._links.partner(a))
        return Change(path, "reference", plain(a), plain(b))

    def _texts(self, path: Path, a: str, b: str) -> Iterator[Change]:
        ours, theirs = ID_WORD.findall(a), ID_WORD.findall(b)
        if not ours and not theirs:
            if a != b:
                yield Change(path, "text", a, b, word_changes(a, b))
            return
        if ID_WORD.split(a) == ID_WORD.split(b):
            same = [
                self._links.same_word(one, other, binds=self._binds)
                for one, other in zip(ours, theirs, strict=True)
            ]
            if all(same):
                return
            wrong = same.index(False)
            if a == b:
                yield Change(
                    path, "id", ours[wrong], theirs[wrong], expected=self._links.word_partner(ours[wrong])
                )
                return
        words = word_changes(a, b, self._links.name_on_b, str)
        yield Change(path, "text", a, b, words)

    def _lists(self, path: Path, a: list[Any], b: list[Any]) -> Iterator[Change]:
        for one, other in _counterparts(a, b):
            if one is None and other is not None:
                yield Change((*path, other), "added", None, plain(b[other]))
            elif other is None and one is not None:
                yield Change((*path, one), "removed", plain(a[one]), None)
            elif one is not None and other is not None:
                yield from self._values((*path, one), a[one], b[other])


def _same_scalar(a: Any, b: Any) -> bool:
    """JSON equality of what is no text, list or object: 1 is 1.0 and not true."""
    return bool(a == b) and isinstance(a, bool) is isinstance(b, bool)


def _counterparts(a: list[Any], b: list[Any]) -> Iterator[tuple[int | None, int | None]]:
    """The places of elements that belong together, and of those that have no counterpart, in order."""
    if len(a) == len(b) == 1:
        yield 0, 0
        return
    found = matches([marks_of(element).key for element in a], [marks_of(element).key for element in b])
    for gone, new, match in gaps(found, len(a), len(b)):
        alike = matches([_kind(a[at]) for at in gone], [_kind(b[at]) for at in new])
        for left, right, both in gaps(alike, len(gone), len(new)):
            yield from ((gone[at], None) for at in left)
            yield from ((None, new[at]) for at in right)
            if both is not None:
                yield gone[both[0]], new[both[1]]
        if match is not None:
            yield match


def _kind(element: Any) -> Hashable:
    """What elements have in common that are likely to be each other's counterpart: a tag, or else a name."""
    if not isinstance(element, dict):
        return (type(element),)
    tag, name = element.get("type"), element.get("name")
    if isinstance(tag, str):
        return dict, tag
    return dict, None, name if isinstance(name, str) else None
