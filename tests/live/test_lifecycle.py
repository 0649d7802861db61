"""The life of an agent: opened, refused, woken, kept busy, closed, and torn down with its loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_agents import ends, options, stored
from live_places import live_place
from scripted_model import Gates, ScriptedModel, settled, ticking, user

import playhead
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.errors import CorruptLog, WrongExpectedSeq
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemorySession
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql.writer import Writer
from playhead.live.agent import Agent, AgentBusy, AgentClosed, NoLoop
from playhead.live.agents import Agents
from playhead.live.notices import Notice
from playhead.live.session import LiveSession
from playhead.projections.inbox_lists import NEXT_TURN

HALF = {"chunks": [{"type": "text-delta", "index": 0, "text": "half"}], "then": "hang"}


def new_agent(answers: list[dict[str, Any]], gates: Gates | None = None, **named: Any) -> Agent:
    return Agent(LiveSession(stored(), ticking()), options(ScriptedModel(answers, gates), **named))


# Opening


def test_a_listener_that_refuses_an_agent_has_it_taken_back_from_those_who_saw_it() -> None:
    told: list[tuple[str, str]] = []

    def hear(name: str) -> Callable[[Notice], None]:
        return lambda notice: told.append((name, notice.name))

    def refuse(_notice: Notice) -> None:
        raise PermissionError("not here")

    agents = Agents(hear("before"), refuse, hear("behind"))
    with pytest.raises(PermissionError, match="not here"):
        agents.open(stored(), options(ScriptedModel([])))
    assert told == [("before", "agent/created"), ("before", "agent/disposed")]
    assert agents.get("s1") is None


def test_a_queue_that_cannot_be_known_is_refused_before_anything_is_appended() -> None:
    session = stored()
    session.append([NewEvent("agent/inbox/spliced", {"target": "next-turn", "start": 7, "inserted": []})])
    with pytest.raises(CorruptLog):
        Agents().open(session, options(ScriptedModel([])))
    assert session.next_seq == 1


def test_every_notice_says_whose_it_is() -> None:
    told: list[Notice] = []
    agents = Agents(told.append)

    async def played() -> None:
        agent = agents.open(stored(), options(ScriptedModel([{"text": "a"}])))
        agent.followup(user("m1"))
        await agent.when_idle()
        await agents.close_all()

    asyncio.run(played())
    assert {notice.agent_id for notice in told} == {"s1"}
    assert "agent/inbox/claimed" in {notice.name for notice in told}


def test_a_session_whose_writer_has_more_than_the_store_shows_is_refused(tmp_path: Path) -> None:
    with live_place("writer", tmp_path) as place:
        live = place.live()
        with Writer(place.store, window_ms=60_000) as slow:
            queue = slow.open(place.store.session("s1"))
            first = LiveSession(place.store.session("s1"), ticking(), queue)
            first.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {}})
            with pytest.raises(WrongExpectedSeq):
                LiveSession(place.store.session("s1"), ticking(), queue)
        assert live.next_seq == 0


# Guards


def test_a_guard_keeps_an_event_out_before_it_is_stored_or_seen() -> None:
    session = LiveSession(stored(), ticking())
    seen: list[Recorded] = []
    session.observe(seen.append)

    def no_commands(fact: Recorded) -> None:
        if fact.type == "command/run":
            raise ValueError(f"seq {fact.seq} is refused")

    remove = session.guard(no_commands)
    session.append("turn/start", {"turn": 1})
    with pytest.raises(ValueError, match="seq 1 is refused"):
        session.append("command/run", {"commandId": "c", "name": "n"})
    assert (len(seen), session.next_seq, session.stored.next_seq) == (1, 1, 1)
    remove()
    session.append("command/run", {"commandId": "c", "name": "n"})
    assert [fact.seq for fact in seen] == [0, 1]


def test_who_begins_to_observe_while_an_event_is_shown_sees_the_next_one() -> None:
    session = LiveSession(stored(), ticking())
    seen: list[int] = []

    def first(_event: Recorded) -> None:
        if not seen:
            session.observe(lambda event: seen.append(event.seq))
            seen.append(-1)

    session.observe(first)
    session.append("turn/start", {"turn": 1})
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    assert seen == [-1, 1]


# Observers that await


def test_what_an_observer_leaves_to_be_awaited_runs_and_is_logged_where_it_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    async def later(event: Recorded) -> None:
        await asyncio.sleep(0)
        if event.type == "turn/end":
            raise RuntimeError("boom later")
        seen.append(event.type)

    async def played() -> None:
        session = LiveSession(stored(), ticking())
        session.observe(later)
        session.append("turn/start", {"turn": 1})
        session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        await settled()

    with caplog.at_level(logging.ERROR, "playhead.live"):
        asyncio.run(played())
    assert seen == ["turn/start"]
    assert "boom later" in caplog.text


def test_an_observer_that_awaits_where_no_loop_runs_is_logged_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session, seen = LiveSession(stored(), ticking()), list[int]()

    async def later(_event: Recorded) -> None: ...

    session.observe(later)
    session.observe(lambda event: seen.append(event.seq))
    with caplog.at_level(logging.ERROR, "playhead.live"):
        session.append("turn/start", {"turn": 1})
    assert (seen, session.stored.next_seq) == ([0], 1)
    assert "no running event loop" in caplog.text


def test_an_observer_that_asks_a_cancelled_task_for_its_result_stops_nobody() -> None:
    async def played() -> int:
        session = LiveSession(stored(), ticking())
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        session.observe(lambda _event: cancelled.result())
        return session.append("turn/start", {"turn": 1}).seq

    assert asyncio.run(played()) == 0


# Waking


def test_a_waking_send_where_no_loop_runs_is_refused_and_leaves_no_trace() -> None:
    agent = new_agent([])
    with pytest.raises(NoLoop):
        agent.followup(user("m1"))
    assert (agent.status, agent.session.next_seq, agent.inbox.has_pending) == ("idle", 0, False)
    agent.inject(user("m2"))  # no loop is needed to wait
    assert agent.inbox.has_pending


def test_waking_an_agent_takes_up_what_is_pending_and_nothing_otherwise() -> None:
    async def played() -> Agent:
        agent = new_agent([{"text": "a"}])
        agent.wake()
        assert (agent.status, agent.last_turn) == ("idle", 0)
        agent.send(user("parked"), NEXT_TURN, False)
        agent.wake()
        await agent.when_idle()
        return agent

    agent = asyncio.run(played())
    assert [event.json["id"] for event in agent.session.stored.read(types=("user/message",))] == ["parked"]


# Cancelling between the end of a turn and the next


def test_a_cancel_while_the_end_of_a_turn_becomes_durable_keeps_the_queue_parked() -> None:
    async def played() -> Agent:
        agent = new_agent([{"text": "a"}, {"text": "never"}])
        agent.followup(user("m1"))
        agent.followup(user("m2"))
        flush = agent.session.flush

        async def slow() -> None:
            await flush()
            if list(agent.session.stored.read(types=("turn/end",))):
                agent.cancel({"kind": "user"}, keep_inbox=True)

        agent.session.flush = slow  # type: ignore[method-assign]
        await agent.when_idle()
        return agent

    agent = asyncio.run(played())
    assert (ends(agent), [message.id for message in agent.inbox.next_turn]) == (["completed"], ["m2"])


def test_a_waking_send_behind_such_a_cancel_gets_its_turn() -> None:
    async def played() -> Agent:
        agent = new_agent([{"text": "a"}, {"text": "b"}])
        agent.followup(user("m1"))
        flush, done = agent.session.flush, False

        async def slow() -> None:
            nonlocal done
            await flush()
            if not done and list(agent.session.stored.read(types=("turn/end",))):
                done = True
                agent.cancel({"kind": "user"})
                agent.steer(user("m2"))

        agent.session.flush = slow  # type: ignore[method-assign]
        await agent.when_idle()
        return agent

    assert ends(asyncio.run(played())) == ["completed", "completed"]


# Maintenance


def test_maintenance_is_refused_at_once_and_keeps_turns_out_from_its_call_on() -> None:
    async def played() -> Agent:
        agent = new_agent([{"text": "a"}])

        async def look(_token: CancelToken) -> str:
            return "done"

        first = agent.run_maintenance(look)
        with pytest.raises(AgentBusy):
            agent.run_maintenance(look)
        agent.followup(user("m1"))  # before the task had a chance to begin
        assert (agent.status, agent.is_idle, agent.last_turn) == ("idle", False, 0)
        assert await first == "done"
        await agent.when_idle()
        return agent

    assert ends(asyncio.run(played())) == ["completed"]


def test_maintenance_that_fails_or_is_cancelled_lets_turns_in_again() -> None:
    async def played() -> Agent:
        agent = new_agent([{"text": "a"}, {"text": "b"}])

        async def fail(_token: CancelToken) -> None:
            raise RuntimeError("no luck")

        async def wait(token: CancelToken) -> None:
            await token.wait()
            token.check()

        with pytest.raises(RuntimeError, match="no luck"):
            await agent.run_maintenance(fail)
        never_begun = agent.run_maintenance(wait)
        never_begun.cancel()
        await asyncio.wait([never_begun])
        waits = agent.run_maintenance(wait)
        agent.cancel({"kind": "user"})
        agent.followup(user("m1"))
        await asyncio.wait([waits])
        await agent.when_idle()
        return agent

    assert ends(asyncio.run(played())) == ["completed"]


# Closing


def test_a_closed_agent_leaves_its_registry_whoever_closes_it_and_takes_nothing_more() -> None:
    told: list[str] = []

    async def played() -> None:
        agents, session = Agents(lambda notice: told.append(notice.name)), stored()
        agent = agents.open(session, options(ScriptedModel([])))
        await agent.close()
        assert agents.get("s1") is None
        await agents.close(agent)
        with pytest.raises(AgentClosed):
            agent.followup(user("m1"))
        with pytest.raises(AgentClosed):
            agent.inject(user("m1"))
        agents.open(session, options(ScriptedModel([])))

    asyncio.run(played())
    assert told.count("agent/disposed") == 1


def test_input_that_comes_while_an_agent_closes_waits_for_the_next_process() -> None:
    async def played() -> Agent:
        agent = new_agent([HALF, {"text": "never"}])
        agent.followup(user("m1"))
        await settled()
        agent.cancel({"kind": "user"})
        agent.followup(user("latched"))
        await agent.close()
        return agent

    agent = asyncio.run(played())
    assert (ends(agent), [message.id for message in agent.inbox.next_turn]) == (["aborted"], ["latched"])


def test_all_agents_are_closed_though_one_cannot_be_flushed() -> None:
    async def played() -> list[str]:
        agents = Agents()
        first = agents.open(stored("a"), options(ScriptedModel([])))
        agents.open(stored("b"), options(ScriptedModel([])))

        async def broken() -> None:
            raise OSError("no disk")

        first.session.close = broken  # type: ignore[method-assign]
        with pytest.raises(OSError, match="no disk"):
            await agents.close_all()
        return [id for id in ("a", "b") if agents.get(id) is not None]

    assert asyncio.run(played()) == []


def test_closing_an_agent_lets_go_of_its_session_in_the_writer(tmp_path: Path) -> None:
    with playhead.open_store(str(tmp_path / "store.sqlite")) as store, Writer(store) as writer:

        async def played(prompt: str) -> None:
            session = store.session("s1")
            agents = Agents()
            agent = agents.open(session, options(ScriptedModel([{"text": "a"}])), writer.open(session))
            agent.followup(user(prompt))
            await agent.when_idle()
            await agents.close_all()
            assert writer._sessions == {}

        store.create(playhead.SessionHeader(playhead.SessionId("s1"), 1))
        asyncio.run(played("m1"))
        asyncio.run(played("m2"))
        turns = [fact.json["turn"] for fact in store.session("s1").read(types=("turn/end",))]
        assert turns == [1, 2]


# Torn down with its loop


def torn_down(agent_of: Callable[[MemorySession], Agent]) -> tuple[MemorySession, list[Recorded]]:
    """The session of an agent whose loop ended while it worked."""
    session = stored()

    async def played() -> None:
        agent = agent_of(session)
        agent.followup(user("m1"))
        await settled()

    asyncio.run(played())
    return session, list(session.read())


def test_a_loop_that_ends_in_mid_stream_leaves_what_came_and_a_closed_turn() -> None:
    session, facts = torn_down(lambda log: Agent(LiveSession(log, ticking()), options(ScriptedModel([HALF]))))
    assert [fact.type for fact in facts[-4:]] == [
        "assistant/chunk",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    message = facts[-3].json
    assert (message["interrupted"], message["message"]["content"][0]["text"]) == (True, "half")
    assert facts[-1].json["reason"] == {"kind": "aborted", "reason": {"kind": "disposed"}}
    assert LiveSession(session, ticking()).messages()[-1]["content"][0]["text"] == "half"


def test_a_latched_wake_does_not_begin_a_turn_on_a_loop_that_ends() -> None:
    session = stored()

    async def played() -> None:
        agent = Agent(
            LiveSession(session, ticking()), options(ScriptedModel([{"text": "a", "gate": "closed"}]))
        )
        agent.followup(user("m1"))
        await settled()
        agent.cancel({"kind": "user"}, keep_inbox=True)
        agent.followup(user("m2"))

    asyncio.run(played())
    types = [fact.type for fact in session.read()]
    assert types.count("turn/start") == types.count("turn/end") == 1
