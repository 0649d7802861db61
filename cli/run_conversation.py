"""A conversation: an agent, its goals, and what the commands of a person do to them.

Everything but ``quiet`` and ``watch`` is synchronous and belongs to the thread of the event loop. What a command has to
say comes back as lines; they may hold anything that a log may hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

from playhead.cli import units
from playhead.cli.run_commands import (
    HELP,
    Cancel,
    ChangeGoal,
    ChangeInbox,
    Command,
    Help,
    Quit,
    Say,
    Send,
    ShowInbox,
    Status,
    Wait,
    Wake,
)
from playhead.cli.run_moments import LiveMoments
from playhead.eventstore import members
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.errors import UsageError
from playhead.eventstore.ids import MessageId
from playhead.eventstore.messages import Message
from playhead.eventstore.recorded import Recorded
from playhead.live.agent import Agent
from playhead.live.goal_driver import GoalDriver
from playhead.live.goals import Goals, GoalView
from playhead.live.notices import Notice
from playhead.live.options import AgentOptions
from playhead.live.retry import Retries, RetryPolicy
from playhead.projections.attempt_fold import calls
from playhead.projections.inbox_lists import NEXT_STEP, NEXT_TURN, Target

if TYPE_CHECKING:
    from playhead.eventstore.sql.writer import QueuedSession
    from playhead.replay.moments import Moment

_SHORT_ID = 8
_WHERE = {NEXT_STEP: "the next step", NEXT_TURN: "a turn of its own"}
_UNHAPPY = frozenset({"error", "blocked"})


class View(Protocol):
    """Shows a conversation."""

    def learn(self, event: Recorded) -> None:
        """Take in an event of before, without showing it."""
        ...

    def show(self, event: Recorded, moments: Iterable[Moment]) -> None:
        """Show an event, and the moments that it brings."""
        ...

    def say(self, lines: Iterable[str]) -> None:
        """Answer a command."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


