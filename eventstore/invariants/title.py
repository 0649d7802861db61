"""Title rules: a title a person gave cites no messages; any other cites the ones it was made from."""

from __future__ import annotations

from typing import ClassVar

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded


class Title:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = frozenset({"session/title"})

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        data = members.of(fact)
        if members.text(data, "title") is None:
            return Fault("title-text", "a title without text")
        seqs = data.get("messageSeqs")
        earlier = range(fact.seq)
        if not isinstance(seqs, list) or not all(is_safe_integer(seq) and seq in earlier for seq in seqs):
            return Fault("title-sources", "messageSeqs is not a list of earlier seqs")
        by_user = members.inner(data, "source").get("kind") == "user"
        if by_user == bool(seqs):
            what = "a title from a person cites messages" if by_user else "an automatic title cites none"
            return Fault("title-sources", what)
        return None
