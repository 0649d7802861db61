"""Two sessions side by side: which events are each other's counterpart, and what differs between them.

Which events are counterparts is found in ``diff_couples.py``, what differs between them in ``diff_changes.py``. What
does not count is told in ``diff_rules.py`` and ``diff_drafts.py``. Source: docs/diff.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from playhead.projections.folding import Foldable
from playhead.replay.diff_changes import Change, changes
from playhead.replay.diff_couples import couples
from playhead.replay.diff_entries import Entry
from playhead.replay.diff_links import Links

PairKind = Literal["same", "changed", "moved", "only-a", "only-b"]


@dataclass(frozen=True, slots=True)
class Pair:
    """An event of session A and its counterpart in session B, or one that has none.

    ``changes`` says what differs between them. For an event without a counterpart it is empty. ``moved`` events stand
    in another order than their neighbours; they come where they are in A.
    """

    a: Entry | None
    b: Entry | None
    changes: tuple[Change, ...] = ()
    moved: bool = False

    @property
    def kind(self) -> PairKind:
        """``same``, ``changed`` (and perhaps moved), ``moved``, ``only-a`` or ``only-b``."""
        if self.a is None or self.b is None:
            return "only-b" if self.a is None else "only-a"
        if self.changes:
            return "changed"
        return "moved" if self.moved else "same"

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
    for (one, other), moved in couples(a, b, links, as_chunks=as_chunks):
        differing = changes(one, other, links) if one is not None and other is not None else ()
        pair = Pair(one, other, differing, moved)
        if pair.entry.type not in ignore:
            yield pair


def differences(
    a: Foldable, b: Foldable, *, as_chunks: bool = False, ignore: Collection[str] = ()
) -> Iterator[Pair]:
    """The pairs that differ; none when the sessions are equal. See ``pairs``."""
    return (pair for pair in pairs(a, b, as_chunks=as_chunks, ignore=ignore) if pair.kind != "same")
