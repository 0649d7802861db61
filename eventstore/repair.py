"""The events that close a session whose writer died in the middle of a turn.

They depend on the stored events alone: repairing twice adds nothing, and every machine adds the same. Only
turns, steps and tool calls are closed. The scan keeps the open turn, the open step and the pending calls:

* ``turn/start`` opens a turn, without step and calls; ``turn/end`` closes all three.
* ``step/start`` opens a step; ``step/end`` closes it and drops the calls.
* ``assistant/message`` adds the calls in its content, with its step; ``tool/call`` gives its seq to one of
  them; ``tool/result`` removes one, a replacement as well.

A turn that is open at the end gets a ``tool/result`` for each pending call in the order of the message, then
``step/end`` for an open step, then ``turn/end`` with reason ``interrupted``. They go on in seq and carry the
time of the last stored event. A result says ``TOOL_OUTCOME_UNKNOWN`` and cites the ``tool/call`` where there
was one, and ``TOOL_NOT_STARTED`` where there was none. Its message id is made of the call id and its own seq.
Source: docs/formats.md, "Repair".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from playhead.eventstore import json_text, jsonl, members
from playhead.eventstore.errors import CorruptLog, NotALog
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded

FLAT_RESULTS_FROM = 4
"""The log format from which the message of a tool result is flat and has the role ``tool``."""

NOT_STARTED_TEXT = (
    "This tool call was cut off before it was recorded as started. It can be tried again if it is needed."
)
OUTCOME_UNKNOWN_TEXT = (
    "This tool call was recorded as started, but no result of it was stored, so its outcome is unknown. Do "
    "not repeat it blindly: repeat it only if it just reads, or may safely run twice; otherwise look at the "
    "state outside first, or ask the user."
)

TURN_TYPES = frozenset(
    {"turn/start", "turn/end", "step/start", "step/end", "assistant/message", "tool/call", "tool/result"}
)
"""The types that open and close something."""


class _Call(NamedTuple):
    """A call without a result: the step of the message that asked for it, the seq of its ``tool/call``."""

    step: float
    seq: Seq | None


class OpenTurn:
    """What is open after the facts that were fed. Any data will do; what does not fit changes nothing."""

    def __init__(self) -> None:
        self.last: Recorded | None = None
        self.turn: float | None = None
        self.step: float | None = None
        self.calls: dict[str, _Call] = {}

    def feed(self, fact: Recorded) -> None:
        """Take the next fact of the session."""
        self.last = fact
        if fact.type not in TURN_TYPES:
            return
        data = members.of(fact)
        match fact.type:
            case "turn/start":
                self.turn, self.step, self.calls = members.number(data, "turn"), None, {}
            case "turn/end":
                self.turn, self.step, self.calls = None, None, {}
            case "step/start":
                self.step = members.number(data, "step")
            case "step/end":
                self.step, self.calls = None, {}
            case "assistant/message":
                self._ask(data)
            case "tool/call":
                started = members.text(data, "callId")
                if started is not None and started in self.calls:
                    self.calls[started] = self.calls[started]._replace(seq=fact.seq)
            case "tool/result":
                answered = members.text(members.inner(members.inner(data, "message"), "source"), "callId")
                if answered is not None:
                    self.calls.pop(answered, None)

    def _ask(self, data: dict[str, Any]) -> None:
        step = members.number(data, "step")
        if step is None:
            return
        for block in members.objects(members.inner(data, "message"), "content"):
            asked = members.text(block, "id")
            if block.get("type") == "tool-call" and asked is not None:
                self.calls[asked] = _Call(step, None)

    def closers(self, *, flat_results: bool = False) -> list[Recorded]:
        """The events that close what is open, in order; none when no turn is open.

        ``flat_results`` gives the messages of results the shape of ``FLAT_RESULTS_FROM``.
        """
        last, turn = self.last, self.turn
        if last is None or turn is None:
            return []
        made: list[Recorded] = []
        for call, (step, started) in self.calls.items():
            seq = Seq(last.seq + 1 + len(made))
            data = {"turn": turn, "step": step, **_result(call, seq, started is not None, flat_results)}
            sources = None if started is None else (started,)
            raw = json_text.dumps(data)
            made.append(Recorded(last.session, seq, last.time_ms, "tool/result", raw, "append", sources))
        boundaries: list[tuple[str, dict[str, Any]]] = []
        if self.step is not None:
            boundaries.append(("step/end", {"turn": turn, "step": self.step}))
        boundaries.append(("turn/end", {"turn": turn, "reason": {"kind": "interrupted"}}))
        for type, data in boundaries:
            seq = Seq(last.seq + 1 + len(made))
            made.append(Recorded(last.session, seq, last.time_ms, type, json_text.dumps(data)))
        return made


def closers(facts: Iterable[Recorded], *, flat_results: bool = False) -> list[Recorded]:
    """The events to append behind ``facts``, the whole log of a session; see ``OpenTurn.closers``."""
    state = OpenTurn()
    for fact in facts:
        state.feed(fact)
    return state.closers(flat_results=flat_results)


def closer_line(closer: Recorded) -> bytes:
    """The log line of a closing event, without line end: ``surfaceOp`` stands before ``sourceEventSeqs``."""
    event = closer.envelope()
    if "sourceEventSeqs" in event:
        event["sourceEventSeqs"] = event.pop("sourceEventSeqs")
    return json_text.dumps(event)


def repaired(decoded: bytes) -> bytes:
    """A decoded log with its torn or broken tail dropped and an open turn closed.

    What is kept is kept byte for byte; a log that needs nothing comes back as it is. Raises ``NotALog``
    without a readable header, and ``CorruptLog`` for damage that is no tail: that cannot be repaired.
    """
    header_line = next((line.text for line in jsonl.lines(decoded)), None)
    if header_line is None:
        raise NotALog("no-header", "the log has no whole first line")
    header = SessionHeader.parse(header_line)
    found = jsonl.scan(decoded, header.id)
    if found.issue is not None and found.committed:
        issue = found.issue
        raise CorruptLog(
            header.id,
            f"line {issue.line} at byte {issue.byte}: {issue.message}; {found.whole_behind} whole records "
            "lie behind it, so this is no torn tail: nothing was repaired",
            seq=issue.seq,
            line=issue.line,
            byte=issue.byte,
            kind=issue.kind,
        )
    added = closers(found.facts, flat_results=header.version >= FLAT_RESULTS_FROM)
    return decoded[: found.safe_length] + b"".join(closer_line(closer) + b"\n" for closer in added)


def _result(call: str, seq: Seq, started: bool, flat: bool) -> dict[str, Any]:
    """Message and error of the result that stands in for the one that never came."""
    content = [{"type": "text", "text": OUTCOME_UNKNOWN_TEXT if started else NOT_STARTED_TEXT}]
    message: dict[str, Any] = {"id": f"interrupted-tool-result-{call}-{seq}"}
    source = {"kind": "tool", "callId": call}
    if flat:
        message |= {"role": "tool", "toolCallId": call, "isError": True, "source": source, "content": content}
    else:
        block = {"type": "tool-result", "toolCallId": call, "isError": True, "content": content}
        message |= {"role": "user", "source": source, "content": [block]}
    name, code = _UNKNOWN if started else _NOT_STARTED
    return {"message": message, "error": {"name": name, "code": code}}


_NOT_STARTED = ("ToolNotStartedError", "TOOL_NOT_STARTED")
_UNKNOWN = ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")