class Conversation:
    """A live session as a person sees it. It is shown the events that are in the log already first."""

    def __init__(
        self, agent: Agent, queue: QueuedSession, options: AgentOptions, policy: RetryPolicy, view: View
    ) -> None:
        self.agent = agent
        self.goals = Goals(agent, options.clock, options.new_id)
        self._driver = GoalDriver(agent, self.goals, options.new_id)
        agent.hooks.request_error.add(Retries(agent.session, policy, new_id=options.new_id))
        self.view = view
        self.moments = LiveMoments(agent.session.stored)
        for event in agent.session.stored.events(deltas=False):
            self.moments.learn(event)
            view.learn(event)
        self._broken: Exception | None = None
        self._breaking = asyncio.Event()
        self.model = options.config.model
        self._new_id = options.new_id
        self._queue = queue
        self._cancelled_turn = 0
        self._last_reason: str | None = None
        agent.session.observe(self._observed)
        agent.notices.listen(self._noticed)

    # How it stands

    @property
    def runs(self) -> bool:
        """Whether the agent works."""
        return self.agent.status == "running"

    @property
    def stops(self) -> bool:
        """Whether what runs was told to stop, and has not yet."""
        return self.runs and self._cancelled_turn == self.agent.last_turn

    @property
    def failed(self) -> bool:
        """Whether the last turn came to a bad end: a failure, or a refusal."""
        return self._last_reason in _UNHAPPY

    @property
    def waiting(self) -> int:
        """How many messages are pending."""
        return sum(1 for _ in self._queued())

    async def quiet(self) -> None:
        """Returns when nothing runs, and the goal asks for no further round. Raises what the log failed with."""
        while True:
            await self.agent.when_idle()
            await self._driver.settled()
            if self._broken is not None:
                raise self._broken
            if not self.runs:
                return

    async def watch(self) -> NoReturn:
        """Raises what the log failed with, once it does."""
        await self._breaking.wait()
        assert self._broken is not None
        raise self._broken

    def _observed(self, event: Recorded) -> None:
        if event.type == "turn/end":
            self._last_reason = members.text(members.inner(members.of(event), "reason"), "kind")
        try:
            self.view.show(event, self.moments.after(event))
        except Exception as error:  # who looked on went away, or cannot be shown anything more
            self._break(error)

    def _noticed(self, notice: Notice) -> None:
        if notice.name == "agent/error" and self._queue.failure is not None:
            self._break(self._queue.failure)

    def _break(self, error: Exception) -> None:
        """End what runs, as soon as may be, and let ``quiet`` raise ``error``."""
        if self._broken is None:
            self._broken = error
            self._breaking.set()
            cause = {"kind": "disposed"}
            asyncio.get_running_loop().call_soon(lambda: self.agent.cancel(cause, keep_inbox=True))

    # What a person does

    def act(self, command: Command) -> list[str]:
        """Do what ``command`` says; the lines that answer it. Raises ``UsageError`` for what cannot be done now."""
        match command:
            case Say(text):
                return self._send(NEXT_STEP if self.runs else NEXT_TURN, True, text)
            case Send(target, wakeup, text):
                return self._send(target, wakeup, text)
            case ShowInbox():
                return self._listed()
            case ChangeInbox(id, text):
                return self._change(id, text)
            case Cancel(keep):
                return self.cancel(keep=keep)
            case ChangeGoal():
                return self._goal(command)
            case Wake():
                return self._wake()
            case Status():
                return list(self._status())
            case Help():
                return list(HELP.splitlines())
            case Wait() | Quit():
                return []

    def cancel(self, *, keep: bool) -> list[str]:
        """Stop what runs; what is pending goes too, unless ``keep``."""
        waiting, runs = self.waiting, self.runs
        self.agent.cancel({"kind": "user"}, keep_inbox=keep)
        if runs:
            self._cancelled_turn = self.agent.last_turn
        if waiting and not keep:
            return [f"{units.count(waiting, 'message')} discarded"]
        if waiting:
            return [f"{units.count(waiting, 'message')} still queued, for before what you say next, or /wake"]
        return [] if runs else ["nothing runs, and nothing is queued"]

    def _wake(self) -> list[str]:
        if not self.waiting:
            return ["nothing is queued"]
        self.agent.wake()
        return []

    def _send(self, target: Target, wakeup: bool, text: str) -> list[str]:
        message = self._message(text)
        self.agent.send(message, target, wakeup)
        return [
            f"queued for {_WHERE[pending]}: {text}"
            for pending, other in self._queued()
            if other.id == message.id
        ]

    def _message(self, text: str) -> Message:
        return Message.user(MessageId(self._new_id()), [TextBlock(text=text)])

    def _queued(self) -> Iterator[tuple[Target, Message]]:
        inbox = self.agent.inbox
        for message in inbox.next_step:
            yield NEXT_STEP, message
        for message in inbox.next_turn:
            yield NEXT_TURN, message

    def _listed(self) -> list[str]:
        lines = [
            f"{message.id[:_SHORT_ID]}  {target}  {_text_of(message)}" for target, message in self._queued()
        ]
        return lines or ["nothing is queued"]

    def _change(self, id: str, text: str | None) -> list[str]:
        found = [message.id for _, message in self._queued() if message.id.startswith(id)]
        if len(found) != 1:
            what = "no queued message has" if not found else f"{len(found)} queued messages have"
            raise UsageError(f"{what} an id that begins with {id}; /inbox lists them")
        if text is None:
            self.agent.inbox.remove(found[0])
        else:
            self.agent.inbox.replace(found[0], self._message(text))
        return self._listed()

    # Goals

    def _goal(self, change: ChangeGoal) -> list[str]:
        if change.operation == "create":
            return _told(self.goals.create(change.text, change.rounds))
        view = self.goals.get()
        if view is None:
            if change.operation == "show":
                return ["there is no goal; /goal TEXT sets one"]
            raise UsageError("there is no goal; /goal TEXT sets one")
        match change.operation:
            case "pause":
                view = self.goals.pause(view.ref)
            case "resume":
                view = self.goals.resume(view.ref)
            case "complete":
                view = self.goals.complete(view.ref)
            case "edit":
                view = self.goals.edit(view.ref, objective=change.text)
            case "rounds":
                view = self.goals.edit(view.ref, max_rounds=change.rounds)
            case "clear":
                self.goals.clear(view.ref)
                return ["the goal is gone"]
        return _told(view)

    def _status(self) -> Iterator[str]:
        session = self.agent.session
        yield f"session {session.id}"
        found = list(calls(self.moments.calls))
        facts = [units.count(session.next_seq, "event"), units.count(self.agent.last_turn, "turn")]
        facts.append(units.count(len(found), "model call"))
        took = [call.tokens for call in found if call.tokens is not None]
        if took:
            given = sum((one.input or 0) + (one.cache_read or 0) + (one.cache_write or 0) for one in took)
            facts.append(f"{given:,} tokens in, {sum(one.output or 0 for one in took):,} out")
        if self.waiting:
            facts.append(f"{units.count(self.waiting, 'message')} queued")
        yield " · ".join(facts)
        view = self.goals.get()
        if view is not None:
            yield from _told(view)


def _told(view: GoalView) -> list[str]:
    goal = view.goal
    rest = "" if view.armed or goal.phase != "active" else ", at rest: /goal resume goes on with it"
    reason = "" if goal.blocked is None else f" ({goal.blocked.message})"
    return [f"goal {goal.phase}{reason}, round {view.rounds} of {goal.max_rounds}{rest}: {goal.objective}"]


def _text_of(message: Message) -> str:
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))
