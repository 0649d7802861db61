"""Which ids and events of one session stand for which of the other.

Filled while a comparison goes on: ids are tied when an event that holds one meets the event that holds the other, seqs
when their events meet. One id stands for one: a second partner is a difference.
"""

from __future__ import annotations

from collections.abc import Hashable

from playhead.replay.diff_form import ID_WORD, Cited, Id, Leaf, Marks

_ANY = ""
"""The role of ids that look like ids: they are unique whatever they name, and texts do not say what that is."""


_Name = tuple[str, str]
"""Role and text of an id."""


class Links:
    """Pairs of ids and pairs of seqs, from side A to side B."""

    def __init__(self) -> None:
        self._ids: dict[_Name, _Name] = {}
        self._ids_back: dict[_Name, _Name] = {}
        self._seqs: dict[int, int] = {}
        self._seqs_back: set[int] = set()

    def tie_events(self, a: int, b: int) -> None:
        """From now on the event with seq ``a`` stands for the event with seq ``b``."""
        self._seqs[a] = b
        self._seqs_back.add(b)

    def same_id(self, a: Id, b: Id) -> bool:
        """Whether two ids stand for each other. Ids that are new on both sides are tied."""
        if a.role != b.role:
            return False
        one, other = _name(a), _name(b)
        if a.again and b.again:
            self._untie(one, other)
        return self._tied(one, other, binds=True)

    def same_word(self, a: str, b: str, *, binds: bool) -> bool:
        """The same for two words that look like ids. Without ``binds`` new ones have to be equal, and are not tied."""
        return self._tied((_ANY, a), (_ANY, b), binds=binds)

    def partner(self, a: Id) -> str | None:
        """The id that ``a`` stands for on side B; None where nothing has said so yet."""
        known = self._ids.get(_name(a))
        return None if known is None else known[1]

    def word_partner(self, a: str) -> str | None:
        """The same for a word that looks like an id."""
        known = self._ids.get((_ANY, a))
        return None if known is None else known[1]

    def name_on_b(self, word: str) -> str | None:
        """What a word of side A is on side B: its partner, or itself; None where that is another word's partner."""
        partner = self.word_partner(word)
        return word if partner is None and (_ANY, word) not in self._ids_back else partner

    def same_event(self, a: int, b: int, behind_a: int, behind_b: int) -> bool:
        """Whether the seqs ``a`` and ``b`` mean events that met.

        Where neither has met any event, they are the same when they lie equally far before the events ``behind_a`` and
        ``behind_b`` that name them.
        """
        if a in self._seqs or b in self._seqs_back:
            return self._seqs.get(a) == b
        return behind_a - a == behind_b - b

    def names_on_b(self, a: Marks) -> Hashable:
        """What the ids and seqs of an entry of side A are on side B; None for each of which nobody has said so yet."""
        leaves = (self._name_on_b(leaf) for leaf in a.leaves or ())
        return tuple(leaves), tuple(self._ids.get((_ANY, word)) for word in a.words)

    def known_names(self, b: Marks) -> Hashable:
        """The same for an entry of side B: what has met something of side A."""
        leaves = (self._known_name(leaf) for leaf in b.leaves or ())
        words = ((_ANY, word) for word in b.words)
        return tuple(leaves), tuple(word if word in self._ids_back else None for word in words)

    def _name_on_b(self, leaf: Leaf) -> Hashable:
        if isinstance(leaf, Cited):
            return self._seqs.get(leaf.seq)
        return None if leaf.again else self._ids.get(_name(leaf))

    def _known_name(self, leaf: Leaf) -> Hashable:
        if isinstance(leaf, Cited):
            return leaf.seq if leaf.seq in self._seqs_back else None
        name = _name(leaf)
        return name if name in self._ids_back and not leaf.again else None

    def _tied(self, a: _Name, b: _Name, *, binds: bool) -> bool:
        known = self._ids.get(a)
        if known is not None or b in self._ids_back:
            return known == b
        if not binds:
            return a == b
        self._ids[a] = b
        self._ids_back[b] = a
        return True

    def _untie(self, a: _Name, b: _Name) -> None:
        old_b = self._ids.pop(a, None)
        if old_b is not None:
            del self._ids_back[old_b]
        old_a = self._ids_back.pop(b, None)
        if old_a is not None:
            del self._ids[old_a]


def _name(id: Id) -> _Name:
    """The name under which an id is known: one that looks like an id, whatever stands before it, has no role."""
    found = ID_WORD.search(id.text)
    return (_ANY, found.group()) if found is not None and found.end() == len(id.text) else (id.role, id.text)
