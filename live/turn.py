"""One turn: claim, step after step, end.

``begin`` is synchronous: the turn is open and its input claimed when the send that woke the agent returns. ``run``
is the rest. A turn that began ends exactly once, with the reason that it came to:

==============  =========================================================================================
``completed``   the model asked for no further step, or nothing came in to begin with
``max-tokens``  an answer hit its ceiling; that stays the reason, whatever later steps of the turn do
``blocked``     a step was refused; what had been claimed for it is gone
``aborted``     it was cancelled; the first cause counts
``error``       a call, a hook or the log failed
==============  =========================================================================================

After the first two the driver goes on with the next pending input; after the others it stops.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.failures import Failure
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import (
    AnyTurnEndReason,
    CancelCause,
    FinishMaxTokens,
    TurnAborted,
    TurnBlocked,
    TurnCompleted,
    TurnFailed,
    TurnMaxTokens,
)
from playhead.eventstore.request_header import RequestHeader
from playhead.live.asking import Header
from playhead.live.call import Answer, ModelCall
from playhead.live.hooks import CallFailed, Hooks, Proposal, Reject, Stopping
from playhead.live.inbox import Inbox
from playhead.live.notices import Notices
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession
from playhead.live.tool_calls import ToolCalls
from playhead.projections.inbox_lists import NEXT_STEP, NEXT_TURN

COMPLETED = TurnCompleted()
MAX_TOKENS = TurnMaxTokens()
BLOCKED = TurnBlocked()


@dataclass(frozen=True, slots=True)
class Desk:
    """What the turns of one agent work with."""

    session: LiveSession
    inbox: Inbox
    notices: Notices
    hooks: Hooks
    options: AgentOptions
    header: Header


class Turn:
    """Turn ``number``, cancelled by ``token``. ``step`` is the last step that began, 0 before the first."""

    def __init__(self, desk: Desk, number: int, token: CancelToken) -> None:
        self.number = number
        self.step = 0
        self.token = token
        self._desk = desk
        self._batch: list[Message] = []
        self._system: str | None = None
        self._trouble: Exception | None = None

    def begin(self) -> None:
        """Open the turn and claim its input. A failure is kept for ``run``, which ends the turn with it."""
        self._desk.session.append("turn/start", {"turn": self.number})
        try:
            if not self.token.cancelled:
                self._batch = self._desk.inbox.claim(NEXT_TURN, self.number)
        except Exception as error:
            self._trouble = error

    async def run(self) -> bool:
        """Take the turn to its end; whether it came to a natural one, so that the driver may go on."""
        try:
            if self._trouble is not None:
                raise self._trouble
            reason, natural = await self._steps()
        except asyncio.CancelledError:
            self.token.cancel({"kind": "disposed"})
            self._end(self._aborted())
            raise
        except Exception as error:
            natural = False
            reason = self._aborted() if self.token.cancelled else self._failed(error)
        self._end(reason)
        await self._desk.session.flush()
        return natural

    async def _steps(self) -> tuple[AnyTurnEndReason, bool]:
        outcome: AnyTurnEndReason | None = None
        while True:
            self.token.check()
            decision = await self._pre_step()
            if isinstance(decision, Reject):
                return BLOCKED, False
            if not decision.messages:
                if outcome is not None:
                    return outcome, True
                if self.step == 0:
                    return COMPLETED, False
            self.token.check()
            result = await self._step(decision.messages)
            if outcome != MAX_TOKENS:
                outcome = result
            self.token.check()
            if outcome is not None and not self._desk.inbox.next_step:
                await self._stopping()
                self.token.check()
                if not self._desk.inbox.next_step:
                    return outcome, True
            self._batch = self._desk.inbox.claim(NEXT_STEP, self.number)

    async def _pre_step(self) -> Any:
        self._system = await self._prompt()
        proposal = Proposal(self.number, self.step + 1, tuple(self._batch), self.token)
        decision = await self._desk.hooks.pre_step.ask(proposal)
        self.token.check()
        return decision

    async def _prompt(self) -> str | None:
        system = self._desk.options.system
        return await system() if callable(system) else system

    async def _step(self, entering: tuple[Message, ...]) -> AnyTurnEndReason | None:
        """What the step comes to; None when the model is to be asked again with the results of its tools."""
        session = self._desk.session
        self.step += 1
        place = {"turn": self.number, "step": self.step}
        session.append("step/start", place)
        try:
            for message in entering:
                session.append("user/message", message.to_json(), surface_op="append")
            answer = await self._answer()
            if answer.finish == FinishMaxTokens():
                return MAX_TOKENS
            if not answer.tool_calls:
                return COMPLETED
            return COMPLETED if await self._tools().run(answer.tool_calls) else None
        finally:
            session.append("step/end", place)

    async def _answer(self) -> Answer:
        """The answer of the model; a failed call is made again as often as the hook wants."""
        desk = self._desk
        while True:
            header = await self._header()
            try:
                return await self._call().make(header)
            except AdapterError as error:
                self.token.check()
                failed = CallFailed(self.number, self.step, header.config.provider, error.failure, self.token)
                retry = await desk.hooks.request_error.ask(failed)
                self.token.check()
                if retry is None:
                    raise

    async def _header(self) -> RequestHeader:
        tools = self._desk.options.tools.tools
        return await self._desk.header.ask(self.number, self.step, self._system, tools, self.token)

    def _call(self) -> ModelCall:
        options = self._desk.options
        return ModelCall(
            self._desk.session, options.source, options.new_id, self.number, self.step, self.token
        )

    def _tools(self) -> ToolCalls:
        desk = self._desk
        return ToolCalls(
            desk.session,
            desk.inbox,
            desk.options.tools,
            desk.options.new_id,
            self.number,
            self.step,
            self.token,
        )

    async def _stopping(self) -> None:
        for listener in tuple(self._desk.hooks.turn_stopping):
            await listener(Stopping(self.number, self.token))

    def _aborted(self) -> AnyTurnEndReason:
        return TurnAborted(reason=CancelCause.decode(self.token.cause))

    def _failed(self, error: Exception) -> AnyTurnEndReason:
        self._desk.notices.tell("agent/error", turn=self.number, step=self.step, error=error)
        return TurnFailed(error=error.failure if isinstance(error, AdapterError) else Failure.of(error))

    def _end(self, reason: AnyTurnEndReason) -> None:
        self._desk.session.append("turn/end", {"turn": self.number, "reason": reason.to_json()})
