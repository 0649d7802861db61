"""The live agents of a process, by session id."""

from __future__ import annotations

from playhead.eventstore.errors import UsageError
from playhead.eventstore.log import Session
from playhead.eventstore.session_writer import SessionWriter
from playhead.live.agent import Agent
from playhead.live.notices import Listener
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession


class AgentExists(UsageError):
    """A session has one agent at a time in a process."""

    code = "agent-exists"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(
            f"session {session!r} has a live agent already; agents.get() gives it, close() ends it"
        )


class Agents:
    """A session and its agent share one id. A listener given here hears every agent from its creation on."""

    def __init__(self, *listeners: Listener) -> None:
        self._agents: dict[str, Agent] = {}
        self._listeners = listeners

    def get(self, session_id: str) -> Agent | None:
        """The live agent of a session; None where there is none."""
        return self._agents.get(session_id)

    def open(self, session: Session, options: AgentOptions, writer: SessionWriter | None = None) -> Agent:
        """An agent for ``session``: new where the log is empty, else resumed.

        To resume is to close what a crash left open, and to mark where this process begins. Nothing runs until
        somebody wakes the agent. Raises ``AgentExists``, and ``CorruptLog`` for a queue that cannot be known.
        """
        if session.id in self._agents:
            raise AgentExists(session.id)
        live = LiveSession(session, options.clock, writer)
        is_new = live.next_seq == 0
        if not is_new:
            live.resume()
        agent = Agent(live, options)
        for listener in self._listeners:
            agent.notices.listen(listener)
        self._agents[agent.id] = agent
        agent.notices.tell("agent/created", agent=agent)
        agent.notices.tell("agent/session-start", source="startup" if is_new else "resume")
        return agent

    async def close(self, agent: Agent) -> None:
        """End ``agent`` as disposed; its inbox stays in the log for whoever resumes it."""
        try:
            await agent.close()
        finally:
            if self._agents.get(agent.id) is agent:
                del self._agents[agent.id]
            agent.notices.tell("agent/disposed", agent=agent)

    async def close_all(self) -> None:
        """End every agent."""
        for agent in list(self._agents.values()):
            await self.close(agent)
