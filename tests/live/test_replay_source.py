"""A recorded session as a model: driven again it gives the same messages, and a script may fail or hang."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from live_places import Place
from scripted_model import ScriptedModel, counting, settled, ticking, user

from playhead.eventstore.chunks import TextDelta
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.options import AgentOptions
from playhead.live.replay_source import ReplaySource
from playhead.live.retry import Retries, RetryPolicy
from playhead.live.session import LiveSession
from playhead.replay.diff import differences
from playhead.replay.script import Hang, Throw


def agent_of(session: LiveSession, source: Any) -> Agent:
    config = CallConfig(provider="mock", model="m")
    agent = Agent(session, AgentOptions(source, config, clock=ticking(), new_id=counting()))
    policy = RetryPolicy(initial_ms=1)
    agent.hooks.request_error.add(Retries(session, policy, new_id=counting("retry")))
    return agent


def in_memory() -> LiveSession:
    return LiveSession(MemoryLog(ticking()).create(SessionHeader(SessionId("again"), 1)), ticking())


async def prompted(agent: Agent, *prompts: str) -> None:
    for prompt in prompts:
        agent.followup(user(prompt))
        await agent.when_idle()


def test_a_session_driven_by_its_own_recording_is_the_same_session(place: Place) -> None:
    answers = [{"text": "one"}, {"code": "SERVER"}, {"text": "two"}, {"max": "cut"}]
    asyncio.run(prompted(agent_of(place.live(), ScriptedModel(answers)), "m1", "m2", "m3"))
    recorded = place.stored()
    source = ReplaySource.of(recorded)
    again = agent_of(in_memory(), source)
    asyncio.run(prompted(again, "m1", "m2", "m3"))
    assert list(differences(recorded, again.session.stored)) == []
    assert source.left == 0


def test_a_call_beyond_the_script_fails_with_a_code_of_its_own() -> None:
    agent = agent_of(in_memory(), ReplaySource([]))
    asyncio.run(prompted(agent, "m1"))
    (end,) = agent.session.stored.read(types=("turn/end",))
    assert end.json["reason"]["error"]["code"] == "SCRIPT_EXHAUSTED"


def test_an_entry_may_throw_behind_its_chunks_or_hang_until_it_is_cancelled(tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    async def played() -> Agent:
        thrown = Throw((TextDelta(0, "half"),), "no luck", "AUTH")
        agent = agent_of(in_memory(), ReplaySource([thrown, Hang(str(ready))]))
        await prompted(agent, "m1")
        agent.followup(user("m2"))
        await settled()
        assert ready.exists()
        agent.cancel({"kind": "user"})
        await agent.when_idle()
        return agent

    ends = [event.json["reason"] for event in asyncio.run(played()).session.stored.read(types=("turn/end",))]
    assert ends == [
        {"kind": "error", "error": {"message": "no luck", "code": "AUTH"}},
        {"kind": "aborted", "reason": {"kind": "user"}},
    ]
