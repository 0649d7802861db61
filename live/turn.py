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
import logging
from dataclasses import dataclass

from playhead.eventstore.cancel import DISPOSED, CancelToken, is_torn_down
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.failures import UNKNOWN, Failure
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
from playhead.live.hooks import CallFailed, Decision, Hooks, Proposal, Reject, Stopping
from playhead.live.inbox import Inbox
from playhead.live.notices import Notices
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession
from playhead.live.tool_calls import ToolCalls
from playhead.projections.inbox_lists import NEXT_STEP, NEXT_TURN

log = logging.getLogger("playhead.live")

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
    """Turn ``number``, cancelled by ``token``.

    ``step`` is the last step that began, 0 before the first; ``told`` is the error that listeners were told of.
    """

    def __init__(self, desk: Desk, number: int, token: CancelToken) -> None:
        self.number = number
        self.step = 0
        self.told: BaseException | None = None
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
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            if isinstance(error, asyncio.CancelledError) and not is_torn_down():
                reason, natural = self._ended_by(error), False
            else:
                self._torn_down()
                raise
        except Exception as error:
            reason, natural = self._ended_by(error), False
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

    async def _pre_step(self) -> Decision:
        self._system = await self._prompt()
        self.token.check()
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
        place = {"turn": self.number, "step": self.step + 1}
        session.append("step/start", place)
        self.step += 1
        try:
            for message in entering:
                session.append("user/message", message.to_json(), surface_op="append")
            answer = await self._answer()
            if isinstance(answer.finish, FinishMaxTokens):
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
        for listener in self._desk.hooks.turn_stopping:
            await listener(Stopping(self.number, self.token))

    def _aborted(self) -> AnyTurnEndReason:
        return TurnAborted(reason=CancelCause.decode(self.token.cause))

    def _torn_down(self) -> None:
        """The task was cancelled from outside: that is a cancellation as disposed, whatever else is the matter."""
        self.token.cancel({"kind": DISPOSED})
        try:
            self._end(self._aborted())
        except Exception:
            log.exception(
                "session %r: the end of turn %d was not recorded", self._desk.session.id, self.number
            )

    def _ended_by(self, error: BaseException) -> AnyTurnEndReason:
        """Why a turn ends that met ``error``. Of a failure listeners are told before the turn ends."""
        if self.token.cancelled:
            return self._aborted()
        self.told = error
        self._desk.notices.tell("agent/error", turn=self.number, step=self.step, error=error)
        return TurnFailed(error=_failure(error))

    def _end(self, reason: AnyTurnEndReason) -> None:
        self._desk.session.append("turn/end", {"turn": self.number, "reason": reason.to_json()})


def _failure(error: BaseException) -> Failure:
    """What a turn ends with that met ``error``: the failure of a call, or the error and its causes in words."""
    if isinstance(error, AdapterError):
        return error.failure
    message = str(error) or type(error).__name__
    seen, cause = {id(error)}, error.__cause__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        why = str(cause) or type(cause).__name__
        if why not in message:  # many say it themselves
            message += f"; because of: {why}"
        cause = cause.__cause__
    return Failure(message=message, code=UNKNOWN)
