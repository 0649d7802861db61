"""Sessions that an agent runs with a scripted model, with all that a log of a live session can hold.

Answered and parked prompts, tools, cancelled and failed turns, retries, ceilings, goals; and two that a process left in
the middle of a step. Texts hold what is easily broken: halves of characters, line separators, control characters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripted_model import GatedTools, Gates, ScriptedModel

import playhead
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import MessageId, SessionId
from playhead.eventstore.messages import Message
from playhead.eventstore.request_header import CallConfig
from playhead.eventstore.sql.writer import Writer
from playhead.live.agent import Agent
from playhead.live.agents import Agents
from playhead.live.goal_driver import GoalDriver
from playhead.live.goals import GoalRef, Goals
from playhead.live.options import AgentOptions, new_id, now_ms
from playhead.live.retry import Retries, RetryPolicy

SESSION: Final = "native"

CALLS: Final = [
    {"type": "block-start", "index": 0, "blockType": "tool-call"},
    {
        "type": "tool-call-delta",
        "index": 0,
        "id": "call_1",
        "name": "look",
        "argumentsDelta": '{"at": "\\u2028',
    },
    {"type": "tool-call-delta", "index": 0, "id": "call_1", "name": "look", "argumentsDelta": '"}'},
    {"type": "block-start", "index": 1, "blockType": "tool-call"},
    {"type": "tool-call-delta", "index": 1, "id": "call_2", "name": "wait", "argumentsDelta": ""},
    {"type": "finish", "reason": {"kind": "tool-calls"}},
]
HALVES: Final = [
    {"type": "block-start", "index": 0, "blockType": "reasoning"},
    {"type": "reasoning-delta", "index": 0, "text": "Hm \ud83d"},
    {"type": "reasoning-delta", "index": 0, "text": "\ude00."},
    {"type": "block-start", "index": 1, "blockType": "text"},
    {"type": "text-delta", "index": 1, "text": "Fünf \u2028 \x01."},
    {"type": "usage", "usage": {"inputTokens": 7, "outputTokens": 3, "cacheReadTokens": 0}},
    {"type": "finish", "reason": {"kind": "stop"}},
]


@dataclass
class Live:
    """A live agent, its model's gates, and the file that holds the session."""

    agent: Agent
    gates: Gates


def message(text: str) -> Message:
    """What a person says."""
    return Message.user(MessageId(new_id()), [TextBlock(text=text)])


async def say(live: Live, text: str) -> None:
    live.agent.followup(message(text))
    await live.agent.when_idle()


def park(live: Live, *texts: str) -> None:
    """Leave a message in each list that nobody begins to work on."""
    for text in texts:
        live.agent.send(message(text), "next-turn", False)
    live.agent.inject(message("By the way."))


async def until(live: Live, type: str) -> None:
    """Wait until the agent has logged an event of this type."""
    seen = asyncio.Event()
    stop = live.agent.session.observe(lambda event: seen.set() if event.type == type else None)
    await asyncio.wait_for(seen.wait(), 20)
    stop()


async def turns_and_a_queue(live: Live) -> None:
    await say(live, "Say something.")
    live.gates.release("wait")
    await say(live, "Look around.")
    park(live, "Queued.")


async def stopped_and_failed(live: Live) -> None:
    retries = Retries(live.agent.session, RetryPolicy(most=1, initial_ms=1))
    live.agent.hooks.request_error.add(retries)
    live.agent.followup(message("Tell me a story."))
    await until(live, "assistant/chunk")
    park(live, "Never mind.")
    live.agent.cancel({"kind": "user"})
    await live.agent.when_idle()
    await say(live, "Once more.")
    await say(live, "And again.")
    await say(live, "At length.")
    live.agent.followup(message("Wait for me."))
    await until(live, "tool/call")
    live.agent.cancel({"kind": "user"})
    await live.agent.when_idle()


async def goals(live: Live) -> None:
    found = Goals(live.agent, now_ms, new_id)
    driver = GoalDriver(live.agent, found, new_id)
    await say(live, "Hello.")
    found.create("Count to two", 2)
    await driver.settled()
    await live.agent.when_idle()
    await driver.settled()
    found.complete(standing(found))
    await live.agent.when_idle()
    found.create("Count to three", 5)
    found.pause(standing(found))
    await driver.settled()


def standing(goals: Goals) -> GoalRef:
    """The goal that is there."""
    view = goals.get()
    assert view is not None
    return GoalRef(view.goal.id, view.goal.revision)


async def died_in_a_tool(live: Live) -> None:
    live.agent.followup(message("Look around."))
    await until(live, "tool/result")
    park(live, "Queued.")


async def died_in_an_answer(live: Live) -> None:
    live.agent.followup(message("Tell me a story."))
    await until(live, "assistant/chunk")
    park(live, "Queued.")


Act = Callable[[Live], Awaitable[None]]
SESSIONS: Final[Mapping[str, tuple[Act, list[Any]]]] = {
    "turns and a queue": (turns_and_a_queue, [{"chunks": HALVES}, {"chunks": CALLS}, {"text": "All seen."}]),
    "stopped and failed": (
        stopped_and_failed,
        [
            {"chunks": HALVES[:5], "then": "hang"},
            {"code": "RATE_LIMIT", "message": "slow down", "status": 429, "providerRetryAfterMs": 1},
            {"text": "There you are."},
            {"chunks": HALVES[:2], "then": {"throw": {"code": "STREAM_CLOSED", "message": "gone"}}},
            {"max": "This is cut"},
            {"chunks": CALLS},
        ],
    ),
    "goals": (goals, [{"text": "Hello."}, {"text": "One."}, {"text": "Two."}]),
    "died in a tool": (died_in_a_tool, [{"chunks": CALLS}]),
    "died in an answer": (died_in_an_answer, [{"chunks": HALVES[:3], "then": "hang"}]),
}


async def live(store: Path, workspace: Path, name: str, export: Callable[[], None]) -> None:
    """Run one of ``SESSIONS`` in a new store, and call ``export`` when all that it did is in there.

    Those that died are still at work then; what they do afterwards is no concern of who looked.
    """
    act, answers = SESSIONS[name]
    gates = Gates()
    tools = GatedTools([{"name": "look"}, {"name": "wait", "gate": "wait"}], gates)
    config = CallConfig(provider="deepseek-official", model="deepseek-v4-flash")
    with playhead.open_store(str(store)) as held, Writer(held) as writer:
        session = held.create(SessionHeader(SessionId(SESSION), now_ms(), cwd=str(workspace)))
        options = AgentOptions(ScriptedModel(answers, gates), config, system="Be brief.", tools=tools)
        agent = Agents().open(session, options, writer.open(session))
        try:
            await act(Live(agent, gates))
            await agent.flush()
            export()
        finally:
            gates.release("wait")
            await agent.close()
