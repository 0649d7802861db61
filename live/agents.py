"""The live agents of a process, by session id."""

from __future__ import annotations

from playhead.eventstore.errors import UsageError
from playhead.eventstore.log import Session
from playhead.eventstore.session_writer import SessionWriter
from playhead.live.agent import Agent
from playhead.live.notices import Listener, Notice
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
    """A session and its agent share one id. A listener given here hears every agent from its creation on.

    One that raises at ``agent/created`` has it that there is no such agent.
    """

    def __init__(self, *listeners: Listener) -> None:
        self._agents: dict[str, Agent] = {}
        self._listeners = listeners

    def get(self, session_id: str) -> Agent | None:
        """The live agent of a session; None where there is none."""
        return self._agents.get(session_id)

    def open(self, session: Session, options: AgentOptions, writer: SessionWriter | None = None) -> Agent:
        """An agent for ``session``: new where the log is empty, else resumed.

        To resume is to close what a crash left open, and to mark where this process begins. Nothing runs until
        somebody wakes the agent. Raises ``AgentExists``, ``CorruptLog`` for a queue that cannot be known (then nothing
        was appended), and what a listener refuses the agent with.
        """
        if session.id in self._agents:
            raise AgentExists(session.id)
        live = LiveSession(session, options.clock, writer)
        is_new = live.next_seq == 0
        agent = Agent(live, options)
        if not is_new:
            live.resume()
        agent.notices.listen(self._forget)
        for listener in self._listeners:
            agent.notices.listen(listener)
        self._agents[agent.id] = agent
        agent.notices.ask("agent/created", "agent/disposed", agent=agent)
        agent.notices.tell("agent/session-start", source="startup" if is_new else "resume")
        return agent

    async def close(self, agent: Agent) -> None:
        """End ``agent`` as disposed; its inbox stays in the log for whoever resumes it."""
        await agent.close()

    async def close_all(self) -> None:
        """End every agent. Raises the first failure, after all have ended."""
        failures = []
        for agent in list(self._agents.values()):
            try:
                await agent.close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _forget(self, notice: Notice) -> None:
        if notice.name == "agent/disposed":
            self._agents.pop(notice.agent_id, None)
