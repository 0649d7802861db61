"""A recorded answer in the Messages format: as events of a stream, or as one message object.

The events are those that ``messages_decoder`` reads. Signatures and usage stand at the end of a recording and near the
front of the wire, so the whole answer is looked at first; every event says after how many chunks it is due.

Blocks get dense indexes in the order in which they start on the wire. A block starts with its ``block-start``, a tool
call with the first chunk that is more than that: id and name are a part of its start. It stops with its ``block-end``,
which also spells what no delta did; one that is still open when the answer ends well is stopped then. A block of a type
that the format has no word for is left out.

How an answer ends:

=========================================  ===========================================================================
finish                                     the last events
=========================================  ===========================================================================
a success                                  ``message_delta`` with stop reason and usage, ``message_stop``
none, ``aborted``, ``STREAM_CLOSED``,      none: the connection tells it, or its silence
``TRANSPORT``, ``TIMEOUT``, ``ABORTED``
an error with a status                     none: it was an answer of HTTP
``EMPTY_RESPONSE`` without any block       as a success, of which a reader finds that it is empty
``MALFORMED_RESPONSE``                     as a success where the arguments of a tool are what is malformed and the
                                           profile reads them; else an event whose data is no JSON
an error behind a usage, of another code   as a success, with the code in small letters as stop reason
than an ``error`` event has
any other error                            an ``error`` event
=========================================  ===========================================================================

Figures that were not recorded are 0 on the wire, which has no word for "unknown"; cache figures are left out.
Source: docs/providers.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from playhead.adapters.providers.dialect import WireEvent
from playhead.adapters.providers.messages_answer import RecordedAnswer
from playhead.adapters.providers.messages_block import is_json_object
from playhead.adapters.providers.messages_failures import TOLD, error_body
from playhead.adapters.providers.messages_profile import MessagesProfile
from playhead.adapters.providers.messages_request import tool_input
from playhead.eventstore import json_text, members
from playhead.eventstore.assembler import BlockAssembler, OpenUnknownBlock
from playhead.eventstore.blocks import AnyBlock, ReasoningBlock, TextBlock, ToolCallBlock
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
from playhead.eventstore.reasons import AnyFinishReason, FinishAborted, FinishError

UNREADABLE = "{"
"""The data of an event that is no JSON."""

_CUT = frozenset({"STREAM_CLOSED", "TRANSPORT", "TIMEOUT", "ABORTED"})
"""The failures that the end of a connection tells, or its silence."""


def encode(
    chunks: Iterable[Chunk], profile: MessagesProfile, model: str, id: str
) -> Iterator[tuple[int, WireEvent]]:
    """The events of an answer, each with the number of chunks after which it is due."""
    taken = tuple(chunks)
    writer = _Writer(RecordedAnswer(taken, profile, model, id), profile)
    for due, chunk in enumerate(taken, 1):
        for payload in writer.payloads(chunk):
            yield due, payload
        if isinstance(chunk, FinishChunk):
            return


def encode_whole(chunks: Iterable[Chunk], profile: MessagesProfile, model: str, id: str) -> dict[str, Any]:
    """The answer as one message object.

    Raises ``AdapterError`` with the failure that ended it, or with ``STREAM_CLOSED`` where it has no end.
    """
    taken = tuple(chunks)
    answer = RecordedAnswer(taken, profile, model, id)
    match answer.reason:
        case None:
            raise AdapterError(Failure(message="the recorded answer has no end", code="STREAM_CLOSED"))
        case FinishError(failure=failure) | FinishAborted(failure=failure) if (
            failure.code != "EMPTY_RESPONSE"
        ):
            raise AdapterError(failure)
        case _:
            pass
    blocks, entries = _assembled(taken, answer)
    content = [
        wire
        for block, entry in zip(blocks, entries, strict=True)
        for wire in _whole_block(block, entry, profile)
    ]
    return answer.message(content, answer.stop_reason, answer.counts)


def _assembled(
    chunks: Sequence[Chunk], answer: RecordedAnswer
) -> tuple[Sequence[AnyBlock], list[dict[str, Any]]]:
    """The content of the message, and the entry of the replay state for each block."""
    assembler = BlockAssembler(chunks)
    try:
        blocks, state = assembler.blocks(), assembler.replay_state
    except OpenUnknownBlock:
        blocks, state = assembler.interrupted_blocks(), None
    entries = members.objects(state, "blocks") if answer.entries and isinstance(state, dict) else []
    return blocks, entries if len(entries) == len(blocks) else [{} for _ in blocks]


class _Block:
    """A block. ``place`` counts blocks as they are first seen, ``index`` as they start on the wire; ``said`` is what
    its deltas spelled."""

    __slots__ = ("index", "is_open", "kind", "place", "said", "started")

    def __init__(self, kind: str, place: int) -> None:
        self.kind = kind
        self.place = place
        self.index = -1
        self.started = False
        self.is_open = True
        self.said: list[str] = []


class _Writer:
    """Writes the events that each chunk of an answer is the reason for."""

    def __init__(self, answer: RecordedAnswer, profile: MessagesProfile) -> None:
        self._answer = answer
        self._profile = profile
        self._blocks: dict[int, _Block] = {}
        self._begun = False
        self._on_wire = 0

    def payloads(self, chunk: Chunk) -> Iterator[WireEvent]:
        match chunk:
            case BlockStart(index=index, block_type=kind):
                block = self._block(index, kind)
                if kind != "tool-call":
                    yield from self._start(index, block)
            case TextDelta(index=index, text=text):
                yield from self._delta(index, "text", text)
            case ReasoningDelta(index=index, text=text):
                yield from self._delta(index, "reasoning", text)
            case ToolCallDelta(index=index, arguments_delta=text):
                yield from self._delta(index, "tool-call", text)
            case BlockEnd(index=index, block=block):
                yield from self._end(index, block)
            case FinishChunk(reason=reason):
                yield from self._finish(reason)
            case UsageChunk():
                pass
            case _:
                assert_never(chunk)

    def _block(self, index: int, kind: str) -> _Block:
        return self._blocks.setdefault(index, _Block(kind, len(self._blocks)))

    def _start(self, index: int, block: _Block) -> Iterator[WireEvent]:
        """The start of a block that has none yet."""
        if block.started or block.kind not in _CONTENTS:
            return
        block.started, block.index = True, self._on_wire
        self._on_wire += 1
        yield from self._begin()
        content: dict[str, Any]
        match block.kind:
            case "text":
                content = {"type": "text", "text": ""}
            case "reasoning":
                content = self._thinking(self._entry(block))
            case _:
                call, name = self._answer.calls.get(index, ("", ""))
                content = {"type": "tool_use", "id": call or f"call-{block.index}", "name": name, "input": {}}
        yield _event("content_block_start", index=block.index, content_block=content)

    def _thinking(self, entry: dict[str, Any]) -> dict[str, Any]:
        redacted = members.text(entry, "redacted")
        if redacted is not None:
            return {"type": "redacted_thinking", "data": redacted}
        unsigned = self._profile.types_entries and self._answer.entries and "signature" not in entry
        return {"type": "thinking", "thinking": ""} | ({} if unsigned else {"signature": ""})

    def _delta(self, index: int, kind: str, text: str) -> Iterator[WireEvent]:
        block = self._block(index, kind)
        if block.kind not in _CONTENTS or not block.is_open:
            return
        is_first = not block.started
        yield from self._start(index, block)
        if not (is_first and block.kind == "tool-call" and not text):
            yield self._fragment(block, text)

    def _fragment(self, block: _Block, text: str) -> WireEvent:
        block.said.append(text)
        kind, member = _CONTENTS[block.kind]
        return _event("content_block_delta", index=block.index, delta={"type": kind, member: text})

    def _end(self, index: int, ended: AnyBlock) -> Iterator[WireEvent]:
        block = self._block(index, ended.tag)
        if block.kind not in _CONTENTS or not block.is_open:
            return
        yield from self._start(index, block)
        rest = _rest(ended, json_text.whole("".join(block.said)))
        if rest:
            yield self._fragment(block, rest)
        yield from self._stop(block)

    def _stop(self, block: _Block) -> Iterator[WireEvent]:
        block.is_open = False
        signature = members.text(self._entry(block), "signature")
        if block.kind == "reasoning" and signature:
            delta = {"type": "signature_delta", "signature": signature}
            yield _event("content_block_delta", index=block.index, delta=delta)
        yield _event("content_block_stop", index=block.index)

    def _entry(self, block: _Block) -> dict[str, Any]:
        """The entry of ``block`` in the replay state."""
        entries = self._answer.entries
        return entries[block.place] if entries else {}

    def _begin(self) -> Iterator[WireEvent]:
        if not self._begun:
            self._begun = True
            message = self._answer.message([], None, {**self._answer.counts, "output_tokens": 0})
            yield _event("message_start", message=message)

    def _finish(self, reason: AnyFinishReason) -> Iterator[WireEvent]:
        match reason:
            case FinishAborted():
                return
            case FinishError(failure=failure):
                yield from self._fail(failure)
            case _:
                yield from self._settle(self._answer.stop_reason)

    def _settle(self, stop_reason: str) -> Iterator[WireEvent]:
        yield from self._begin()
        for block in self._blocks.values():
            if block.started and block.is_open:
                yield from self._stop(block)
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        usage = {"output_tokens": self._answer.counts["output_tokens"]}
        yield _event("message_delta", delta=delta, usage=usage)
        yield _event("message_stop")

    def _fail(self, failure: Failure) -> Iterator[WireEvent]:
        code = failure.code
        if failure.status is not None or code in _CUT:
            return
        if code == "EMPTY_RESPONSE" and not self._on_wire:
            yield from self._settle("end_turn")
        elif code == "MALFORMED_RESPONSE" and self._has_bad_arguments():
            yield from self._settle("tool_use")
        elif code == "MALFORMED_RESPONSE":
            yield from self._begin()
            yield WireEvent(UNREADABLE, "content_block_delta")
        elif self._answer.has_usage and code not in TOLD and not self._profile.strict:
            yield from self._settle(code.lower())
        else:
            yield from self._begin()
            yield error_event(failure)

    def _has_bad_arguments(self) -> bool:
        """Whether a reader that looks into the arguments of tools finds the failure by itself."""
        blocks = [block for block in self._blocks.values() if block.started]
        return (
            self._profile.strict
            and not any(block.is_open for block in blocks)
            and any(
                block.kind == "tool-call" and not is_json_object("".join(block.said) or "{}")
                for block in blocks
            )
        )


def error_event(failure: Failure) -> WireEvent:
    """The event that tells a client of ``failure`` in mid-stream."""
    body = error_body(failure)
    return WireEvent(json_text.dumps(body).decode(), "error")


_CONTENTS: Mapping[str, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "tool-call": ("input_json_delta", "partial_json"),
}
"""For each type of block that the format has, the kind of its deltas, and the member with their text."""


def _event(kind: str, **parts: Any) -> WireEvent:
    return WireEvent(json_text.dumps({"type": kind, **parts}).decode(), kind)


def _rest(ended: AnyBlock, said: str) -> str:
    """What the complete block has and its deltas did not spell."""
    match ended:
        case TextBlock(text=text) | ReasoningBlock(text=text):
            whole = text
        case ToolCallBlock(arguments=arguments):
            whole = "" if arguments == "{}" and not said else arguments
        case _:
            whole = ""
    return whole[len(said) :] if whole.startswith(said) else ""


def _whole_block(
    block: AnyBlock, entry: dict[str, Any], profile: MessagesProfile
) -> Iterator[dict[str, Any]]:
    match block:
        case TextBlock(text=text):
            yield {"type": "text", "text": text}
        case ReasoningBlock(text=text):
            redacted = members.text(entry, "redacted")
            if redacted is not None:
                yield {"type": "redacted_thinking", "data": redacted}
            else:
                signature = members.text(entry, "signature") or ""
                yield {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCallBlock(id=call, name=name, arguments=arguments):
            yield {"type": "tool_use", "id": call, "name": name, "input": tool_input(arguments, profile)}
        case _:
            return
