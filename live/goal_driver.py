"""Round after round for an armed goal, as long as nothing else wants the agent.

A round is an ordinary follow-up whose source names the goal, its revision and the number of the round. It counts when
it is admitted as a ``user/message``; one that is discarded or refused before never was a round.

The driver looks whenever the agent becomes idle or the goal changes, one look at a time:

1. the agent works, is closed, or has another prompt pending: nothing to do (context that waits for a step is no
   prompt, and joins the round);
2. how did the last round end? Aborted, discarded, or never begun: the goal is paused. Refused by another: it is
   blocked as ``prompt-rejected``. A round that was overtaken by a change of the goal is forgotten;
3. no goal, or one that is not active and armed: nothing to do;
4. no rounds left: the goal is blocked as ``round-limit``;
5. what there is so far is made durable, and the next round is sent. A disk that fails disarms; a send that fails
   blocks the goal as ``queue-failed``.

Right before a round enters, and once more when everybody else has had a say, it must still be the round that comes
next of the goal as it is, and no person may have sent anything meanwhile. Otherwise the driver refuses the step, and
puts what else was claimed for it back in front. What a person sent then gets its turn, and the round is sent again
behind it. Rounds that an earlier process left in the queue are taken out when the driver begins.

A turn that ends at its token ceiling, any ``agent/error``, the abort of a turn that is no round, and the end of the
process disarm the goal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from playhead.eventstore import members
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import DISPOSED
from playhead.eventstore.ids import GoalId, MessageId
from playhead.eventstore.messages import Message
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sources import GoalSource
from playhead.live.agent import Agent
from playhead.live.goals import GoalRef, Goals, GoalView
from playhead.live.hooks import Decision, Proposal, Reject
from playhead.live.notices import Notice
from playhead.projections.inbox_lists import NEXT_STEP

State = Literal["queued", "claimed", "admitted", "discarded", "stale", "rejected"]


@dataclass(slots=True)
class _Round:
    """A round on its way. ``turn`` is the turn that claimed it, ``ended`` the kind of that turn's end, or ``disposed``
    for an abort with that cause."""

    message: str
    ref: GoalRef
    number: int
    state: State = "queued"
    turn: int | None = None
    ended: str | None = None


class GoalDriver:
    """Drives the goals of ``agent``."""

    def __init__(self, agent: Agent, goals: Goals, new_id: Callable[[], str]) -> None:
        self._agent = agent
        self._goals = goals
        self._new_id = new_id
        self._round: _Round | None = None
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._gave_way = False  # a round was refused because a person waits
        agent.notices.listen(self._noticed)
        agent.session.observe(self._observed)
        agent.hooks.pre_step.add(self._pre_step)
        self._drop_left_over()

    def _drop_left_over(self) -> None:
        """Take rounds that another process queued out of the inbox: whoever goes on does so at a new revision."""
        inbox = self._agent.inbox
        for message in (*inbox.next_turn, *inbox.next_step):
            if _is_round(message):
                inbox.remove(message.id)

    async def settled(self) -> None:
        """Returns when the driver has looked at everything that happened so far."""
        while self._looking is not None:
            await asyncio.wait([self._looking])

    # What happens to the agent

    def _noticed(self, notice: Notice) -> None:
        round = self._round
        match notice.name:
            case "agent/status" if notice.info["status"] == "idle":
                self._look()
            case "agent/status":
                self._gave_way = False
            case "goal/changed":
                self._look()
            case "agent/error":
                self._goals.disarm()
            case "agent/inbox/claimed" if round and notice.info["message"].id == round.message:
                round.state, round.turn = "claimed", notice.info["turn"]
            case "agent/inbox/discarded" if round and notice.info["message"].id == round.message:
                round.state = "discarded"

    def _observed(self, event: Recorded) -> None:
        round = self._round
        if event.type == "user/message" and round is not None:
            if members.text(members.of(event), "id") == round.message:
                round.state = "admitted"
        elif event.type == "turn/end":
            data = members.of(event)
            reason = members.inner(data, "reason")
            ending = members.text(reason, "kind")
            if members.inner(reason, "reason").get("kind") == DISPOSED:
                ending = DISPOSED
            is_round = round is not None and round.turn is not None and round.turn == data.get("turn")
            if round is not None and is_round:
                round.ended = ending
            if ending in ("max-tokens", DISPOSED) or (ending == "aborted" and not is_round):
                self._goals.disarm()

    # The look

    def _look(self) -> None:
        if self._looking is not None:
            self._look_again = True
            return
        self._looking = asyncio.get_running_loop().create_task(self._look_until_done())

    async def _look_until_done(self) -> None:
        try:
            again = True
            while again:
                self._look_again = False
                again = await self._pass() or self._look_again
        except Exception as error:
            self._goals.disarm()
            self._agent.notices.tell("agent/error", turn=self._agent.last_turn, step=0, error=error)
        finally:
            self._looking = None

    async def _pass(self) -> bool:
        """One look; whether another is due at once."""
        if self._agent.status == "idle":
            await self._agent.when_idle()  # maintenance ends without a notice
        if self._agent.closed or not self._agent.is_idle:
            return False
        if self._is_another_waiting():
            if self._gave_way:
                self._gave_way = False
                self._agent.wake()
            return False
        last, self._round = self._round, None
        if last is not None:
            self._account_for(last)
            return True
        view = self._goals.get()
        if not _is_driven(view):
            return False
        await self._agent.flush()
        view = self._goals.get()
        agent = self._agent
        if view is None or not _is_driven(view) or agent.closed or not agent.is_idle:
            return False
        if self._is_another_waiting():
            return False
        if view.rounds >= view.goal.max_rounds:
            limit = f"all {view.goal.max_rounds} rounds were used before the goal was met"
            self._goals.block(view.ref, "round-limit", limit)
            return False
        self._send(view)
        return False

    def _is_another_waiting(self) -> bool:
        """Whether somebody else's prompt is pending."""
        inbox = self._agent.inbox
        own = None if self._round is None else self._round.message
        return self._is_person_waiting() or any(message.id != own for message in inbox.next_turn)

    def _is_person_waiting(self) -> bool:
        inbox = self._agent.inbox
        return any(message.is_prompt for message in (*inbox.next_step, *inbox.next_turn))

    def _account_for(self, last: _Round) -> None:
        """What the end of a round means for the goal, where that is still the goal of the round."""
        if last.state == "queued":
            self._agent.inbox.remove(last.message)  # its turn never began, and it is not to come by surprise
        view = self._goals.get()
        if view is None or view.goal.id != last.ref.id or view.goal.phase != "active":
            return
        never_ran = last.state in ("queued", "claimed", "discarded")
        if last.ended == "aborted" or (never_ran and last.ended != DISPOSED):
            self._goals.pause(view.ref)

    def _send(self, view: GoalView) -> None:
        number = view.rounds + 1
        source = GoalSource(goal_id=GoalId(view.goal.id), revision=view.goal.revision, round=number)
        text = _prompt(view.goal.objective, number, view.goal.max_rounds)
        message = Message.user(MessageId(self._new_id()), [TextBlock(text=text)], source)
        self._round = _Round(message.id, view.ref, number)
        try:
            self._agent.followup(message)
        except Exception as error:
            self._round = None
            self._goals.block(view.ref, "queue-failed", str(error) or type(error).__name__)

    # The fence

    async def _pre_step(
        self, proposal: Proposal, inner: Callable[[Proposal], Awaitable[Decision]]
    ) -> Decision:
        rounds = [message.id for message in proposal.messages if _is_round(message)]
        if not rounds:
            return await inner(proposal)
        round = self._round
        if round is None or rounds != [round.message] or not self._may_enter(round, proposal):
            return self._refuse(proposal)
        decision = await inner(proposal)
        if isinstance(decision, Reject):
            round.state = "rejected"
            view = self._goals.get()
            if view is not None and view.ref == round.ref and view.goal.phase == "active":
                self._goals.block(view.ref, "prompt-rejected", "the prompt of a round was rejected")
            return decision
        return decision if self._may_enter(round, proposal) else self._refuse(proposal)

    def _may_enter(self, round: _Round, proposal: Proposal) -> bool:
        view = self._goals.get()
        is_next = (
            view is not None
            and _is_driven(view)
            and view.ref == round.ref
            and round.state == "claimed"
            and round.number == view.rounds + 1
        )
        with_person = any(message.is_prompt for message in proposal.messages)
        return is_next and not with_person and not self._is_person_waiting()

    def _refuse(self, proposal: Proposal) -> Decision:
        if self._round is not None and self._round.state == "claimed":
            self._round.state = "stale"
        others = [message for message in proposal.messages if not _is_round(message)]
        self._agent.inbox.splice(NEXT_STEP, 0, 0, others)
        self._gave_way = self._is_person_waiting()
        return Reject()


def _is_round(message: Message) -> bool:
    return isinstance(message.source, GoalSource)


def _is_driven(view: GoalView | None) -> bool:
    return view is not None and view.armed and view.goal.phase == "active"


def _prompt(objective: str, number: int, most: int) -> str:
    return (
        f'<goal_round round="{number}" of="{most}">\n'
        f"Objective: {json.dumps(objective, ensure_ascii=False)}\n"
        "Go on working towards the objective. Say so when it is met, or when you cannot go on without help.\n"
        "</goal_round>"
    )
