"""Which facts of a segment a reader wants, and how to tell early that a line holds none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from playhead.eventstore import chunk_rows, envelope, json_text
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

_NO_DELTA = re.compile(rb'\{"turn":\d+,"step":\d+,"chunk":\{"type":"(?:block-start|block-end|usage|finish)"')
"""How the data of other chunks begins, as every writer spells it; told without parsing whole blocks."""
_DELTAS = frozenset({"text-delta", "reasoning-delta", "tool-call-delta"})


@dataclass(frozen=True)
class Wanted:
    """Facts with ``from_seq <= seq < to_seq``, of ``types`` or of all, none of them of a type in ``without``.

    Token deltas are among them where ``deltas`` is set. Where ``joined`` is set too, the deltas of a row, or of a run
    where a codec keeps them, come as a single one, with the seq and the time of the first and the text of all.
    """

    session: SessionId
    from_seq: int
    to_seq: int
    types: frozenset[str] | None
    deltas: bool
    without: frozenset[str] = frozenset()
    joined: bool = False

    @classmethod
    def of(
        cls,
        session: SessionId,
        from_seq: int = 0,
        to_seq: int | None = None,
        types: Iterable[str] | None = None,
        deltas: bool = True,
        without: Iterable[str] = (),
        joined: bool = False,
    ) -> Wanted:
        end = 2**63 if to_seq is None else to_seq
        only = None if types is None else frozenset(types)
        return cls(session, from_seq, end, only, deltas, frozenset(without), joined)

    def after(self, seq: int) -> Wanted:
        """The same, but nothing up to ``seq``."""
        return replace(self, from_seq=seq + 1)

    def takes(self, type: str) -> bool:
        """True when facts of ``type`` are wanted."""
        return type not in self.without and (self.types is None or type in self.types)

    @cached_property
    def any_deltas(self) -> bool:
        """True when token deltas are wanted."""
        return self.deltas and self.takes(chunk_rows.EVENT_TYPE)

    def facts(self, line: bytes) -> list[Recorded]:
        """The wanted facts of one line."""
        if self.joined and line.startswith(chunk_rows.LINE_STARTS):
            row = envelope.joined_row(line, self.session)
            if row is not None and self.from_seq <= row[0].seq and row[0].seq + row[1] <= self.to_seq:
                return [row[0]] if self.any_deltas else []
        found = envelope.facts(line, self.session)
        if len(found) == 1:
            return found if self._takes(found[0]) else []
        return [fact for fact in found if self._takes(fact)]

    def _takes(self, fact: Recorded) -> bool:
        return (
            self.from_seq <= fact.seq < self.to_seq
            and self.takes(fact.type)
            and (self.deltas or not is_delta(fact))
        )


def is_delta(fact: Recorded) -> bool:
    """True for an ``assistant/chunk`` that carries a piece of text, of reasoning or of a tool call."""
    if fact.type != chunk_rows.EVENT_TYPE or _NO_DELTA.match(fact.raw):
        return False
    try:
        chunk = json_text.parse(fact.raw)["chunk"]
        return chunk["type"] in _DELTAS
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
