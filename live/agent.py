"""An agent: one inbox, one driver, and one primitive to reach it.

``send(message, target, wakeup)`` puts a message at the end of a list; ``wakeup`` decides only whether an idle agent
begins to work. Three presets fix the rest: ``followup`` (a prompt with a turn of its own), ``steer`` (joins the
nearest step, and wakes) and ``inject`` (context for the nearest step, that waits for one).

Phases: *idle*, *running* (a driver takes turn after turn), *maintenance* (a task that must not meet a turn). The
public status is ``idle`` or ``running``. A waking send while idle opens the turn and claims its input before it
returns. One during maintenance, or behind an abort that has not come to its end, is latched: a new driver begins when
the activity is over, if something is pending then. Such a message gets a turn of its own, because it cannot join a
dying one.

``cancel`` clears the inbox first (unless ``keep_inbox``) and then aborts what runs; the first cause counts. Nothing
that runs is torn down: sources, tools and hooks see the cancellation and end by themselves.

Everything but ``when_idle``, ``flush`` and ``close`` is synchronous and belongs to the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from playhead.eventstore.cancel import DISPOSED, CancelToken
from playhead.eventstore.errors import UsageError
from playhead.eventstore.messages import Message
from playhead.live.asking import Header
from playhead.live.hooks import Hooks
from playhead.live.inbox import Inbox
from playhead.live.notices import Notices
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession
from playhead.live.turn import Desk, Turn
from playhead.projections.inbox_lists import NEXT_STEP, NEXT_TURN, Target

T = TypeVar("T")
Status = Literal["idle", "running"]


class AgentBusy(UsageError):
    """What was asked for needs an idle agent."""

    code = "agent-busy"


class AgentClosed(UsageError):
    """The agent was closed, and takes nothing more."""

    code = "agent-closed"


class NoLoop(UsageError):
    """An agent works on an event loop, and here runs none."""

    code = "no-loop"


@dataclass(slots=True)
class _Activity:
    """What goes on: ``latched`` says that it is to be followed by a driver."""

    token: CancelToken
    status: Status
    done: asyncio.Event
    latched: bool = False


class Agent:
    """The agent of ``session``; they share one id."""

    def __init__(self, session: LiveSession, options: AgentOptions) -> None:
        self.session = session
        self.notices = Notices(session.id)
        self.hooks = Hooks()
        self.inbox = Inbox(session, self.notices)
        self._desk = Desk(
            session, self.inbox, self.notices, self.hooks, options, Header(session, options, self.hooks)
        )
        self.closed = False
        self._gone = asyncio.Event()
        self._activity: _Activity | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def status(self) -> Status:
        """``running`` from the first turn of a driver to the end of its last, also between two turns."""
        return "idle" if self._activity is None else self._activity.status

    @property
    def is_idle(self) -> bool:
        """Whether nothing goes on at all, no maintenance either."""
        return self._activity is None

    @property
    def last_turn(self) -> int:
        """The number of the last turn that began; 0 before the first."""
        return self.session.last_turn

    def send(self, message: Message, target: Target, wakeup: bool) -> None:
        """Put ``message`` at the end of the list ``target``; with ``wakeup`` an idle agent begins to work.

        Raises ``InvalidSplice`` for an id that is pending, ``AgentClosed``, and ``NoLoop`` for a waking send where no
        event loop runs; then nothing happened.
        """
        self._require_open()
        if wakeup:
            self._require_loop()
        dying = wakeup and self._is_dying()
        self.inbox.append(NEXT_TURN if dying else target, message)
        if wakeup:
            self._wake(dying)

    def followup(self, message: Message) -> None:
        """A prompt that gets a turn of its own."""
        self.send(message, NEXT_TURN, True)

    def steer(self, message: Message) -> None:
        """Input for the nearest step; an idle agent begins a turn with it."""
        self.send(message, NEXT_STEP, True)

    def inject(self, message: Message) -> None:
        """Context for the nearest step, whenever that comes."""
        self.send(message, NEXT_STEP, False)

    def wake(self) -> None:
        """Begin to work on what is pending, as with a waking send; nothing happens where nothing is."""
        self._require_open()
        self._require_loop()
        if self.inbox.has_pending:
            self._wake(self._is_dying())

    def cancel(self, cause: dict[str, Any], *, keep_inbox: bool = False) -> None:
        """Discard what is pending, unless ``keep_inbox``, and abort what runs.

        ``cause`` is ``{"kind": "user"}``, ``parent``, ``disposed``, or ``hook`` with a ``reason``.
        """
        activity = self._activity
        if not keep_inbox:
            self.inbox.clear()
            if activity is not None:
                activity.latched = False
        if activity is not None:
            activity.token.cancel(cause)

    async def when_idle(self) -> None:
        """Returns when nothing runs any more. It tells nothing of what became of a message."""
        while self._activity is not None:
            await self._activity.done.wait()

    def run_maintenance(self, task: Callable[[CancelToken], Awaitable[T]]) -> asyncio.Task[T]:
        """Run ``task`` while no turn can begin; from this call on none does. What is given is to be awaited.

        Raises ``AgentBusy`` at once unless the agent is idle, ``AgentClosed`` and ``NoLoop``.
        """
        self._require_open()
        loop = self._require_loop()
        if self._activity is not None:
            raise AgentBusy(f"agent {self.id!r} is busy; wait for when_idle()")
        activity = _Activity(CancelToken(), "idle", asyncio.Event())
        self._activity = activity

        async def maintained() -> T:
            return await task(activity.token)

        def ended(ended: asyncio.Task[T]) -> None:
            if ended.cancelled():
                activity.latched = (
                    False  # perhaps the loop comes to its end: what is pending stays where it is
                )
            self._settle(activity)

        made = loop.create_task(maintained())
        made.add_done_callback(ended)
        return made

    async def flush(self) -> None:
        """Returns once everything so far is durable."""
        await self.session.flush()

    async def close(self) -> None:
        """Stop for good: cancel as disposed, keep the inbox for the next process, wait, and flush.

        Raises what the flush raises; the agent is closed all the same.
        """
        if self.closed:
            await self._gone.wait()
            return
        self.closed = True
        self.cancel({"kind": DISPOSED}, keep_inbox=True)
        try:
            await self.when_idle()
            await self.session.close()
        finally:
            self._gone.set()
            self.notices.tell("agent/disposed", agent=self)

    def _require_open(self) -> None:
        """What comes while a closing agent ends its turn is kept for the next process; what comes later is refused."""
        if self.closed and self._activity is None:
            raise AgentClosed(f"agent {self.id!r} was closed; open the session again")

    def _require_loop(self) -> asyncio.AbstractEventLoop:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            raise NoLoop(f"agent {self.id!r} works on an event loop; call this inside of one") from None

    def _is_dying(self) -> bool:
        return self._activity is not None and self._activity.token.cancelled

    def _wake(self, dying: bool) -> None:
        activity = self._activity  # a listener may have begun or ended one since
        if activity is None:
            self._start()
        elif (dying or activity.status == "idle") and not _is_disposed(activity.token):
            activity.latched = True

    def _start(self) -> None:
        activity = _Activity(CancelToken(), "running", asyncio.Event())
        self._activity = activity
        self.notices.tell("agent/status", status="running")
        turn = self._begin_turn(activity)
        self._task = asyncio.get_running_loop().create_task(self._drive(activity, turn))

    def _begin_turn(self, activity: _Activity) -> Turn | None:
        """The next turn, open and with its input; None when the driver was cancelled before."""
        if activity.token.cancelled:
            return None
        turn = Turn(self._desk, self.last_turn + 1, activity.token)
        try:
            turn.begin()
        except Exception as error:
            self._report(turn, error)
            return None
        return turn

    async def _drive(self, activity: _Activity, turn: Turn | None) -> None:
        try:
            while turn is not None and await turn.run() and self._goes_on(activity):
                activity.token = CancelToken()
                activity.latched = False
                turn = self._begin_turn(activity)
        except asyncio.CancelledError:
            activity.latched = False  # the loop comes to its end: what is pending is for the next process
            raise
        except Exception as error:
            assert turn is not None
            self._report(turn, error)
        finally:
            self._settle(activity)

    def _goes_on(self, activity: _Activity) -> bool:
        """Whether another turn follows. A cancellation while the end of the last became durable stops the driver."""
        return not activity.token.cancelled and self.inbox.has_pending

    def _report(self, turn: Turn, error: Exception) -> None:
        """Tell of a turn that could not be recorded, unless that is what its listeners were told it failed with."""
        if (type(error), str(error)) != (type(turn.told), str(turn.told)):
            self.notices.tell("agent/error", turn=turn.number, step=turn.step, error=error)

    def _settle(self, activity: _Activity) -> None:
        self._activity = None
        try:
            if activity.status == "running":
                self.notices.tell("agent/status", status="idle")
            if activity.latched and not self.closed and self._activity is None and self.inbox.has_pending:
                self._start()
        finally:
            activity.done.set()


def _is_disposed(token: CancelToken) -> bool:
    return token.cause is not None and token.cause.get("kind") == DISPOSED
