"""Running the tool calls of one answer.

Calls are taken in the order in which the model asked. One of an exclusive tool runs alone; others share a pool.
``tool/call`` is in the log before a call runs. Results go into the log in the order of the calls, whatever order they
come in, and cite their ``tool/call``; so several calls may stand before the first result. Context that a tool gave is
put into ``next-step`` behind its result.

Once the turn is cancelled no further call begins: calls that run are waited for, and their real outcomes recorded;
those that had not begun get a ``tool/call`` and a result that says so, because the model must not see a call without
a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from playhead.eventstore.blocks import ToolCallBlock
from playhead.eventstore.cancel import Cancelled, CancelToken
from playhead.eventstore.ids import MessageId
from playhead.eventstore.messages import Message
from playhead.live.inbox import Inbox
from playhead.live.session import LiveSession
from playhead.live.tool_box import ToolBox, ToolOutcome, aborted, not_dispatched
from playhead.projections.inbox_lists import NEXT_STEP

POOL = 10
"""So many calls that are not exclusive run at once."""


@dataclass(slots=True)
class _Running:
    block: ToolCallBlock
    seq: int
    outcome: asyncio.Task[ToolOutcome]


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The calls of one step."""

    session: LiveSession
    inbox: Inbox
    box: ToolBox
    new_id: Callable[[], str]
    turn: int
    step: int
    token: CancelToken

    async def run(self, calls: Sequence[ToolCallBlock]) -> bool:
        """Run them all and record their results; whether one of them concludes the turn.

        Raises ``Cancelled`` when the turn was cancelled, after everything is recorded.
        """
        running: list[_Running] = []
        waiting = list(calls)
        concludes = False
        try:
            while waiting and not self.token.cancelled:
                alone = self.box.is_exclusive(waiting[0].name)
                if running and (alone or len(running) == POOL or self._runs_alone(running)):
                    concludes |= await self._settle_first(running)
                    continue
                running.append(await self._begin(waiting.pop(0)))
            while running:
                concludes |= await self._settle_first(running)
        finally:
            for left in running:
                left.outcome.cancel()
        for block in waiting:
            self._record(block, self._called(block), not_dispatched())
        self.token.check()
        return concludes

    def _runs_alone(self, running: Sequence[_Running]) -> bool:
        return self.box.is_exclusive(running[-1].block.name)

    async def _begin(self, block: ToolCallBlock) -> _Running:
        seq = self._called(block)
        await self.session.flush()
        return _Running(block, seq, asyncio.ensure_future(self._outcome(block)))

    async def _outcome(self, block: ToolCallBlock) -> ToolOutcome:
        try:
            return await self.box.call(block.name, block.arguments, block.id, self.token)
        except Cancelled:
            return aborted()

    async def _settle_first(self, running: list[_Running]) -> bool:
        first = running[0]
        outcome = await first.outcome
        running.pop(0)
        self._record(first.block, first.seq, outcome)
        return outcome.concludes

    def _called(self, block: ToolCallBlock) -> int:
        called = {
            "turn": self.turn,
            "step": self.step,
            "callId": block.id,
            "name": block.name,
            "arguments": block.arguments,
        }
        return self.session.append("tool/call", called).seq

    def _record(self, block: ToolCallBlock, called_seq: int, outcome: ToolOutcome) -> None:
        message = Message.tool_result(
            MessageId(self.new_id()), block.id, outcome.content, is_error=outcome.is_error
        )
        data = {"turn": self.turn, "step": self.step, "message": message.to_json()}
        if outcome.error is not None:
            data["error"] = outcome.error.to_json()
        if outcome.meta is not None:
            data["meta"] = outcome.meta
        self.session.append("tool/result", data, surface_op="append", source_seqs=(called_seq,))
        for context in outcome.context:
            self.inbox.append(NEXT_STEP, context)
