"""A live session: one stream, observers that can do no harm, and what a restart finds."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from scripted_model import ScriptedModel, counting, settled, ticking, user

from playhead.eventstore.errors import NotLosslessJson
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog, MemorySession
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent, AgentBusy
from playhead.live.agents import AgentExists, Agents
from playhead.live.notices import Notice
from playhead.live.options import AgentOptions
from playhead.live.session import AppendWhileObserved, LiveSession

Json = dict[str, Any]


def stored() -> MemorySession:
    return MemoryLog(ticking()).create(SessionHeader(SessionId("s1"), 1))


def options(model: ScriptedModel) -> AgentOptions:
    config = CallConfig(provider="mock", model="m")
    return AgentOptions(model, config, clock=ticking(), new_id=counting())


def types(session: MemorySession) -> list[str]:
    return [fact.type for fact in session.read()]


def test_observers_see_what_was_stored_in_the_order_in_which_they_came() -> None:
    session = LiveSession(stored(), ticking())
    seen: list[tuple[str, Recorded]] = []
    session.observe(lambda event: seen.append(("first", event)))
    remove = session.observe(lambda event: seen.append(("second", event)))
    session.append("turn/start", {"turn": 1})
    remove()
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    first, second = session.stored.read()
    assert [(who, event.seq) for who, event in seen] == [("first", 0), ("second", 0), ("first", 1)]
    assert [event.raw for _, event in seen] == [first.raw, first.raw, second.raw]


def test_an_observer_that_fails_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    session = LiveSession(stored(), ticking())
    seen: list[int] = []

    def broken(_event: Recorded) -> None:
        raise RuntimeError("boom")

    session.observe(broken)
    session.observe(lambda event: seen.append(event.seq))
    with caplog.at_level(logging.ERROR, "playhead.live"):
        session.append("turn/start", {"turn": 1})
    assert (seen, session.next_seq) == ([0], 1)
    assert "boom" in caplog.text


def test_appending_while_observers_run_is_refused_and_leaves_the_log_unchanged() -> None:
    session = LiveSession(stored(), ticking())
    refused: list[Exception] = []

    def meddle(_event: Recorded) -> None:
        with pytest.raises(AppendWhileObserved) as error:
            session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        refused.append(error.value)

    session.observe(meddle)
    session.append("turn/start", {"turn": 1})
    assert (len(refused), session.next_seq) == (1, 1)


def test_data_that_json_would_change_is_refused_before_anybody_sees_it() -> None:
    session = LiveSession(stored(), ticking())
    seen: list[Recorded] = []
    session.observe(seen.append)
    with pytest.raises(NotLosslessJson):
        session.append("turn/start", {"turn": float("nan")})
    assert (seen, session.next_seq) == ([], 0)


def test_a_cancel_from_an_observer_cancels_nothing_while_it_would_have_to_clear_input() -> None:
    async def played() -> tuple[Agent, list[Exception]]:
        model = ScriptedModel([{"text": "hello"}])
        agent = Agent(LiveSession(stored(), ticking()), options(model))
        errors: list[Exception] = []

        def cancel(event: Recorded) -> None:
            if event.type == "step/start":
                try:
                    agent.cancel({"kind": "user"})
                except AppendWhileObserved as error:
                    errors.append(error)

        agent.session.observe(cancel)
        agent.followup(user("m1"))
        agent.followup(user("m2"))
        await agent.when_idle()
        return agent, errors

    agent, errors = asyncio.run(played())
    assert len(errors) == 1
    ends = [event.json["reason"]["kind"] for event in agent.session.stored.read(types=("turn/end",))]
    assert ends == ["completed", "aborted"]  # in the second turn there was nothing left to clear


def test_a_resumed_session_is_closed_marked_once_and_goes_on_with_the_next_turn() -> None:
    session = stored()
    crashed = LiveSession(session, ticking())
    crashed.append("turn/start", {"turn": 1})
    crashed.append("step/start", {"turn": 1, "step": 1})

    async def resumed(answers: list[Json], prompt: str | None) -> Agent:
        agents = Agents()
        agent = agents.open(session, options(ScriptedModel(answers)))
        if prompt is not None:
            agent.followup(user(prompt))
            await agent.when_idle()
        await agents.close_all()
        return agent

    asyncio.run(resumed([], None))
    closed = ["turn/start", "step/start", "step/end", "turn/end", "session/end-seed"]
    assert types(session) == closed
    asyncio.run(resumed([], None))
    assert types(session) == closed
    agent = asyncio.run(resumed([{"text": "back"}], "m1"))
    assert agent.last_turn == 2
    assert [fact.json["reason"] for fact in session.read(types=("request/header",))] == ["initial"]


def test_a_session_that_ends_in_mid_stream_is_closed_behind_its_last_delta() -> None:
    session = stored()
    crashed = LiveSession(session, ticking())
    crashed.append("turn/start", {"turn": 1})
    crashed.append("step/start", {"turn": 1, "step": 1})
    delta = {"type": "text-delta", "index": 0, "text": "half"}
    crashed.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": delta})
    resumed = LiveSession(session, ticking())
    added = resumed.resume()
    assert [(event.seq, event.type) for event in added] == [
        (3, "step/end"),
        (4, "turn/end"),
        (5, "session/end-seed"),
    ]
    assert added[0].time_ms == list(session.read())[2].time_ms


def test_a_driver_that_takes_over_logs_its_header_as_a_resume_and_an_unchanged_one_no_more() -> None:
    session = stored()

    async def turn(*prompts: str) -> None:
        agents = Agents()
        agent = agents.open(session, options(ScriptedModel([{"text": "a"}] * len(prompts))))
        for prompt in prompts:
            agent.followup(user(prompt))
        await agent.when_idle()
        await agents.close_all()

    asyncio.run(turn("m1", "m2"))
    asyncio.run(turn("m3"))
    assert [fact.json["reason"] for fact in session.read(types=("request/header",))] == ["initial", "resume"]


def test_agents_are_found_by_session_and_one_session_has_one_agent() -> None:
    async def played() -> list[str]:
        told: list[Notice] = []
        agents = Agents(told.append)
        session = stored()
        agent = agents.open(session, options(ScriptedModel([])))
        assert agents.get("s1") is agent
        with pytest.raises(AgentExists):
            agents.open(session, options(ScriptedModel([])))
        await agents.close(agent)
        assert agents.get("s1") is None
        return [notice.name for notice in told]

    assert asyncio.run(played()) == ["agent/created", "agent/session-start", "agent/disposed"]


def test_maintenance_keeps_turns_out_and_lets_them_in_behind_it() -> None:
    async def played() -> list[str]:
        agent = Agent(LiveSession(stored(), ticking()), options(ScriptedModel([{"text": "hi"}])))
        release = asyncio.Event()

        async def task(_token: Any) -> None:
            await release.wait()

        maintenance = asyncio.ensure_future(agent.run_maintenance(task))
        await settled()
        agent.followup(user("m1"))
        assert (agent.status, agent.last_turn) == ("idle", 0)
        with pytest.raises(AgentBusy):
            agent.run_maintenance(task)
        release.set()
        await maintenance
        await agent.when_idle()
        return [event.json["reason"]["kind"] for event in agent.session.stored.read(types=("turn/end",))]

    assert asyncio.run(played()) == ["completed"]


def test_a_task_that_is_cancelled_from_outside_ends_its_turn_as_disposed() -> None:
    async def played() -> Agent:
        agent = Agent(
            LiveSession(stored(), ticking()), options(ScriptedModel([{"text": "never", "gate": "closed"}]))
        )
        agent.followup(user("m1"))
        await settled()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and "_drive" in repr(task):
                task.cancel()
        await agent.when_idle()
        return agent

    agent = asyncio.run(played())
    (end,) = agent.session.stored.read(types=("turn/end",))
    assert end.json["reason"] == {"kind": "aborted", "reason": {"kind": "disposed"}}
