"""A chat-completions answer, from chunks: what ``chat_decoder`` reads, written.

The first event has the role alone. Then each delta is one event; a fragment of a tool call names the id and the
function where they are new, as providers do. The end of a block is no event, unless it holds more than its deltas
said: then the rest is sent, so that a block without deltas (the recorded output of a summary) arrives whole. The
usage rides on the event with the finish reason, or comes in an event of its own from a gateway; ``[DONE]`` is last.

How an answer ends:

==============================================  ================================================================
finish                                          the last events
==============================================  ================================================================
a success                                       the finish reason, ``[DONE]``
none, ``aborted``, ``STREAM_CLOSED``,           none: the connection tells it, or its silence
``TRANSPORT``, ``TIMEOUT``, ``ABORTED``
an error with a status                          none: it was an answer of HTTP
``EMPTY_RESPONSE`` without any block            as a success, of which a reader finds that it is empty
a finish reason of the provider's own           that reason, ``[DONE]``
``MALFORMED_RESPONSE``                          an event that is no JSON
any other error                                 an event with an ``error``
==============================================  ================================================================

Halves of a character (lone surrogates) are written as the escapes of JSON, ``\\ud83d``, and all else as plain UTF-8.
Source: docs/providers.md, "Chat completions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from playhead.adapters.providers.chat_decoder import (
    DONE,
    MALFORMED,
    REASONS,
    fallback_id,
    is_payload,
    refused,
)
from playhead.adapters.providers.chat_failures import error_body
from playhead.adapters.providers.chat_profile import ChatProfile
from playhead.adapters.providers.dialect import WireEvent
from playhead.eventstore import json_text
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
from playhead.eventstore.usage import Usage

REFUSALS = frozenset({"CONTENT_FILTER", "INSUFFICIENT_SYSTEM_RESOURCE"})
"""Codes that are finish reasons of a provider, whatever message they were recorded with."""

_OUTSIDE = frozenset({"STREAM_CLOSED", "TRANSPORT", "TIMEOUT", "ABORTED"})
"""Codes of what happens to a connection, and is not told on it."""

DEFAULT_ID = "chatcmpl-0"
"""The id of an answer that was given none: clients want one."""

_WIRE_REASONS = {reason.tag: wire for wire, reason in REASONS.items()}


def encode(
    chunks: Iterable[Chunk], profile: ChatProfile, *, model: str, id: str
) -> Iterator[tuple[int, WireEvent]]:
    """The events of an answer, each with the number of chunks that had been taken when it was made."""
    answer = _Answer(profile)
    head = {"id": id or DEFAULT_ID, "object": "chat.completion.chunk", "created": 0, "model": model}
    for taken, chunk in enumerate(chunks, 1):
        if taken == 1:
            yield taken, _event(head, {"role": "assistant", "content": ""})
        for delta in answer.deltas(chunk):
            yield taken, _event(head, delta)
        if isinstance(chunk, FinishChunk):
            for event in _ending(answer, chunk.reason, head):
                yield taken, event
            return


def encode_whole(chunks: Iterable[Chunk], profile: ChatProfile, *, model: str, id: str) -> dict[str, Any]:
    """The same answer as one ``chat.completion`` object.

    Raises ``AdapterError`` with the failure that ended it, or with ``STREAM_CLOSED`` where it has no end.
    """
    answer = _Answer(profile)
    for chunk in chunks:
        for _ in answer.deltas(chunk):
            pass
        if isinstance(chunk, FinishChunk):
            reason = answer.finish_reason(chunk.reason)
            if isinstance(reason, Failure):
                raise AdapterError(reason)
            choice = {"index": 0, "message": answer.message(), "logprobs": None, "finish_reason": reason}
            head = {"id": id or DEFAULT_ID, "object": "chat.completion", "created": 0, "model": model}
            return {**head, "choices": [choice], **answer.usage()}
    raise AdapterError(Failure(message="the recorded answer has no end", code="STREAM_CLOSED"))


class _Answer:
    """An answer on its way to the wire: what was said of each block, and what is to be said at the end.

    Blocks are taken as the assembler takes them: the first start and the first end of an index count, a delta
    without a start opens a block of its kind, and one in a block of another kind goes on with that.
    """

    def __init__(self, profile: ChatProfile) -> None:
        self.is_gateway = profile.is_gateway
        self._has_totals = profile.has_totals
        self._fields = {
            "text": "content",
            "reasoning": profile.reasoning_field or "reasoning_content",
            "tool-call": "tool_calls",
        }
        self._blocks: dict[int, _Said] = {}
        self._calls = 0
        self._usage: Usage | None = None

    def deltas(self, chunk: Chunk) -> Iterator[dict[str, Any]]:
        """The deltas that say ``chunk``."""
        match chunk:
            case BlockStart(index=index, block_type=kind):
                self._block(index, kind)
            case TextDelta(index=index, text=text):
                yield from self._prose(self._block(index, "text"), text)
            case ReasoningDelta(index=index, text=text):
                yield from self._prose(self._block(index, "reasoning"), text)
            case ToolCallDelta(index=index, id=id, name=name, arguments_delta=arguments):
                yield from self._fragment(self._block(index, "tool-call"), id, name, arguments)
            case BlockEnd(index=index, block=block):
                yield from self._rest(index, block)
            case UsageChunk(usage=usage):
                self._usage = usage
            case FinishChunk():
                pass
            case _:
                assert_never(chunk)

    def finish_reason(self, reason: AnyFinishReason) -> str | Failure:
        """How the wire says that the answer ended so; the failure, for one that it has no reason for."""
        if not isinstance(reason, FinishError | FinishAborted):
            return _WIRE_REASONS.get(reason.tag, "stop")
        failure = reason.failure
        if failure.code == "EMPTY_RESPONSE" and not self._blocks:
            return "stop"
        own = failure.code.lower()
        is_own = failure.code in REFUSALS or failure == refused(own)
        was_whole = all(block.is_closed for block in self._blocks.values())
        return own if is_own and was_whole and failure.status is None else failure

    def usage(self) -> dict[str, Any]:
        """The member ``usage`` of a payload; nothing where no usage came."""
        usage = self._usage
        if usage is None:
            return {}
        prompt, cached, reasoning = usage.billed_input_tokens, usage.cache_read_tokens, usage.reasoning_tokens
        total = usage.total_tokens if self._has_totals else prompt + usage.output_tokens
        report: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": usage.output_tokens}
        if total is not None:
            report["total_tokens"] = total
        if cached is not None:
            report["prompt_tokens_details"] = {"cached_tokens": cached}
        if cached is not None and not self.is_gateway:
            report |= {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": prompt - cached}
        if reasoning is not None:
            report["completion_tokens_details"] = {"reasoning_tokens": reasoning}
        return {"usage": report}

    def message(self) -> dict[str, Any]:
        """The message of all that was said."""
        calls = [block.call() for block in self._blocks.values() if block.place is not None]
        texts: dict[str, list[str]] = {"content": []}
        for block in self._blocks.values():
            if block.kind in ("text", "reasoning"):
                texts.setdefault(self._fields[block.kind], []).extend(block.parts)
        said: dict[str, str | None] = {
            field: json_text.whole("".join(parts)) for field, parts in texts.items()
        }
        if calls:
            return {"role": "assistant", **said, "content": said["content"] or None, "tool_calls": calls}
        return {"role": "assistant", **said}

    def _block(self, index: int, kind: str) -> _Said:
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Said(index, kind)
        return block

    def _prose(self, block: _Said, text: str) -> Iterator[dict[str, Any]]:
        if block.kind in ("text", "reasoning") and not block.is_closed:
            block.parts.append(text)
            yield {self._fields[block.kind]: text}

    def _fragment(
        self, block: _Said, id: str | None, name: str | None, arguments: str
    ) -> Iterator[dict[str, Any]]:
        if block.kind != "tool-call" or block.is_closed:
            return
        fragment: dict[str, Any] = {}
        function: dict[str, Any] = {}
        if block.place is None:
            block.place = self._calls
            self._calls += 1
            fragment["type"] = "function"
        if id is not None and id != block.id:
            fragment["id"] = block.id = id
        if name is not None and name != block.name:
            function["name"] = block.name = name
        block.parts.append(arguments)
        function["arguments"] = arguments
        yield {"tool_calls": [{"index": block.place, **fragment, "function": function}]}

    def _rest(self, index: int, whole: AnyBlock) -> Iterator[dict[str, Any]]:
        """What the complete block holds beyond its deltas. What these said otherwise cannot be taken back."""
        block = self._block(index, whole.tag)
        if block.is_closed:
            return
        if not block.parts:
            block.kind = whole.tag
        said = json_text.whole("".join(block.parts))
        match whole:
            case TextBlock(text=text) | ReasoningBlock(text=text) if text != said and text.startswith(said):
                yield from self._prose(block, text[len(said) :])
            case ToolCallBlock(id=id, name=name, arguments=arguments):
                rest = arguments[len(said) :] if arguments.startswith(said) else ""
                known = id == block.id or (not block.id and self.is_gateway and id == fallback_id(index))
                if rest or not known or name != (block.name or ""):
                    yield from self._fragment(block, None if known else id, name, rest)
        block.is_closed = True


class _Said:
    """What was said of a block. ``place`` is the index of a tool call on the wire, once it was named there."""

    __slots__ = ("id", "index", "is_closed", "kind", "name", "parts", "place")

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.parts: list[str] = []
        self.is_closed = False
        self.place: int | None = None
        self.id = ""
        self.name: str | None = None

    def call(self) -> dict[str, Any]:
        """The complete tool call."""
        function = {"name": self.name or "", "arguments": json_text.whole("".join(self.parts))}
        return {"id": self.id or fallback_id(self.index), "type": "function", "function": function}


def _ending(answer: _Answer, reason: AnyFinishReason, head: dict[str, Any]) -> Iterator[WireEvent]:
    """The events that end the answer; none for a failure that ends it from outside."""
    ending = answer.finish_reason(reason)
    if isinstance(ending, str):
        if answer.is_gateway:
            yield _event(head, {}, ending)
            if answer.usage():
                yield _payload({**head, "choices": [], **answer.usage()})
        else:
            yield _event(head, {}, ending, answer.usage())
        yield WireEvent(DONE)
    elif ending.code == "MALFORMED_RESPONSE":
        yield WireEvent(_no_payload(ending.message))
    elif reason.tag == "error" and ending.status is None and ending.code not in _OUTSIDE:
        yield error_event(ending)


def error_event(failure: Failure) -> WireEvent:
    """The event that tells a client of ``failure`` in mid-stream."""
    return _payload(error_body(failure))


def _event(
    head: dict[str, Any],
    delta: dict[str, Any],
    reason: str | None = None,
    usage: dict[str, Any] | None = None,
) -> WireEvent:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return _payload({**head, "choices": [choice], **(usage or {})})


def _payload(payload: dict[str, Any]) -> WireEvent:
    return WireEvent(json_text.dumps(payload).decode("utf-8"))


def _no_payload(message: str) -> str:
    """A text that is no payload: the one that the failure's message shows, where it shows one."""
    shown = message.removeprefix(MALFORMED).encode("utf-8", "replace").decode("utf-8")
    return "{" if message == shown or is_payload(shown) else shown
