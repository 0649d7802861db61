"""Turns and steps, told from what a client sends: the facts with which messages enter, answers stand, and turns end.

A request shows what happened since the last one. The first row that fits says what it means:

==================================================  ============================================================
results of calls that the open step waits for       ``tool/call`` and ``tool/result`` for each, then a new step
                                                    of the same turn with the other messages
nothing new, while a turn is open                   the failed call is made again: a further call of the step
anything else                                       an open turn has ended; a new one begins with the messages
==================================================  ============================================================

A turn ends with an answer that asks for no tool, with a cancelled one, or when a later request shows that it has. Until
then it stays open, in a session that nobody records to as well. Source: docs/recording.md, "Facts".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from playhead.eventstore import members
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import AnyTurnEndReason, TurnCompleted, TurnFailed
from playhead.eventstore.recorded import Recorded, SurfaceOp
from playhead.eventstore.usage import Usage
from playhead.web.recorder_history import result_of

COMPLETED = TurnCompleted()


class Append(Protocol):
    """Puts a fact at the end of a log; gives its seq."""

    def __call__(
        self,
        type: str,
        data: Any,
        *,
        surface_op: SurfaceOp | None = None,
        source_seqs: Sequence[int] | None = None,
    ) -> int: ...


class Turns:
    """The turns of one session. ``turn`` and ``step`` are those that are open, or None.

    ``calls`` are the tool calls that the open step waits for, by id; ``tries`` counts the model calls of the step;
    ``failed`` is how its turn would end, had the last of them been the last word.
    """

    def __init__(self, append: Append, new_id: Callable[[], str]) -> None:
        self._append = append
        self.new_id = new_id
        self.last_turn = 0
        self.turn: int | None = None
        self.step: int | None = None
        self.calls: dict[str, dict[str, Any]] = {}
        self.tries = 0
        self.failed: TurnFailed | None = None

    @property
    def place(self) -> dict[str, Any]:
        """Turn and step, as the data of an event names them."""
        return {"turn": self.turn, "step": self.step}

    def feed(self, fact: Recorded) -> None:
        """Take a fact that the log has already."""
        data = members.of(fact)
        match fact.type:
            case "turn/start":
                self.turn = self.last_turn = int(members.number(data, "turn") or 0)
                self._begun(None)
            case "turn/end":
                self.turn = None
                self._begun(None)
            case "step/start":
                self._begun(int(members.number(data, "step") or 0))
            case "step/end":
                self.calls = {}
            case "assistant/chunk":
                reason = members.inner(members.inner(data, "chunk"), "reason")
                if reason.get("kind") in ("error", "aborted"):
                    self.tries += 1
                    self.failed = TurnFailed.decode({"kind": "error", "error": reason.get("failure")})
            case "assistant/message":
                self.tries += 1
                self._asked(members.inner(data, "message"))
            case "tool/result":
                self.calls.pop(result_of(members.inner(data, "message")) or "", None)

    def enter(self, messages: Sequence[dict[str, Any]]) -> None:
        """A request with these new messages came; see the table."""
        awaited = [message for message in messages if result_of(message) in self.calls]
        if self.turn is None or not (awaited or not messages):
            self.end(self.failed or COMPLETED)
            self._start_turn()
        elif awaited:
            for message in awaited:
                self._result(message)
            next_step = (self.step or 0) + 1
            self._append("step/end", self.place)
            self._start_step(next_step)
        for message in messages:
            if not any(message is settled for settled in awaited):
                self._append("user/message", self._user(message), surface_op="append")
        self.tries += 1
        self.failed = None

    def answer(
        self,
        message: Message,
        source_seqs: Sequence[int],
        usage: Usage | None = None,
        *,
        ends: AnyTurnEndReason | None = COMPLETED,
        interrupted: bool = False,
    ) -> None:
        """The model said ``message``. Unless it asks for tools the turn ends, as ``ends`` says."""
        data: dict[str, Any] = {**self.place, "message": message.to_json()}
        if usage is not None:
            data["usage"] = usage.to_json()
        if interrupted:
            data["interrupted"] = True
        self._append("assistant/message", data, surface_op="append", source_seqs=tuple(source_seqs))
        self._asked(data["message"])
        if not self.calls and ends is not None:
            self.end(ends)

    def end(self, reason: AnyTurnEndReason) -> None:
        """End the turn, if one is open."""
        if self.turn is None:
            return
        if self.step is not None:
            self._append("step/end", self.place)
        self._append("turn/end", {"turn": self.turn, "reason": reason.to_json()})
        self.turn = None
        self._begun(None)

    def results(self, messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Put the results that the open step waits for into it; gives the messages that are none."""
        rest = []
        for message in messages:
            if result_of(message) in self.calls:
                self._result(message)
            else:
                rest.append(message)
        return rest

    def _start_turn(self) -> None:
        self.turn = self.last_turn = self.last_turn + 1
        self._append("turn/start", {"turn": self.turn})
        self._start_step(1)

    def _start_step(self, step: int) -> None:
        self._begun(step)
        self._append("step/start", self.place)

    def _begun(self, step: int | None) -> None:
        self.step, self.calls, self.tries, self.failed = step, {}, 0, None

    def _asked(self, message: dict[str, Any]) -> None:
        calls = (block for block in members.objects(message, "content") if block.get("type") == "tool-call")
        self.calls = {members.text(block, "id") or "": block for block in calls}
        self.failed = None

    def _result(self, message: dict[str, Any]) -> None:
        call_id = result_of(message) or ""
        call = self.calls.pop(call_id)
        called = {**self.place, "callId": call_id, "name": call["name"], "arguments": call["arguments"]}
        seq = self._append("tool/call", called)
        data = {**self.place, "message": {**message, "id": self.new_id()}}
        self._append("tool/result", data, surface_op="append", source_seqs=(seq,))

    def _user(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message as the log has it. What a client put between as a system message was no person's."""
        if message.get("role") != "user":
            message = {**message, "role": "user", "source": {"kind": "plugin", "plugin": "client"}}
        return {**message, "id": self.new_id()}
