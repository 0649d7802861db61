"""One model call: header, request, stream, and what becomes of it.

Into the log go, in order: ``request/header`` and ``request/context`` where they differ from what the log says last or
where this process has not sent any yet; one ``assistant/chunk`` per chunk as it arrives; and ``assistant/message`` for
a success, which cites exactly the chunks of this call. A call that fails leaves its chunks with a failed ``finish`` at
the end, and no message. One that is cancelled leaves its chunks, and a message marked ``interrupted`` where some text
had come; the chunk at hand when the cancellation is seen is not kept. So does a task that is torn down from outside,
as at the end of its loop: that is a cancellation as disposed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from playhead.eventstore import json_text
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.blocks import ToolCallBlock
from playhead.eventstore.cancel import DISPOSED, CancelToken, is_torn_down
from playhead.eventstore.chunk_source import AdapterError, ChunkSource, ModelRequest
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.ids import MessageId
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import AnyFinishReason, FinishAborted, FinishError, is_failure
from playhead.eventstore.request_header import RequestHeader
from playhead.live.session import LiveSession
from playhead.projections.replay_state import for_provider


@dataclass(frozen=True, slots=True)
class Answer:
    """A call that gave a message."""

    finish: AnyFinishReason
    tool_calls: tuple[ToolCallBlock, ...]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of ``turn`` and ``step``, to be made once."""

    session: LiveSession
    source: ChunkSource
    new_id: Callable[[], str]
    turn: int
    step: int
    token: CancelToken

    async def make(self, header: RequestHeader) -> Answer:
        """The answer, recorded. Raises ``AdapterError`` when the call failed, ``Cancelled`` when it was cancelled."""
        request = self._request(header)
        await self.session.flush()
        self.token.check()
        assembler = BlockAssembler()
        seqs: list[int] = []
        try:
            await self._stream(request, assembler, seqs)
        except asyncio.CancelledError:
            if is_torn_down():
                self.token.cancel({"kind": DISPOSED})
                if not assembler.finished:
                    self._keep_what_came(header, assembler, seqs)
            raise
        if self.token.cancelled and not assembler.finished:
            self._keep_what_came(header, assembler, seqs)
            self.token.check()
        finish = assembler.finish
        if is_failure(finish):
            raise AdapterError(cast("FinishError | FinishAborted", finish).failure)
        return self._keep(header, assembler, seqs)

    def _request(self, header: RequestHeader) -> ModelRequest:
        """What the model is asked. The messages are copies: a source may do with them what it likes."""
        provider = header.config.provider
        sent = (for_provider(message, provider) for message in self.session.messages())
        return ModelRequest(
            config=header.config,
            messages=tuple(json_text.parse(json_text.dumps(message)) for message in sent),
            system=header.system,
            tools=header.tools or (),
            session=self.session.id,
        )

    async def _stream(self, request: ModelRequest, assembler: BlockAssembler, seqs: list[int]) -> None:
        """Record the chunks of the answer until its end, or until the cancellation."""
        async with aclosing(cast("Any", self._chunks(request))) as chunks:
            async for chunk in chunks:
                if self.token.cancelled:
                    return
                data = {"turn": self.turn, "step": self.step, "chunk": chunk.to_json()}
                seqs.append(self.session.append("assistant/chunk", data).seq)
                assembler.push(chunk)
                await self.session.room()
                if isinstance(chunk, FinishChunk):
                    return

    async def _chunks(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """The chunks of the source; a failure ends them as a ``finish``, as the log is to have it."""
        stream = self.source.stream(request, self.token)
        try:
            async with aclosing(cast("Any", stream)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Exception as error:
            if self.token.cancelled:
                return
            failure = error.failure if isinstance(error, AdapterError) else Failure.of(error)
            if failure.code == "ABORTED":
                yield FinishChunk(FinishAborted(failure=failure))
            else:
                yield FinishChunk(FinishError(failure=failure))

    def _keep(self, header: RequestHeader, assembler: BlockAssembler, seqs: list[int]) -> Answer:
        blocks = assembler.blocks()
        message = Message.assistant(
            MessageId(self.new_id()),
            blocks,
            provider=header.config.provider,
            model=header.config.model,
            replay_state=assembler.replay_state,
        )
        self._append_message(message, assembler, seqs)
        return Answer(assembler.finish, message.tool_calls)

    def _keep_what_came(self, header: RequestHeader, assembler: BlockAssembler, seqs: list[int]) -> None:
        blocks = assembler.interrupted_blocks()
        if not blocks:
            return
        config = header.config
        message = Message.assistant(
            MessageId(self.new_id()), blocks, provider=config.provider, model=config.model
        )
        self._append_message(message, assembler, seqs, interrupted=True)

    def _append_message(
        self, message: Message, assembler: BlockAssembler, seqs: list[int], *, interrupted: bool = False
    ) -> None:
        data: dict[str, Any] = {"turn": self.turn, "step": self.step, "message": message.to_json()}
        if assembler.usage is not None:
            data["usage"] = assembler.usage.to_json()
        if interrupted:
            data["interrupted"] = True
        self.session.append("assistant/message", data, surface_op="append", source_seqs=seqs)
