"""Which facts of a segment a reader wants, and how to tell early that a line holds none of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from playhead.eventstore import chunk_rows, envelope, json_text
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

_DELTAS = frozenset({"text-delta", "reasoning-delta", "tool-call-delta"})


@dataclass(frozen=True)
class Wanted:
    """Facts with ``from_seq <= seq < to_seq``, of ``types`` or of all, with or without token deltas."""

    session: SessionId
    from_seq: int
    to_seq: int
    types: frozenset[str] | None
    deltas: bool

    @classmethod
    def of(
        cls, session: SessionId, from_seq: int, to_seq: int | None, types: Iterable[str] | None, deltas: bool
    ) -> Wanted:
        end = 2**63 if to_seq is None else to_seq
        return cls(session, from_seq, end, None if types is None else frozenset(types), deltas)

    def after(self, seq: int) -> Wanted:
        """The same, but nothing up to ``seq``."""
        return replace(self, from_seq=seq + 1)

    @cached_property
    def encoded_types(self) -> frozenset[bytes]:
        """``types`` in UTF-8."""
        return frozenset(type.encode("utf-8", "surrogatepass") for type in self.types or ())

    @property
    def any_deltas(self) -> bool:
        """True when token deltas are wanted."""
        return self.deltas and (self.types is None or chunk_rows.EVENT_TYPE in self.types)

    def facts(self, line: bytes) -> list[Recorded]:
        """The wanted facts of one line."""
        found = envelope.facts(line, self.session)
        if len(found) == 1:
            return found if self._takes(found[0]) else []
        return [fact for fact in found if self._takes(fact)]

    def _takes(self, fact: Recorded) -> bool:
        return (
            self.from_seq <= fact.seq < self.to_seq
            and (self.types is None or fact.type in self.types)
            and (self.deltas or not is_delta(fact))
        )


def is_delta(fact: Recorded) -> bool:
    """True for an ``assistant/chunk`` that carries a piece of text, of reasoning or of a tool call."""
    if fact.type != chunk_rows.EVENT_TYPE or (b"-delta" not in fact.raw and b"\\u" not in fact.raw):
        return False
    try:
        chunk = json_text.parse(fact.raw)["chunk"]
        return chunk["type"] in _DELTAS
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
