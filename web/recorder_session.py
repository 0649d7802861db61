"""A session that is written from what a proxy sees: requests enter, answers stream in, and calls end.

One call at a time. Every fact has the time at which the proxy saw what it tells: a request when its body was there, a
chunk when the piece came that completed it. Source: docs/recording.md, "Facts".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.ids import MessageId, Seq
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import (
    CancelCause,
    FinishMaxTokens,
    TurnAborted,
    TurnFailed,
    TurnMaxTokens,
    is_failure,
)
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp
from playhead.eventstore.request_header import CallConfig, RequestHeader
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.writer import Writer
from playhead.live.session import LiveSession
from playhead.web.recorder_index import Telling
from playhead.web.recorder_rewrites import CutShort, Summary, SummedUp
from playhead.web.recorder_turns import COMPLETED, Turns

CLIENT_GONE = TurnAborted(reason=CancelCause(kind="user"))


class RecordedSession:
    """``stored``, open for the next call. What a crash left half written is closed first.

    ``digests`` stand for what the session has come to; ``turn_ends`` are the turns that ended since it was opened, each
    as what it had come to, and the seq of its end.
    """

    def __init__(
        self, stored: SqlSession, writer: Writer, new_id: Callable[[], str], now_ms: int, scope: str | None
    ) -> None:
        self.stored = stored
        self.turn_ends: list[tuple[tuple[bytes, ...], int]] = []
        self._telling = Telling(scope)
        self._new_id = new_id
        self._now_ms = now_ms
        self._queue = writer.open(stored)
        self._live = LiveSession(stored, lambda: self._now_ms, self._queue)
        self._turns = Turns(self._append, new_id)
        self._config: CallConfig | None = None
        self._call = BlockAssembler()
        self._seqs: list[Seq] = []
        is_torn = False
        for fact in stored.events(deltas=False):
            self._learn(fact)
            is_torn = _breaks_off(is_torn, fact)
        if is_torn:
            for fact in self._live.resume():
                self._learn(fact)

    @property
    def id(self) -> str:
        return self._live.id

    @property
    def last_turn(self) -> int:
        """The turn that is open, or was last."""
        return self._turns.last_turn

    @property
    def digests(self) -> tuple[bytes, ...]:
        return self._telling.digests

    @property
    def surface(self) -> list[tuple[Seq, dict[str, Any]]]:
        """What the model has seen: messages, each with the seq of its event."""
        return self._telling.surface

    def begin(
        self,
        request: ModelRequest,
        added: Sequence[dict[str, Any]],
        time_ms: int,
        changed: Sequence[CutShort] = (),
    ) -> None:
        """A request came that adds ``added`` to the session, and has ``changed`` results of tools."""
        self._now_ms = time_ms
        self._turns.enter(added)
        for cut in changed:
            self._cut_short(cut)
        self._config = request.config
        header = RequestHeader(config=request.config, system=request.system, tools=request.tools).canonical()
        logged = self._live.request_header
        if logged is None or not header.asks_the_same(RequestHeader.decode(logged)):
            reason = "initial" if logged is None else "change"
            self._append("request/header", {"header": header.to_json(), "reason": reason})
        context = {"provider": request.config.provider, "model": request.config.model}
        if context != self._live.request_context:
            self._append("request/context", context)
        self._call, self._seqs = BlockAssembler(), []

    def chunk(self, chunk: Chunk, time_ms: int) -> None:
        """The next chunk of the answer."""
        self._now_ms = time_ms
        self._seqs.append(
            Seq(self._append("assistant/chunk", {**self._turns.place, "chunk": chunk.to_json()}))
        )
        self._call.push(chunk)

    def end(self, time_ms: int) -> tuple[dict[str, int | None], str]:
        """The call is over: the place of its attempt, and how it ended in a word."""
        self._now_ms = time_ms
        turns = self._turns
        place: dict[str, int | None] = {"turn": turns.turn, "step": turns.step, "number": None, "seq": None}
        if self._seqs:
            place |= {"number": turns.tries, "seq": self._seqs[0]}
        finish = self._call.finish
        if not self._call.finished:
            self._cancelled()
            return place, "cancelled"
        if is_failure(finish):
            failure = finish.failure  # type: ignore[union-attr]
            turns.failed = TurnFailed(error=failure)
            return place, failure.code
        message = self._message(self._call.blocks(), self._call.replay_state)
        ends = TurnMaxTokens() if finish == FinishMaxTokens() else COMPLETED
        turns.answer(message, self._seqs, self._call.usage, ends=ends)
        return place, finish.tag

    def sum_up(self, summary: Summary, done: SummedUp, time_ms: int) -> dict[str, int | None]:
        """A part of what the model has seen gave way to a summary; the place of the call that made it."""
        turns, config, usage = self._turns, summary.config, summary.usage
        bracket = {"compactionId": self._new_id(), "turn": turns.turn}
        compaction = {"compactionId": bracket["compactionId"]}
        self._now_ms = summary.time_ms
        self._append("compaction/start", bracket)
        output = [block.to_json() for block in summary.output]
        made: dict[str, Any] = {
            **compaction,
            "summary": output,
            "rawOutput": output,
            "llmStreamCall": True,
            "shadowedRange": {"start": done.seqs[0], "end": done.seqs[-1]},
            "shadowedSeqs": done.seqs,
            "shadowedTokenCount": 0 if usage is None else usage.billed_input_tokens,
            "provider": config.provider,
            "model": config.model,
        }
        if config.max_tokens is not None:
            made["maxTokens"] = config.max_tokens
        if usage is not None:
            made["usage"] = usage.to_json()
        seq = self._append("compaction/summary", made)
        self._now_ms = time_ms
        checkpoint = {
            "id": self._new_id(),
            "role": "user",
            "content": done.content,
            "source": {"kind": "plugin", "plugin": "compact", **compaction},
        }
        span = Replace(done.seqs[0], done.seqs[-1])
        self._append("user/message", checkpoint, surface_op=span, source_seqs=done.seqs)
        self._append("compaction/end", bracket)
        return {"turn": turns.turn, "step": turns.step, "number": 0, "seq": seq}

    def committed(self) -> None:
        """Returns once everything is durable; raises what its commit failed with."""
        self._queue.flushed().result()

    def close(self) -> None:
        """Let go of the writer: everything is durable and sealed when this returns. Raises as ``committed`` does."""
        left = self._queue.left()
        self.committed()
        left.result()

    def keep(self, exchange: Exchange) -> None:
        """Keep the bytes of a call beside the log."""
        self.stored.keep_exchange(exchange)

    def _cut_short(self, cut: CutShort) -> None:
        (event,) = self.stored.read(cut.seq, cut.seq + 1)
        data = event.json
        block = {**data["message"]["content"][0], "content": cut.content}
        message = {**data["message"], "content": [block]}
        self._append(
            "tool/result",
            {**data, "message": message},
            surface_op=Replace(cut.seq, cut.seq),
            source_seqs=(cut.seq,),
        )

    def _cancelled(self) -> None:
        blocks = self._call.interrupted_blocks()
        if blocks:
            message = self._message(blocks, None)
            self._turns.answer(message, self._seqs, self._call.usage, ends=None, interrupted=True)
        self._turns.end(CLIENT_GONE)

    def _message(self, blocks: Sequence[Any], replay_state: Any) -> Message:
        assert self._config is not None
        return Message.assistant(
            MessageId(self._new_id()),
            blocks,
            provider=self._config.provider,
            model=self._config.model,
            replay_state=replay_state,
        )

    def _append(
        self,
        type: str,
        data: Any,
        *,
        surface_op: SurfaceOp | None = None,
        source_seqs: Sequence[int] | None = None,
    ) -> int:
        fact = self._live.append(type, data, surface_op=surface_op, source_seqs=source_seqs)
        self._tell(fact)
        return fact.seq

    def _learn(self, fact: Recorded) -> None:
        self._turns.feed(fact)
        self._tell(fact)

    def _tell(self, fact: Recorded) -> None:
        for seq in self._telling.feed([fact]):
            self.turn_ends.append((self._telling.digests, seq))


def _breaks_off(before: bool, fact: Recorded) -> bool:
    """Whether an answer is under way behind ``fact``."""
    match fact.type:
        case "assistant/chunk":
            chunk = fact.json.get("chunk")
            return not (isinstance(chunk, dict) and chunk.get("type") == "finish")
        case "assistant/message" | "step/end" | "turn/end":
            return False
    return before
