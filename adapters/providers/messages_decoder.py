"""The chunks of a Messages answer.

An answer is a row of events whose data is JSON; what happens is in its ``type``, and the name of the event says the
same again. Blocks have an ``index`` on the wire; ours count the blocks in the order of their starts.

===============================  ===================================================================================
``message_start``                nothing; ``message`` has model, id and the first ``usage``
``content_block_start``          ``block-start``. ``content_block`` is ``text`` or ``thinking`` (text that it begins
                                 with is a delta), ``redacted_thinking`` (reasoning without text), or ``tool_use``:
                                 its id and name are a delta without arguments
``content_block_delta``          a delta of ``text_delta``, ``thinking_delta`` or ``input_json_delta``; a
                                 ``signature_delta`` goes to the replay state
``content_block_stop``           ``block-end``. The arguments of a tool are what its deltas spelled, else the
                                 ``input`` that it started with
``message_delta``                nothing; it has ``stop_reason`` and further ``usage``, of which what is there holds
``message_stop``                 ``usage``, then ``finish``
``error``                        a failure, see ``messages_failures``
``ping`` and any other           nothing
===============================  ===================================================================================

Usage: input, output, ``cacheRead`` and ``cacheWrite`` are ``input_tokens`` (which is what was not cached),
``output_tokens``, ``cache_read_input_tokens`` and ``cache_creation_input_tokens``. A success finishes with the replay
state ``{response: {kind, version: 1, model, ...}, blocks}``, one entry per block, which has the signature of thinking
and the data of redacted thinking: a later request sends both back.

How it can fail: an ``error`` event; a body that ends before ``message_stop`` (``STREAM_CLOSED``); what is not in the
format (``MALFORMED_RESPONSE``); a stop without any block (``EMPTY_RESPONSE``); a stop reason that is no success, such
as ``refusal``, whose name in capitals is the code. What else is refused depends on the profile.
Source: docs/providers.md, "Messages"; platform.claude.com, "Streaming messages" (2026).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from typing import Any

from playhead.adapters.providers.answer_room import AnswerRoom
from playhead.adapters.providers.dialect import WireEvent
from playhead.adapters.providers.messages_block import ReadBlock
from playhead.adapters.providers.messages_failures import told_failure
from playhead.adapters.providers.messages_profile import MessagesProfile
from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore import json_text
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
from playhead.eventstore.ids import SAFE_INTEGER, CallId, is_safe_integer
from playhead.eventstore.reasons import FinishError, FinishMaxTokens, FinishReason
from playhead.eventstore.usage import Usage

COUNTS: Mapping[str, str] = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
"""The counts of tokens on the wire, and our names for them."""

_KINDS: Mapping[str, str] = {
    "text": "text",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "tool_use": "tool-call",
}
"""The kinds of blocks on the wire that have one of ours."""

_DELTAS: Mapping[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("reasoning", "thinking"),
    "signature_delta": ("reasoning", "signature"),
    "input_json_delta": ("tool-call", "partial_json"),
}
"""For each kind of delta, the kind of block that it belongs to, and the member with its text."""

_SHOWN_CHARS = 120


class MessagesDecoder:
    """Turns the events of one answer into chunks."""

    def __init__(self, profile: MessagesProfile) -> None:
        self.done = False
        self._profile = profile
        self._room = AnswerRoom(self._malformed)
        self._started = False
        self._model = ""
        self._id = ""
        self._blocks: list[ReadBlock] = []
        self._by_index: dict[int, ReadBlock | None] = {}
        self._counts: dict[str, int] = {}
        self._stop_reason: str | None = None

    def push(self, event: WireEvent) -> Iterator[Chunk]:
        """The chunks that ``event`` gives. Raises ``AdapterError`` for a failure, after the chunks before it."""
        if self.done or not event.data:
            return
        payload = self._parsed(event)
        kind = payload["type"]
        if kind == "error":
            raise AdapterError(told_failure(payload, self._profile.label))
        handle = _HANDLERS.get(kind)
        if handle is None:
            return
        if self._profile.strict and not self._started and kind != "message_start":
            raise self._malformed("event precedes message_start")
        yield from handle(self, payload)

    def end(self) -> Iterator[Chunk]:
        """Nothing after ``message_stop``, else the failure ``STREAM_CLOSED``."""
        if not self.done:
            message = f"{self._profile.label} stream ended before message_stop"
            raise AdapterError(Failure(message=message, code="STREAM_CLOSED"))
        return iter(())

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Chunk]:
        """The chunks of an answer that came as one message object."""
        message = dict(answer)
        if message.get("type") == "error":
            raise AdapterError(told_failure(message, self._profile.label))
        content = message.get("content")
        if not isinstance(content, list):
            raise self._malformed("answer without content")
        yield from self._message_start({"message": message})
        for index, block in enumerate(content):
            yield from self._block_start({"index": index, "content_block": block})
            yield from self._block_stop({"index": index})
        yield from self._message_delta({"delta": message})
        yield from self._message_stop({})

    def _parsed(self, event: WireEvent) -> dict[str, Any]:
        try:
            payload = parse_payload(event.data)
        except ValueError as error:
            raise self._profile.malformed("SSE contains invalid JSON") from error
        payload = self._object(payload)
        kind = payload.get("type")
        is_other = event.event not in ("message", kind)
        if not isinstance(kind, str) or (self._profile.strict and is_other):
            raise self._profile.malformed("SSE event type mismatch")
        return payload

    def _message_start(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        if self._started:
            raise self._malformed("duplicate message_start")
        message = self._member(payload, "message")
        self._started = True
        self._model = _text_or_empty(message.get("model"))
        self._id = _text_or_empty(message.get("id"))
        self._count(self._member(message, "usage"))
        return iter(())

    def _block_start(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        wire_index = self._index(payload)
        if wire_index in self._by_index or (self._profile.strict and self._stop_reason is not None):
            raise self._malformed("block starts after settlement or repeats an index")
        native = self._object(payload.get("content_block"))
        wire_kind = native.get("type")
        kind = _KINDS.get(wire_kind) if isinstance(wire_kind, str) else None
        if kind is None or (wire_kind == "redacted_thinking" and self._profile.strict):
            self._pass_over(wire_index, wire_kind)
            return
        self._room.take_block()
        block = ReadBlock(len(self._blocks), kind)
        if self._profile.types_entries:
            block.entry["type"] = kind
        begin = _STARTS[str(wire_kind)](self, block, native)
        self._blocks.append(block)
        self._by_index[wire_index] = block
        yield BlockStart(block.index, kind)
        if kind == "tool-call":
            yield ToolCallDelta(block.index, block.id, block.name, "")
        elif begin:
            yield self._grow(block, begin)

    def _pass_over(self, wire_index: int, wire_kind: object) -> None:
        if self._profile.strict:
            message = f"{self._profile.label} does not support response block {_shown(wire_kind)}"
            raise AdapterError(Failure(message=message, code="UNSUPPORTED_CONTENT"))
        self._room.take_block()
        self._by_index[wire_index] = None

    def _start_text(self, _block: ReadBlock, native: dict[str, Any]) -> str:
        return self._text(native, "text")

    def _start_thinking(self, block: ReadBlock, native: dict[str, Any]) -> str:
        if "signature" in native:
            self._sign(block, self._text(native, "signature"))
        return self._text(native, "thinking")

    def _start_redacted(self, block: ReadBlock, native: dict[str, Any]) -> str:
        data = self._text(native, "data")
        self._room.take(len(data))
        block.entry["redacted"] = data
        return ""

    def _start_tool(self, block: ReadBlock, native: dict[str, Any]) -> str:
        id, block.name = self._text(native, "id"), self._text(native, "name")
        if self._profile.strict and not (id and block.name):
            raise self._malformed("empty tool identity")
        block.id = CallId(id or f"call-{block.index}")
        try:
            block.input = json_text.dumps(self._member(native, "input")).decode()
        except ValueError as error:  # a number that no double holds
            raise self._malformed("tool input is invalid JSON") from error
        self._room.take(len(block.input))
        return ""

    def _block_delta(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        block = self._open_block(payload)
        delta = self._object(payload.get("delta"))
        if block is None:
            return
        wire_kind = delta.get("type")
        known = _DELTAS.get(wire_kind) if isinstance(wire_kind, str) else None
        if known is None and not self._profile.strict:
            return
        if known is None or known[0] != block.kind:
            raise self._malformed(f"unsupported delta {_shown(wire_kind)} for {block.kind}")
        text = self._text(delta, known[1])
        if wire_kind == "signature_delta":
            self._sign(block, text)
        elif text or self._profile.keeps_empty:
            yield self._grow(block, text)

    def _block_stop(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        block = self._open_block(payload)
        if block is not None:
            yield self._close(block)

    def _message_delta(self, payload: dict[str, Any]) -> Iterator[Chunk]:
        delta = self._member(payload, "delta")
        reason = delta.get("stop_reason")
        if reason is not None:
            if self._profile.strict and not (
                isinstance(reason, str) and reason in self._profile.stop_reasons
            ):
                raise self._malformed(f"unsupported stop reason {_shown(reason)}")
            self._stop_reason = _text_or_empty(reason) or self._stop_reason
        if "usage" in payload:
            self._count(self._member(payload, "usage"))
        return iter(())

    def _message_stop(self, _payload: dict[str, Any]) -> Iterator[Chunk]:
        still_open = [block for block in self._blocks if not block.closed]
        if self._profile.strict and (still_open or self._stop_reason is None):
            raise self._malformed("message_stop without settled blocks and stop reason")
        self.done = True
        for block in still_open:
            yield self._close(block)
        reason = self._finish_reason()
        failed = isinstance(reason, FinishError)
        usage = None if failed and self._profile.strict else self._usage()
        if usage is not None:
            yield UsageChunk(usage)
        yield FinishChunk(reason, None if failed else self._replay_state())

    def _finish_reason(self) -> FinishReason:
        label, wire = self._profile.label, self._stop_reason or "end_turn"
        reason = self._profile.stop_reasons.get(wire)
        if reason is None:
            code = wire[:_SHOWN_CHARS].upper()
            return FinishError(failure=Failure(message=f"{label} stopped with {_shown(wire)}", code=code))
        if reason.tag == "stop" and not self._blocks:
            return FinishError(failure=Failure(message=f"{label} returned no content", code="EMPTY_RESPONSE"))
        if self._profile.strict and not isinstance(reason, FinishMaxTokens):
            for block in self._blocks:
                if block.kind == "tool-call" and not block.has_json_object:
                    return FinishError(failure=self._malformed("tool input is invalid JSON").failure)
        return reason

    def _replay_state(self) -> dict[str, Any]:
        response: dict[str, Any] = {"kind": self._profile.kind, "version": 1, "model": self._model}
        if not self._profile.types_entries:
            response |= {"id": self._id, "stopReason": self._stop_reason}
        return {"response": response, "blocks": [block.signed_entry for block in self._blocks]}

    def _usage(self) -> Usage | None:
        """What the call took; None where nothing was reported. A part that was not reported counts 0."""
        if not self._counts and not self._profile.strict:
            return None
        counts = {"input_tokens": 0, "output_tokens": 0, **self._counts}
        total = sum(counts.values())
        has_total = self._profile.has_totals and total <= SAFE_INTEGER
        return Usage(**counts, total_tokens=total if has_total else None)

    def _count(self, report: dict[str, Any]) -> None:
        for wire, ours in COUNTS.items():
            value = report.get(wire)
            if is_safe_integer(value) and value >= 0:
                self._counts[ours] = int(value)
            elif self._profile.strict and wire in report:
                raise self._malformed(f"invalid {wire}")

    def _open_block(self, payload: dict[str, Any]) -> ReadBlock | None:
        """The block that ``payload`` goes on with; None for one that is passed over."""
        index = self._index(payload)
        block = self._by_index.get(index)
        if index not in self._by_index or (block is not None and block.closed):
            raise self._malformed("delta/stop without an open block")
        return block

    def _grow(self, block: ReadBlock, text: str) -> Chunk:
        self._room.take(len(text))
        block.text.write(text)
        if block.kind == "tool-call":
            name = block.name if self._profile.repeats_name else None
            return ToolCallDelta(block.index, block.id, name, text)
        return TextDelta(block.index, text) if block.kind == "text" else ReasoningDelta(block.index, text)

    def _sign(self, block: ReadBlock, signature: str) -> None:
        self._room.take(len(signature))
        if signature or self._profile.types_entries:
            block.signature = block.signature or StringIO()
            block.signature.write(signature)

    def _close(self, block: ReadBlock) -> Chunk:
        block.closed = True
        return BlockEnd(block.index, block.whole())

    def _index(self, payload: dict[str, Any]) -> int:
        index = payload.get("index")
        if not is_safe_integer(index) or index < 0:
            raise self._malformed("invalid block index")
        return int(index)

    def _object(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._profile.malformed("expected a JSON object")
        return value

    def _member(self, owner: Mapping[str, Any], member: str) -> dict[str, Any]:
        """The object under ``member``. One that is none stands for an empty one where the profile is not strict."""
        value = owner.get(member)
        return self._object(value) if self._profile.strict or isinstance(value, dict) else {}

    def _text(self, owner: dict[str, Any], member: str) -> str:
        """The text under ``member``. One that is not there is empty where the profile is not strict."""
        value = owner.get(member) if self._profile.strict else owner.get(member, "")
        if not isinstance(value, str):
            raise self._profile.malformed("expected a string field")
        return value

    def _malformed(self, detail: str) -> AdapterError:
        return self._profile.malformed(f"stream: {detail}")


def _shown(value: object) -> str:
    """A value of the wire for the message of a failure: text, cut short, or what kind of value it is."""
    return value[:_SHOWN_CHARS] if isinstance(value, str) else type(value).__name__


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


_STARTS: Mapping[str, Callable[[MessagesDecoder, ReadBlock, dict[str, Any]], str]] = {
    "text": MessagesDecoder._start_text,
    "thinking": MessagesDecoder._start_thinking,
    "redacted_thinking": MessagesDecoder._start_redacted,
    "tool_use": MessagesDecoder._start_tool,
}
"""What each kind of block takes from its start; the text that it begins with comes back."""

_HANDLERS: Mapping[str, Callable[[MessagesDecoder, dict[str, Any]], Iterator[Chunk]]] = {
    "message_start": MessagesDecoder._message_start,
    "content_block_start": MessagesDecoder._block_start,
    "content_block_delta": MessagesDecoder._block_delta,
    "content_block_stop": MessagesDecoder._block_stop,
    "message_delta": MessagesDecoder._message_delta,
    "message_stop": MessagesDecoder._message_stop,
}
