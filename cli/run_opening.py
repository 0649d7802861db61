"""Opening a conversation in a store, and leaving it so that nothing is lost.

What is queued stays in the log for whoever resumes. The bytes of each model call are kept beside the log, by a thread
of their own, unless nobody wants them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from playhead.cli.output import note
from playhead.cli.run_conversation import Conversation, View
from playhead.cli.run_goal_tool import EndGoal
from playhead.cli.run_plan import Plan
from playhead.cli.run_tools import END_GOAL
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import PlayheadError
from playhead.live.agents import Agents
from playhead.live.options import AgentOptions
from playhead.projections.attempt import Attempt

if TYPE_CHECKING:
    from playhead.eventstore.chunk_source import ModelRequest
    from playhead.eventstore.exchange import Exchange
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.sql_session import SqlSession


@asynccontextmanager
async def conversation_in(
    store: SqlStore, log: SqlSession, plan: Plan, view: View
) -> AsyncIterator[Conversation]:
    """The conversation of ``log``; when the context ends, what runs is stopped and everything is durable.

    Raises ``CommitFailed`` where it could not be made so, as when another process wrote to the session.
    """
    from playhead.adapters.providers.client import Provider
    from playhead.eventstore.sql.writer import Writer

    wire = _Wire(log)
    with Writer(store) as writer:
        source = Provider(
            plan.provider.dialect,
            plan.provider.base_url,
            plan.key,
            on_exchange=wire.keep if plan.keeps_wire else None,
        )
        options = AgentOptions(
            source, plan.config, system=plan.system, tools=plan.tools, context_window=plan.context_window
        )
        async with source:
            agents = Agents()
            queue = writer.open(log)
            agent = agents.open(log, options, queue)
            try:
                await agent.flush()
                conversation = Conversation(agent, queue, options, plan.policy, view)
                if plan.ends_goals:
                    plan.tools.add(EndGoal(agent, conversation.goals).end, name=END_GOAL)
                wire.call = lambda: conversation.moments.latest
                yield conversation
            finally:
                try:
                    await agents.close_all()
                finally:
                    await wire.settled()
                    view.end()


class _Wire:
    """Keeps the bytes of the calls of ``log``. ``call`` tells which call is being made."""

    def __init__(self, log: SqlSession) -> None:
        self.call: Callable[[], Attempt | None] = lambda: None
        self._log = log
        self._thread = ThreadPoolExecutor(1, "playhead-wire")
        self._kept: list[Future[int]] = []

    def keep(self, _request: ModelRequest, exchange: Exchange) -> None:
        """Keep ``exchange`` as that of the present call, soon."""
        call = self.call()
        if call is not None:
            exchange = exchange.placed(turn=call.turn, step=call.step, number=call.number)
        self._kept.append(self._thread.submit(self._log.keep_exchange, exchange))

    async def settled(self) -> None:
        """Returns when all are kept; says so where one could not be."""
        for kept in self._kept:
            try:
                await asyncio.wrap_future(kept)
            except PlayheadError as error:
                note(f"the bytes of a model call were not kept: {safe(str(error))}")
        self._thread.shutdown(wait=False)
