"""Core rules: how turns, steps, answers and tool calls nest.

* seq rises strictly.
* Turns count 1, 2, ... and do not overlap; steps count 1, 2, ... in their turn and do not overlap; a turn
  ends without an open step.
* A chunk, an answer, a failed attempt and a tool call belong to the open step.
* An appended tool result belongs to the open step and answers a call of it that has no result yet, or says
  ``TOOL_NOT_STARTED``. A replaced result only needs some open turn.
* A todo list, a request header and a request context need an open turn.

A call without a result at the end of its step is no violation, and its id may come again in a later step.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from playhead.eventstore import members
from playhead.eventstore.invariants.rules import Fault
from playhead.eventstore.recorded import Recorded, Replace

_PLACE = re.compile(rb'\{"turn":(\d{1,15}),"step":(\d{1,15}),"chunk":')
"""How the data of a chunk begins, as every writer writes it."""


class Core:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = None

    def __init__(self) -> None:
        self._seq = -1
        self._turn: float | None = None
        self._step: float | None = None
        self._next_turn: float = 1
        self._next_step: float = 1
        self._pending: set[str | None] = set()
        self._good_chunk = b""
        self._handlers = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
            "assistant/chunk": self._chunk,
            "assistant/message": self._in_step,
            "assistant/attempt": self._in_step,
            "tool/call": self._call,
            "tool/result": self._result,
            "todo/write": self._in_turn,
            "request/header": self._in_turn,
            "request/context": self._in_turn,
        }

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        last, self._seq = self._seq, fact.seq
        handler = self._handlers.get(fact.type)
        fault = handler(fact) if handler is not None else None
        if fact.seq <= last:
            return Fault("seq-order", f"seq {fact.seq} stands behind seq {last}")
        return fault

    def _turn_start(self, fact: Recorded) -> Fault | None:
        number = members.number(members.of(fact), "turn")
        fault = None
        if self._turn is not None:
            fault = Fault("turn-already-open", f"turn {number} starts inside turn {self._turn}")
        elif number != self._next_turn:
            fault = Fault("turn-number", f"turn {number} starts; turn {self._next_turn} is next")
        self._turn, self._step, self._next_step = number, None, 1
        self._good_chunk = b""
        return fault

    def _turn_end(self, fact: Recorded) -> Fault | None:
        number = members.number(members.of(fact), "turn")
        fault = None
        if number is None or number != self._turn:
            fault = Fault("turn-mismatch", f"turn {number} ends; open is {_shown('turn', self._turn)}")
        elif self._step is not None:
            fault = Fault("step-still-open", f"turn {number} ends while step {self._step} is open")
        self._next_turn = (self._next_turn if number is None else number) + (number is not None)
        self._turn = self._step = None
        self._good_chunk = b""
        return fault

    def _step_start(self, fact: Recorded) -> Fault | None:
        data = members.of(fact)
        turn, number = members.number(data, "turn"), members.number(data, "step")
        fault = None
        if turn is None or turn != self._turn:
            shown = _shown("turn", self._turn)
            fault = Fault("step-wrong-turn", f"step {number} of turn {turn} starts; open is {shown}")
        elif self._step is not None:
            fault = Fault("step-already-open", f"step {number} starts inside step {self._step}")
        elif number != self._next_step:
            fault = Fault("step-number", f"step {number} starts; step {self._next_step} is next")
        self._step = number
        self._good_chunk = b""
        return fault

    def _step_end(self, fact: Recorded) -> Fault | None:
        fault = self._in_step(fact)
        if self._step is not None:
            self._next_step = self._step + 1
        self._step = None
        self._pending.clear()
        self._good_chunk = b""
        return fault

    def _chunk(self, fact: Recorded) -> Fault | None:
        """Most chunks begin as the one before them; then nothing has to be parsed."""
        if self._good_chunk and fact.raw.startswith(self._good_chunk):
            return None
        found = _PLACE.match(fact.raw)
        if found is None:
            return self._in_step(fact)
        fault = self._unless_open(int(found[1]), int(found[2]), fact.type)
        if fault is None:
            self._good_chunk = found[0]
        return fault

    def _in_step(self, fact: Recorded) -> Fault | None:
        data = members.of(fact)
        return self._unless_open(members.number(data, "turn"), members.number(data, "step"), fact.type)

    def _unless_open(self, turn: float | None, step: float | None, type: str) -> Fault | None:
        if turn is not None and step is not None and (turn, step) == (self._turn, self._step):
            return None
        shown = f"{_shown('turn', self._turn)}, {_shown('step', self._step)}"
        return Fault("not-in-open-step", f"{type} of turn {turn}, step {step}; open is {shown}")

    def _in_turn(self, fact: Recorded) -> Fault | None:
        return None if self._turn is not None else Fault("outside-turn", f"{fact.type} outside of any turn")

    def _call(self, fact: Recorded) -> Fault | None:
        self._pending.add(members.text(members.of(fact), "callId"))
        return self._in_step(fact)

    def _result(self, fact: Recorded) -> Fault | None:
        if isinstance(fact.surface_op, Replace):
            if self._turn is None:
                return Fault("rewrite-outside-turn", "a tool result is replaced outside of any turn")
            return None
        data = members.of(fact)
        fault = self._in_step(fact)
        call = _call_id(members.inner(data, "message"))
        if fault is None and call not in self._pending and not _never_started(data):
            fault = Fault("result-without-call", f"a result for call {call!r}, which is not pending here")
        self._pending.discard(call)
        return fault


def _shown(what: str, number: float | None) -> str:
    return f"no {what}" if number is None else f"{what} {number}"


def _call_id(message: dict[str, Any]) -> str | None:
    return members.text(members.inner(message, "source"), "callId")


def _never_started(data: dict[str, Any]) -> bool:
    """True for the result that repair writes for a call that was never recorded."""
    message = members.inner(data, "message")
    failed = [message, *members.objects(message, "content")]
    code = members.inner(data, "error").get("code")
    return code == "TOOL_NOT_STARTED" and any(part.get("isError") is True for part in failed)
