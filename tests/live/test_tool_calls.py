"""Every call of a model gets its result, whatever becomes of the tools, the turn, and the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_agents import options, stored
from scripted_model import ScriptedModel, settled, ticking, user

from playhead.eventstore import invariants
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.memory import MemorySession
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import Tool
from playhead.live.agent import Agent
from playhead.live.session import LiveSession
from playhead.live.tool_box import ToolOutcome
from playhead.live.tool_calls import POOL
from playhead.live.tools import Tools

Json = dict[str, Any]


def asking_for(names: Sequence[str]) -> Json:
    """An answer that calls each of ``names`` once."""
    chunks: list[Json] = []
    for at, name in enumerate(names):
        block = {"type": "tool-call", "id": f"c{at}", "name": name, "arguments": "{}"}
        chunks.append({"type": "block-end", "index": at, "block": block})
    return {"chunks": [*chunks, {"type": "finish", "reason": {"kind": "tool-calls"}}]}


def agent_with(box: Any, names: Sequence[str], session: MemorySession | None = None) -> Agent:
    model = ScriptedModel([asking_for(names), {"text": "done"}])
    return Agent(LiveSession(session or stored(), ticking()), options(model, tools=box))


def played(agent_of: Any) -> list[Recorded]:
    async def play() -> Agent:
        agent: Agent = agent_of()
        agent.followup(user("m1"))
        await agent.when_idle()
        return agent

    return list(asyncio.run(play()).session.stored.read())


def results(events: Sequence[Recorded]) -> list[tuple[str, str | None]]:
    """Call ids and codes of the results, in order; each cites its own ``tool/call``."""
    calls = {event.json["callId"]: event.seq for event in events if event.type == "tool/call"}
    told = []
    for event in events:
        if event.type == "tool/result":
            id = event.json["message"]["source"]["callId"]
            assert event.source_seqs == (calls[id],)
            told.append((id, event.json.get("error", {}).get("code")))
    return told


class Box:
    """A tool box that breaks its contract: ``call`` does what the name says."""

    tools: Sequence[Tool] = ()

    def is_exclusive(self, name: str) -> bool:
        if name == "no-idea":
            raise KeyError(name)
        return name == "alone"

    async def call(self, name: str, arguments: str, call_id: str, token: CancelToken) -> Any:  # noqa: ARG002
        await asyncio.sleep(0)
        match name:
            case "raises":
                raise ValueError("out of order")
            case "cancelled":
                raise asyncio.CancelledError
            case "nothing":
                return None
            case "no-json":
                return ToolOutcome((TextBlock(text="ok"),), meta={"at": float("nan")})
            case "no-blocks":
                return ToolOutcome("just text")  # type: ignore[arg-type]
            case "twice":
                return ToolOutcome((TextBlock(text="ok"),), context=(user("note"), user("note")))
            case "waits":
                await token.wait()
                token.check()
        return ToolOutcome((TextBlock(text="ok"),))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("raises", "TOOL_FAILED"),
        ("cancelled", "ABORTED"),
        ("nothing", "TOOL_FAILED"),
        ("no-json", "TOOL_FAILED"),
        ("no-blocks", "TOOL_FAILED"),
        ("no-idea", None),
    ],
)
def test_a_tool_box_that_breaks_its_contract_leaves_no_call_without_a_result(
    name: str, code: str | None
) -> None:
    events = played(lambda: agent_with(Box(), ["fine", name, "alone", "fine"]))
    assert results(events) == [("c0", None), ("c1", code), ("c2", None), ("c3", None)]
    assert events[-1].json["reason"] == {"kind": "completed"}
    assert list(invariants.check(events)) == []


def test_context_that_cannot_be_parked_fails_the_turn_behind_all_results() -> None:
    events = played(lambda: agent_with(Box(), ["twice", "fine", "alone"]))
    assert results(events) == [("c0", None), ("c1", None), ("c2", "ABORTED_BEFORE_DISPATCH")]
    assert events[-1].json["reason"]["kind"] == "error"
    assert list(invariants.check(events)) == []


def test_the_pool_is_filled_again_as_soon_as_any_call_is_done() -> None:
    """The first call waits for the last one, which is more than a pool away."""
    last = asyncio.Event()

    async def slow() -> str:
        await last.wait()
        return "slow"

    async def quick() -> str:
        return "quick"

    async def opens() -> str:
        last.set()
        return "opens"

    names = ["slow", *["quick"] * (2 * POOL), "opens"]
    events = played(lambda: agent_with(Tools.of(slow, quick, opens), names))
    assert [id for id, _ in results(events)] == [f"c{at}" for at in range(len(names))]


def test_no_more_than_a_pool_runs_at_once() -> None:
    running, most = 0, 0

    async def count() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "counted"

    played(lambda: agent_with(Tools.of(count), ["count"] * (3 * POOL)))
    assert most == POOL


def test_a_call_that_was_cancelled_while_it_became_durable_does_not_run() -> None:
    ran: list[str] = []

    def touch() -> str:
        ran.append("ran")
        return "ok"

    def cancelled_in_time() -> Agent:
        agent = agent_with(Tools.of(touch), ["touch", "touch"])
        flush = agent.session.flush

        async def slow() -> None:
            await flush()
            if list(agent.session.stored.read(types=("tool/call",))):
                agent.cancel({"kind": "user"})

        agent.session.flush = slow  # type: ignore[method-assign]
        return agent

    events = played(cancelled_in_time)
    assert results(events) == [("c0", "ABORTED_BEFORE_DISPATCH"), ("c1", "ABORTED_BEFORE_DISPATCH")]
    assert [event.type for event in events].count("tool/call") == 2
    assert ran == []


def test_a_thread_that_runs_when_its_turn_is_cancelled_is_waited_for_and_gives_its_real_result() -> None:
    release, started = threading.Event(), threading.Event()

    def work(token: CancelToken) -> str:
        started.set()
        release.wait(30)
        return f"done, cancelled: {token.cancelled}"

    async def play() -> list[Recorded]:
        agent = agent_with(Tools.of(work), ["work"])
        agent.followup(user("m1"))
        while not started.is_set():
            await asyncio.sleep(0.001)
        agent.cancel({"kind": "user"})
        await settled()
        assert agent.status == "running"
        release.set()
        await agent.when_idle()
        return list(agent.session.stored.read())

    events = asyncio.run(play())
    (result,) = [event for event in events if event.type == "tool/result"]
    assert result.json["message"]["content"][0]["content"] == [
        {"type": "text", "text": "done, cancelled: True"}
    ]
    assert events[-1].json["reason"]["kind"] == "aborted"


def test_more_threads_than_a_loop_has_for_everybody_run_beside_each_other() -> None:
    together = threading.Barrier(POOL)

    def meet() -> str:
        together.wait(30)
        return "met"

    events = played(lambda: agent_with(Tools.of(meet), ["meet"] * POOL))
    assert [code for _, code in results(events)] == [None] * POOL


def test_a_loop_that_ends_while_tools_run_leaves_a_result_for_every_call_and_a_closed_turn() -> None:
    session, hold = stored(), threading.Event()

    def hangs() -> str:
        hold.wait(30)
        return "too late"

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "cleaned up"
        return "never"

    async def quick() -> str:
        return "quick"

    tools = Tools.of(hangs, stubborn, quick)
    tools.add(quick, name="alone", exclusive=True)

    async def play() -> None:
        agent = agent_with(tools, ["quick", "hangs", "stubborn", "quick", "alone"], session)
        agent.followup(user("m1"))
        await settled()

    asyncio.run(play())
    hold.set()
    events = list(session.read())
    assert results(events) == [
        ("c0", None),
        ("c1", "ABORTED"),
        ("c2", None),
        ("c3", None),
        ("c4", "ABORTED_BEFORE_DISPATCH"),
    ]
    assert [event.type for event in events[-2:]] == ["step/end", "turn/end"]
    assert events[-1].json["reason"] == {"kind": "aborted", "reason": {"kind": "disposed"}}
    assert list(invariants.check(events)) == []


KINDS = ("fine", "alone", "waits", "raises", "cancelled", "nothing", "no-json", "no-idea", "twice")


@settings(max_examples=150, deadline=None)
@given(
    names=st.lists(st.sampled_from(KINDS), min_size=1, max_size=14),
    end=st.sampled_from(["cancel", "tear down"]),
    patience=st.integers(0, 12),
)
def test_whatever_is_asked_for_and_however_it_ends_each_call_has_one_result_in_order(
    names: list[str], end: str, patience: int
) -> None:
    session = stored()

    async def play() -> None:
        agent = agent_with(Box(), names, session)
        agent.followup(user("m1"))
        for _ in range(patience):
            await asyncio.sleep(0)
        if end == "cancel" or patience == 0:
            agent.cancel({"kind": "user"})
            await agent.when_idle()

    asyncio.run(play())
    events = list(session.read())
    asked = [event for event in events if event.type == "assistant/message"]
    if asked and asked[0].json["message"]["content"][0]["type"] == "tool-call":
        assert [id for id, _ in results(events)] == [f"c{at}" for at in range(len(names))]
    types = [event.type for event in events]
    assert types.count("turn/start") == types.count("turn/end")
    assert list(invariants.check(events)) == []
