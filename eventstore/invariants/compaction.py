"""Compaction rules: one bracket at a time, inside one turn or between turns, with one summary.

A bracket runs from ``compaction/start`` to ``compaction/end``. Its ``turn`` is the open turn, or null where
none is open; all its events carry one ``compactionId`` and one ``sourceCommandId``, or none. It holds at most
one summary, and exactly one when it ends without an error. No turn starts or ends in it.

``session/end-seed`` discards an open bracket: it belongs to a lifecycle that ended. The ``turn/end`` that
repair writes before it is no violation.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded, Replace


class _Bracket(NamedTuple):
    id: str | None
    command: str | None
    turn: float | None
    summarised: bool


class Compaction:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = frozenset(
        {
            "turn/start",
            "turn/end",
            "session/end-seed",
            "user/message",
            "compaction/start",
            "compaction/summary",
            "compaction/end",
        }
    )

    def __init__(self) -> None:
        self._turn: float | None = None
        self._open: _Bracket | None = None

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        match fact.type:
            case "turn/start" | "turn/end":
                return self._boundary(fact)
            case "session/end-seed":
                self._open = None
            case "user/message":
                return self._checkpoint(fact) if isinstance(fact.surface_op, Replace) else None
            case "compaction/start":
                return self._start(members.of(fact))
            case "compaction/summary":
                return self._summary(members.of(fact))
            case "compaction/end":
                return self._end(members.of(fact))
        return None

    def _boundary(self, fact: Recorded) -> Fault | None:
        data = members.of(fact)
        starts = fact.type == "turn/start"
        self._turn = members.number(data, "turn") if starts else None
        interrupted = not starts and members.inner(data, "reason").get("kind") == "interrupted"
        if self._open is None or interrupted:
            return None
        message = f"{fact.type} while compaction {self._open.id!r} is open"
        return Fault("compaction-crosses-turn", message)

    def _start(self, data: dict[str, Any]) -> Fault | None:
        before = self._open
        turn = members.number(data, "turn")
        id = members.text(data, "compactionId")
        self._open = _Bracket(id, members.text(data, "sourceCommandId"), turn, False)
        if before is not None:
            return Fault("compaction-already-open", f"compaction {id!r} starts inside {before.id!r}")
        if turn != self._turn:
            return Fault("compaction-owner", f"compaction {id!r} is for turn {turn}; open is {self._turn}")
        return None

    def _other_bracket(self, data: dict[str, Any]) -> Fault | None:
        if self._open is None:
            return Fault("compaction-no-bracket", "no compaction is open")
        ids = (members.text(data, "compactionId"), members.text(data, "sourceCommandId"))
        if ids != (self._open.id, self._open.command):
            return Fault("compaction-id", f"compaction and command are {ids}, not {self._open[:2]}")
        return None

    def _summary(self, data: dict[str, Any]) -> Fault | None:
        fault = self._other_bracket(data)
        repeated = self._open is not None and self._open.summarised
        if self._open is not None:
            self._open = self._open._replace(summarised=True)
        if fault is not None:
            return fault
        if repeated:
            return Fault("compaction-summary-repeat", "a second summary in one compaction")
        seqs = data.get("shadowedSeqs")
        if not isinstance(seqs, list) or not seqs or not all(is_safe_integer(seq) for seq in seqs):
            return Fault("compaction-range", "shadowedSeqs is not a list of seqs with at least one")
        span = members.inner(data, "shadowedRange")
        if (members.number(span, "start"), members.number(span, "end")) != (seqs[0], seqs[-1]):
            return Fault("compaction-range", "shadowedRange is not the first and last of shadowedSeqs")
        if data.get("llmStreamCall") is True and "rawOutput" not in data:
            return Fault("compaction-raw-output", "a streamed summary without its raw output")
        return None

    def _end(self, data: dict[str, Any]) -> Fault | None:
        fault = self._other_bracket(data)
        ended, self._open = self._open, None
        if fault is not None or ended is None:
            return fault
        if members.number(data, "turn") != ended.turn:
            return Fault("compaction-owner", f"compaction {ended.id!r} ends for another turn than it began")
        if "error" not in data and not ended.summarised:
            return Fault("compaction-no-summary", f"compaction {ended.id!r} ends without summary or error")
        return None

    def _checkpoint(self, fact: Recorded) -> Fault | None:
        id = members.text(members.inner(members.of(fact), "source"), "compactionId")
        if id is None or (self._open is not None and self._open.id == id):
            return None
        return Fault("compaction-checkpoint", f"a checkpoint of compaction {id!r}, which is not open")
