"""Running the tool calls of one answer.

Calls are taken in the order in which the model asked. One of an exclusive tool runs alone; others share a pool.
``tool/call`` is durable before a call runs. Results go into the log in the order of the calls, whatever order they
come in, and cite their ``tool/call``; so several calls may stand before the first result. Context that a tool gave is
put into ``next-step`` behind its result.

Once the turn is cancelled no further call begins: calls that run are waited for, and their real outcomes recorded;
those that had not begun get a ``tool/call`` and a result that says so, because the model must not see a call without
a result. The same holds whatever else goes wrong: a tool box that raises, a result that is no JSON, a task that is torn
down. Only a log that takes nothing more can leave a call without a result; resuming closes it then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from playhead.eventstore.blocks import ToolCallBlock
from playhead.eventstore.cancel import DISPOSED, Cancelled, CancelToken, is_torn_down
from playhead.eventstore.errors import UsageError
from playhead.eventstore.ids import MessageId
from playhead.eventstore.messages import Message
from playhead.live.inbox import Inbox
from playhead.live.session import LiveSession
from playhead.live.tool_box import ToolBox, ToolOutcome, aborted, broken, not_dispatched
from playhead.projections.inbox_lists import NEXT_STEP

log = logging.getLogger("playhead.live")

POOL = 10
"""So many calls that are not exclusive run at once."""


@dataclass(slots=True)
class _Begun:
    """A call with its ``tool/call`` at ``seq``; ``task`` is None until that is durable."""

    block: ToolCallBlock
    seq: int
    is_alone: bool
    task: asyncio.Task[ToolOutcome] | None = None
    is_stopped: bool = False

    @property
    def outcome(self) -> ToolOutcome | None:
        """What it came to; None as long as it runs."""
        if self.task is None:
            return not_dispatched() if self.is_stopped else None
        if not self.task.done():
            return None
        return aborted() if self.task.cancelled() else self.task.result()


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
        waiting, begun = deque(calls), deque[_Begun]()
        concludes = False
        try:
            while begun or (waiting and not self.token.cancelled):
                await self._begin(waiting, begun)
                for outcome in self._recorded(begun):
                    self._park(outcome)
                    concludes |= outcome.concludes
                await _one_more_done(begun)
        except BaseException:
            await self._end_badly(waiting, begun)
            raise
        self._refuse(waiting)
        self.token.check()
        return concludes

    async def _begin(self, waiting: deque[ToolCallBlock], begun: deque[_Begun]) -> None:
        """Begin the calls that may run beside those that do, once all of them are durable."""
        new: list[_Begun] = []
        while waiting and not self.token.cancelled:
            is_alone = self._is_exclusive(waiting[0].name)
            running = sum(one.outcome is None for one in begun)
            if (is_alone and begun) or any(one.is_alone for one in begun) or running >= POOL:
                break
            new.append(_Begun(waiting[0], self._called(waiting[0]), is_alone))
            begun.append(new[-1])
            waiting.popleft()
        if not new:
            return
        await self.session.flush()
        for one in new:
            if self.token.cancelled:
                one.is_stopped = True
            else:
                one.task = asyncio.create_task(self._outcome(one.block))

    def _is_exclusive(self, name: str) -> bool:
        try:
            return self.box.is_exclusive(name)
        except Exception:
            log.exception("the tool box does not know how tool %r runs; it runs alone", name)
            return True

    async def _outcome(self, block: ToolCallBlock) -> ToolOutcome:
        try:
            outcome = await self.box.call(block.name, block.arguments, block.id, self.token)
        except Cancelled:
            return aborted()
        except Exception as error:
            log.exception("the tool box failed at a call of %r", block.name)
            return broken(error)
        if isinstance(outcome, ToolOutcome):
            return outcome
        return broken(TypeError(f"the tool box gave {type(outcome).__name__}, which is no outcome"))

    def _recorded(self, begun: deque[_Begun]) -> Iterator[ToolOutcome]:
        """The outcomes of the first calls, as far as they are done, each once its result is recorded."""
        while begun and (outcome := begun[0].outcome) is not None:
            self._record(begun[0].block, begun[0].seq, outcome)
            begun.popleft()
            yield outcome

    def _park(self, outcome: ToolOutcome) -> None:
        for context in outcome.context:
            self.inbox.append(NEXT_STEP, context)

    async def _end_badly(self, waiting: deque[ToolCallBlock], begun: deque[_Begun]) -> None:
        """Give every call its result, as far as the log takes it, when the turn cannot go on.

        Raises ``CancelledError`` when the task is torn down, also in the middle of this.
        """
        for one in begun:
            one.is_stopped = True
        while True:
            if is_torn_down():
                self.token.cancel({"kind": DISPOSED})
                for one in begun:
                    if one.task is not None:
                        one.task.cancel()
            try:
                await self._drain(waiting, begun)
            except asyncio.CancelledError:
                continue
            if is_torn_down():
                raise asyncio.CancelledError
            return

    async def _drain(self, waiting: deque[ToolCallBlock], begun: deque[_Begun]) -> None:
        try:
            while begun:
                await _one_more_done(begun)
                for outcome in self._recorded(begun):
                    self._park_contained(outcome)
            self._refuse(waiting)
        except Exception:
            log.exception("session %r: not every tool call has its result", self.session.id)
        tasks = [one.task for one in begun if one.task is not None and not one.task.done()]
        if tasks:  # the log takes nothing more, but what runs is not left alone
            await asyncio.wait(tasks)

    def _park_contained(self, outcome: ToolOutcome) -> None:
        try:
            self._park(outcome)
        except UsageError:
            log.exception("session %r: context of a tool is lost", self.session.id)

    def _refuse(self, waiting: deque[ToolCallBlock]) -> None:
        while waiting:
            block = waiting.popleft()
            self._record(block, self._called(block), not_dispatched())

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
        try:
            self._append_result(block, called_seq, outcome)
        except Exception as error:
            log.exception("the result of tool %r cannot be recorded", block.name)
            self._append_result(block, called_seq, broken(error))

    def _append_result(self, block: ToolCallBlock, called_seq: int, outcome: ToolOutcome) -> None:
        message = Message.tool_result(
            MessageId(self.new_id()), block.id, outcome.content, is_error=outcome.is_error
        )
        data = {"turn": self.turn, "step": self.step, "message": message.to_json()}
        if outcome.error is not None:
            data["error"] = outcome.error.to_json()
        if outcome.meta is not None:
            data["meta"] = outcome.meta
        self.session.append("tool/result", data, surface_op="append", source_seqs=(called_seq,))


async def _one_more_done(begun: deque[_Begun]) -> None:
    """Returns when another of the calls that run is done; at once where none runs."""
    tasks = [one.task for one in begun if one.task is not None and not one.task.done()]
    if tasks and begun[0].outcome is None:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
