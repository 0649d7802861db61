"""Faults that people reported of other tools, from the writing side: what an agent leaves behind in each."""

from __future__ import annotations

import asyncio
from typing import Any

from scripted_model import GatedTools, Gates, ScriptedModel, counting, settled, ticking, user

from playhead.eventstore import invariants
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog, MemorySession
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.agents import Agents
from playhead.live.goal_driver import GoalDriver
from playhead.live.goals import Goals
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession
from playhead.projections.folding import fold
from playhead.projections.inbox import inbox, verdict

Json = dict[str, Any]


def stored() -> MemorySession:
    return MemoryLog(ticking()).create(SessionHeader(SessionId("s1"), 1))


def options(model: ScriptedModel, tools: GatedTools | None = None) -> AgentOptions:
    config = CallConfig(provider="mock", model="m")
    named: Json = {} if tools is None else {"tools": tools}
    return AgentOptions(model, config, clock=ticking(), new_id=counting(), **named)


def verdicts(session: MemorySession) -> dict[str, str]:
    state = fold(session, inbox).state
    return {message.id: verdict(state, message) for message in state.messages()}


def copied(facts: list[Recorded]) -> MemorySession:
    """What is on disk when a process dies behind ``facts``."""
    session = stored()
    session.append(
        NewEvent(f.type, f.json, f.time_ms, surface_op=f.surface_op, source_seqs=f.source_seqs) for f in facts
    )
    return session


def test_a_crash_with_open_calls_is_resumed_with_exactly_one_result_for_each() -> None:
    async def played() -> MemorySession:
        session, gates = stored(), Gates()
        calls = [
            {
                "type": "block-end",
                "index": at,
                "block": {"type": "tool-call", "id": id, "name": name, "arguments": "{}"},
            }
            for at, (id, name) in enumerate([("c-1", "slow"), ("c-2", "quick"), ("c-3", "slow")])
        ]
        finish = {"type": "finish", "reason": {"kind": "tool-calls"}}
        tools = GatedTools([{"name": "slow", "gate": "t"}, {"name": "quick"}], gates)
        model = ScriptedModel([{"chunks": [*calls, finish]}], gates)
        agent = Agent(LiveSession(session, ticking()), options(model, tools))
        agent.followup(user("m1"))
        await settled()
        agent.cancel({"kind": "disposed"})
        return session

    facts = list(asyncio.run(played()).read())
    begun = [fact.seq for fact in facts if fact.type == "tool/call"]
    died = copied(facts[: begun[1] + 1])  # c-1 and c-2 had begun, c-3 had not, nothing had come back
    LiveSession(died, ticking()).resume()
    results = list(died.read(types=("tool/result",)))
    assert [(fact.json["message"]["source"]["callId"], fact.json["error"]["code"]) for fact in results] == [
        ("c-1", "TOOL_OUTCOME_UNKNOWN"),
        ("c-2", "TOOL_OUTCOME_UNKNOWN"),
        ("c-3", "TOOL_NOT_STARTED"),
    ]
    assert [fact.source_seqs for fact in results] == [(begun[0],), (begun[1],), None]
    last = died.next_seq
    LiveSession(died, ticking()).resume()
    assert died.next_seq == last
    assert list(invariants.check(died.read())) == []


