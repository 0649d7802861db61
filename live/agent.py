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

from playhead.eventstore.cancel import CancelToken
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

DISPOSED = "disposed"
"""The kind of the cause that lets nothing begin any more."""


class AgentBusy(UsageError):
    """What was asked for needs an idle agent."""

    code = "agent-busy"


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
        self.notices = Notices()
        self.hooks = Hooks()
        self.inbox = Inbox(session, self.notices)
        self._desk = Desk(
            session, self.inbox, self.notices, self.hooks, options, Header(session, options, self.hooks)
        )
        self._turn = session.last_turn
        self.closed = False
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
    def last_turn(self) -> int:
        """The number of the last turn that began; 0 before the first."""
        return self._turn

    def send(self, message: Message, target: Target, wakeup: bool) -> None:
        """Put ``message`` at the end of the list ``target``; with ``wakeup`` an idle agent begins to work."""
        now = self._activity
        dying = wakeup and now is not None and now.token.cancelled
        self.inbox.append(NEXT_TURN if dying else target, message)
        if not wakeup:
            return
        activity = self._activity  # a listener may have begun or ended one
        if activity is None:
            self._start()
        elif (dying or activity.status == "idle") and not _is_disposed(activity.token):
            activity.latched = True

    def followup(self, message: Message) -> None:
        """A prompt that gets a turn of its own."""
        self.send(message, NEXT_TURN, True)

    def steer(self, message: Message) -> None:
        """Input for the nearest step; an idle agent begins a turn with it."""
        self.send(message, NEXT_STEP, True)

    def inject(self, message: Message) -> None:
        """Context for the nearest step, whenever that comes."""
        self.send(message, NEXT_STEP, False)

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

    async def run_maintenance(self, task: Callable[[CancelToken], Awaitable[T]]) -> T:
        """Run ``task`` while no turn can begin. Raises ``AgentBusy`` unless the agent is idle."""
        if self._activity is not None:
            raise AgentBusy(f"agent {self.id!r} is busy; wait for when_idle()")
        activity = _Activity(CancelToken(), "idle", asyncio.Event())
        self._activity = activity
        try:
            return await task(activity.token)
        finally:
            self._settle(activity)

    async def flush(self) -> None:
        """Returns once everything so far is durable."""
        await self.session.flush()

    async def close(self) -> None:
        """Stop for good: cancel as disposed, keep the inbox for the next process, wait, and flush."""
        self.closed = True
        self.cancel({"kind": DISPOSED}, keep_inbox=True)
        await self.when_idle()
        await self.flush()

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
        self._turn += 1
        turn = Turn(self._desk, self._turn, activity.token)
        try:
            turn.begin()
        except Exception as error:
            self.notices.tell("agent/error", turn=self._turn, step=0, error=error)
            return None
        return turn

    async def _drive(self, activity: _Activity, turn: Turn | None) -> None:
        try:
            while turn is not None and await turn.run() and self.inbox.has_pending:
                activity.token = CancelToken()
                activity.latched = False
                turn = self._begin_turn(activity)
        except Exception as error:
            self.notices.tell(
                "agent/error", turn=self._turn, step=0 if turn is None else turn.step, error=error
            )
        finally:
            self._settle(activity)

    def _settle(self, activity: _Activity) -> None:
        self._activity = None
        if activity.status == "running":
            self.notices.tell("agent/status", status="idle")
        if activity.latched and self._activity is None and self.inbox.has_pending:
            self._start()
        activity.done.set()


def _is_disposed(token: CancelToken) -> bool:
    return token.cause is not None and token.cause.get("kind") == DISPOSED
