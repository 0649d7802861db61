"""The chunks of a chat-completions answer.

The answer is a row of JSON payloads and then ``[DONE]``; nothing behind that is read. Each payload has ``choices``
(absent or null is none), and may have ``usage`` and ``error``. Per choice, in this order:

========================  ==========================================================================================
``delta``                 chunks
========================  ==========================================================================================
``reasoning_content``     a reasoning delta; one reasoning block per answer
``content``               a text delta; one text block per answer
``tool_calls[]``          a tool-call delta each; one block per wire ``index``
========================  ==========================================================================================

Empty text opens no block and is no chunk. The first use of a block gives its ``block-start``, under the next index. A
fragment of a tool call sets the id and the name where it has them, and its delta repeats what is known of both: "" for
an id that has not come, no name for one that has not. A fragment without ``index`` belongs to the call of its id, or
to a new call for a new id, or to the last call where it has no id.

``finish_reason`` and ``usage`` are kept, the latest wins. ``[DONE]`` gives ``block-end`` of all blocks in the order of
their starts, then ``usage`` if any came, then ``finish``: ``stop`` (also where no reason came), ``tool_calls`` and
``length`` have their own; any other reason is an error with its name in capitals as code. A stop without any block is
the error ``EMPTY_RESPONSE``. A body that ends before is ``STREAM_CLOSED``, a payload that is no JSON object is
``MALFORMED_RESPONSE``, and an ``error`` in a payload fails the answer by its wording.

Gateways in front of other models get more: only the choice with index 0 (or none) is read, thinking may stand in
``reasoning``, ``refusal`` is text, ``function_call`` is an older spelling of one tool call, empty ids and names are
none, a call whose id never came ends with ``call-<index>``, the finish reason ``function_call`` is ``tool_calls``, and
input tokens are never below 0.

Usage: input is ``prompt_tokens`` less what the cache held (``prompt_tokens_details.cached_tokens``, else
``prompt_cache_hit_tokens``), output is ``completion_tokens``, reasoning is
``completion_tokens_details.reasoning_tokens``. A report without ``prompt_tokens`` or ``completion_tokens`` is
none.

Members that are not of the expected kind count as absent, so that whatever comes gives chunks or a failure.
Source: docs/providers.md, "Chat completions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from playhead.adapters.providers.answer_room import AnswerRoom
from playhead.adapters.providers.chat_failures import told_failure
from playhead.adapters.providers.chat_profile import ChatProfile
from playhead.adapters.providers.dialect import WireEvent
from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore import json_text, members
from playhead.eventstore.blocks import Block, ReasoningBlock, TextBlock, ToolCallBlock
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from playhead.eventstore.failures import Failure
from playhead.eventstore.ids import CallId, is_safe_integer
from playhead.eventstore.reasons import (
    FinishError,
    FinishMaxTokens,
    FinishReason,
    FinishStop,
    FinishToolCalls,
)
from playhead.eventstore.usage import Usage

DONE = "[DONE]"
"""The data of the event that ends an answer."""

EMPTY_RESPONSE = "model returned a completed response with no content"
STREAM_CLOSED = "SSE stream ended without [DONE]"
MALFORMED = "malformed SSE payload: "
"""What dsh records as the messages of these failures: a decoded exchange equals its recording."""

REASONS: Mapping[str, FinishReason] = {
    "stop": FinishStop(),
    "tool_calls": FinishToolCalls(),
    "length": FinishMaxTokens(),
}
"""Wire finish reason -> ours."""

_SHOWN_CHARS = 120


class ChatDecoder:
    """Turns the events of one answer into chunks."""

    def __init__(self, profile: ChatProfile) -> None:
        self.done = False
        self._profile = profile
        self._room = AnswerRoom(_malformed)
        self._blocks: list[_Block] = []
        self._prose: dict[str, _Block] = {}
        self._calls: dict[int, _Block] = {}
        self._calls_by_id: dict[str, _Block] = {}
        self._last_call: _Block | None = None
        self._function_call: _Block | None = None
        self._reason: str | None = None
        self._usage: Usage | None = None

    def push(self, event: WireEvent) -> Iterator[Chunk]:
        """The chunks that ``event`` gives. Raises ``AdapterError`` for a failure, after the chunks before it."""
        if self.done or not event.data:
            return
        if event.data.strip() == DONE:
            yield from self._finish()
        else:
            yield from self._payload(_parsed(event.data))

    def end(self) -> Iterator[Chunk]:
        """What the end of the body gives: nothing after ``[DONE]``, else the failure ``STREAM_CLOSED``.

        Where the profile has no terminator, a finish reason takes its place.
        """
        if self.done:
            return
        if self._profile.has_terminator or self._reason is None:
            raise AdapterError(Failure(message=STREAM_CLOSED, code="STREAM_CLOSED"))
        yield from self._finish()

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Chunk]:
        """The chunks of an answer that came as one object: its messages are read as deltas.

        Each tool call stands whole, so it is one by its place, whatever its id.
        """
        choices = [
            {**choice, "delta": _as_delta(members.inner(choice, "message"))}
            for choice in members.objects(dict(answer), "choices")
        ]
        yield from self._payload({**answer, "choices": choices})
        yield from self._finish()

    def _payload(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        error = payload.get("error")
        if isinstance(error, dict) or (isinstance(error, str) and error):
            raise AdapterError(told_failure(error))
        for choice in members.objects(payload, "choices"):
            if self._profile.is_gateway and choice.get("index") not in (None, 0):
                continue
            yield from self._delta(members.inner(choice, "delta"))
            self._reason = members.text(choice, "finish_reason") or self._reason
        self._usage = self._usage_of(members.inner(payload, "usage")) or self._usage

    def _delta(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        is_gateway = self._profile.is_gateway
        thinking = members.text(delta, "reasoning_content")
        if is_gateway:
            thinking = thinking or members.text(delta, "reasoning")
        yield from self._say("reasoning", thinking)
        yield from self._say("text", members.text(delta, "content"))
        if is_gateway:
            yield from self._say("text", members.text(delta, "refusal"))
        for fragment in members.objects(delta, "tool_calls"):
            yield from self._call_fragment(fragment)
        function = delta.get("function_call")
        if is_gateway and isinstance(function, dict):
            if self._function_call is None:
                self._function_call = self._open("tool-call")
                yield BlockStart(self._function_call.index, "tool-call")
            yield self._grow(self._function_call, None, function)

    def _say(self, kind: str, text: str | None) -> Iterator[Chunk]:
        if not text:
            return
        block = self._prose.get(kind)
        if block is None:
            block = self._prose[kind] = self._open(kind)
            yield BlockStart(block.index, kind)
        self._write(block, text)
        yield TextDelta(block.index, text) if kind == "text" else ReasoningDelta(block.index, text)

    def _call_fragment(self, fragment: dict[str, Any]) -> Iterator[Chunk]:
        index, id = fragment.get("index"), members.text(fragment, "id")
        if is_safe_integer(index):
            block = self._calls.get(int(index))
        elif id:
            block = self._calls_by_id.get(id)
        else:
            block = self._last_call
        if block is None:
            block = self._open("tool-call")
            if is_safe_integer(index):
                self._calls[int(index)] = block
            yield BlockStart(block.index, "tool-call")
        if id:
            self._calls_by_id[id] = block
        self._last_call = block
        yield self._grow(block, id, members.inner(fragment, "function"))

    def _grow(self, block: _Block, id: str | None, function: dict[str, Any]) -> Chunk:
        """The delta of one fragment of a tool call."""
        block.id = self._told(block.id, id)
        block.name = self._told(block.name, members.text(function, "name"))
        arguments = members.text(function, "arguments") or ""
        self._write(block, arguments)
        return ToolCallDelta(block.index, CallId(block.id or ""), block.name, arguments)

    def _told(self, known: str | None, given: str | None) -> str | None:
        if given is None or (given == "" and self._profile.is_gateway):
            return known
        return given

    def _open(self, kind: str) -> _Block:
        self._room.take_block()
        block = _Block(len(self._blocks), kind)
        self._blocks.append(block)
        return block

    def _write(self, block: _Block, text: str) -> None:
        self._room.take(len(text))
        block.text.write(text)

    def _finish(self) -> Iterator[Chunk]:
        self.done = True
        for block in self._blocks:
            yield BlockEnd(block.index, block.closed(self._profile))
        if self._usage is not None:
            yield UsageChunk(self._usage)
        yield FinishChunk(self._finish_reason())

    def _finish_reason(self) -> FinishReason:
        wire = self._reason or "stop"
        if self._profile.is_gateway and wire == "function_call":
            wire = "tool_calls"
        if wire == "stop" and not self._blocks:
            return FinishError(failure=Failure(message=EMPTY_RESPONSE, code="EMPTY_RESPONSE"))
        return REASONS.get(wire) or FinishError(failure=refused(wire))

    def _usage_of(self, report: dict[str, Any]) -> Usage | None:
        prompt, output = _count(report, "prompt_tokens"), _count(report, "completion_tokens")
        if prompt is None or output is None:
            return None
        cached = _count(members.inner(report, "prompt_tokens_details"), "cached_tokens")
        if cached is None:
            cached = _count(report, "prompt_cache_hit_tokens")
        fresh = prompt - (cached or 0)
        return Usage(
            input_tokens=max(0, fresh) if self._profile.is_gateway else fresh,
            output_tokens=output,
            cache_read_tokens=cached,
            reasoning_tokens=_count(members.inner(report, "completion_tokens_details"), "reasoning_tokens"),
            total_tokens=_count(report, "total_tokens") if self._profile.has_totals else None,
        )


class _Block:
    """A block of the answer, up to now."""

    __slots__ = ("id", "index", "kind", "name", "text")

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.text = StringIO()
        self.id: str | None = None
        self.name: str | None = None

    def closed(self, profile: ChatProfile) -> Block:
        """The complete block. Halves of a character that came in two deltas are joined."""
        text = json_text.whole(self.text.getvalue())
        if self.kind == "text":
            return TextBlock(text=text)
        if self.kind == "reasoning":
            return ReasoningBlock(text=text)
        id = self.id or (fallback_id(self.index) if profile.is_gateway else "")
        return ToolCallBlock(id=CallId(id), name=self.name or "", arguments=text)


def fallback_id(index: int) -> str:
    """The id of a tool call that a gateway sent without any."""
    return f"call-{index}"


def refused(reason: str) -> Failure:
    """The failure that stands for a finish reason of the provider's own, such as ``content_filter``."""
    return Failure(message=f"the model stopped with {reason[:_SHOWN_CHARS]!r}", code=reason.upper())


def _as_delta(message: dict[str, Any]) -> dict[str, Any]:
    """The message of a whole answer as one delta that has everything."""
    calls = members.objects(message, "tool_calls")
    return {**message, "tool_calls": [{**call, "index": at} for at, call in enumerate(calls)]}


def is_payload(data: str) -> bool:
    """Whether the data of an event is one that is read: ``[DONE]``, nothing, or a JSON object."""
    return data.strip() in ("", DONE) or _object(data) is not None


def _parsed(data: str) -> dict[str, Any]:
    payload = _object(data)
    if payload is None:
        raise _malformed(f"{MALFORMED}{data[:_SHOWN_CHARS]}")
    return payload


def _object(data: str) -> dict[str, Any] | None:
    try:
        payload = parse_payload(data)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def _malformed(message: str) -> AdapterError:
    return AdapterError(Failure(message=message, code="MALFORMED_RESPONSE"))


def _count(report: dict[str, Any], member: str) -> int | None:
    """A number of tokens, or None for anything else."""
    value = report.get(member)
    return int(value) if is_safe_integer(value) and value >= 0 else None