def test_stop_keeps_the_queue_and_an_edited_entry_is_sent_in_its_new_form_alone() -> None:
    async def played() -> MemorySession:
        session = stored()
        model = ScriptedModel(
            [{"chunks": [{"type": "text-delta", "index": 0, "text": "work"}], "then": "hang"}]
        )
        agent = Agent(LiveSession(session, ticking()), options(model))
        agent.followup(user("m-0001"))
        await settled()
        agent.followup(user("q-0002"))
        agent.followup(user("q-0003"))
        agent.steer(user("s-0001"))
        agent.inbox.prepend("next-turn", user("q-0001"))
        agent.inbox.replace("q-0003", user("q-0004"))
        agent.inbox.remove("s-0001")
        agent.cancel({"kind": "user"}, keep_inbox=True)
        await agent.when_idle()
        return session

    session = asyncio.run(played())
    assert verdicts(session) == {
        "m-0001": "admitted",
        "s-0001": "cancelled",
        "q-0003": "replaced",
        "q-0001": "pending",
        "q-0002": "pending",
        "q-0004": "pending",
    }

    async def resumed() -> list[str]:
        model = ScriptedModel([{"text": "a"}] * 4)
        agents = Agents()
        agent = agents.open(session, options(model))
        await settled()
        assert model.requests == [], "nothing runs by itself"
        agent.followup(user("m-0002"))
        await agent.when_idle()
        return [fact.json["id"] for fact in session.read(types=("user/message",))]

    assert asyncio.run(resumed()) == ["m-0001", "q-0001", "q-0002", "q-0004", "m-0002"]


def test_a_message_that_was_claimed_and_never_delivered_is_lost_and_never_sent_by_itself() -> None:
    async def played() -> MemorySession:
        session, gates = stored(), Gates()
        tools = GatedTools([{"name": "bash", "gate": "t"}], gates)
        model = ScriptedModel([{"tool": {"id": "c-1", "name": "bash"}}, {"text": "never"}], gates)
        agent = Agent(LiveSession(session, ticking()), options(model, tools))
        agent.followup(user("m-0001"))
        await settled()
        agent.steer(user("s-0001"))
        agent.followup(user("q-0001"))

        async def stop(proposal: Any, inner: Any) -> Any:
            if proposal.step == 2:
                agent.cancel({"kind": "user"}, keep_inbox=True)
            return await inner(proposal)

        agent.hooks.pre_step.add(stop)
        gates.release("t")
        await agent.when_idle()
        return session

    session = asyncio.run(played())
    assert verdicts(session) == {"m-0001": "admitted", "s-0001": "lost", "q-0001": "pending"}

    async def resumed() -> list[str]:
        agent = Agents().open(session, options(ScriptedModel([{"text": "a"}] * 2)))
        agent.followup(user("m-0002"))
        await agent.when_idle()
        return [fact.json["id"] for fact in session.read(types=("user/message",))]

    assert asyncio.run(resumed()) == ["m-0001", "q-0001", "m-0002"]
    assert verdicts(session)["s-0001"] == "lost"


def test_goal_rounds_stop_at_a_pause_go_on_at_the_new_limit_and_never_by_themselves() -> None:
    session = stored()

    async def played() -> None:
        gates = Gates()
        model = ScriptedModel([{"text": "1"}, {"text": "2", "gate": "two"}, {"text": "3"}], gates)
        agent = Agents().open(session, options(model))
        goals = Goals(agent, ticking(), counting("goal"))
        driver = GoalDriver(agent, goals, counting("round"))
        goals.create("ship the port", 5)
        await settled()
        view = goals.get()
        assert view is not None
        goals.pause(view.ref)
        gates.release("two")
        await agent.when_idle()
        await driver.settled()
        view = goals.get()
        assert view is not None
        assert (view.goal.phase, view.rounds, len(model.requests)) == ("paused", 2, 2)
        view = goals.edit(view.ref, objective="ship the port, tests too", max_rounds=3)
        goals.resume(view.ref)
        await settled()
        await agent.when_idle()
        await driver.settled()
        await agent.close()

    asyncio.run(played())

    async def restarted() -> tuple[str, int, bool, int]:
        model = ScriptedModel([])
        agent = Agents().open(session, options(model))
        goals = Goals(agent, ticking(), counting("goal"))
        driver = GoalDriver(agent, goals, counting("again"))
        await settled()
        await driver.settled()
        view = goals.get()
        assert view is not None
        return view.goal.phase, view.rounds, view.armed, len(model.requests)

    assert asyncio.run(restarted()) == ("blocked", 3, False, 0)
    assert list(invariants.check(session.read())) == []
