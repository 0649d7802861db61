"""What was recorded on the wire, every fault and sound answers, driven: the log has the recorded order of events.

The recorded answers come over HTTP again, with their status and their end; tools answer as they did; what entered a
step is what entered it then. Retries do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from exchanges import Exchange, Scenario, scenarios
from scripted_model import counting, ticking
from scripted_server import CUT, RESET, Answer, Request, scripted_server

from playhead.adapters.providers.chat import DEEPSEEK_CHAT_0_1_1
from playhead.adapters.providers.client import Provider
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.events.tool import ToolError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.messages import Message
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.hooks import Enter, Proposal
from playhead.live.options import AgentOptions
from playhead.live.retry import Retries, RetryPolicy
from playhead.live.session import LiveSession
from playhead.live.tool_box import ToolOutcome

FAULTY = frozenset(
    {
        "http-400",
        "http-errors",
        "http-exhaust",
        "disconnect",
        "disconnect-tool",
        "early-eof",
        "empty",
        "malformed",
    }
)
SOUND = frozenset(
    {
        "bad-tool",
        "big-tool-args",
        "keepalive",
        "max-tokens",
        "multi-turn",
        "parallel-tools",
        "reasoning",
        "text",
        "tool",
        "unicode",
    }
)
OTHERS_WRITE = frozenset(
    {"session/title", "permission/preset", "sandbox/mode", "approval/policy", "session/end-seed"}
)
"""Types of events that plugins of the recorded runtime wrote, and a loop does not."""


def of(names: frozenset[str]) -> list[Any]:
    """The scenarios of these names; one that skips without the recordings."""
    every = scenarios("0.1.1rc1")
    return [one for one in every if one.values[0] is None or one.values[0].folder.name in names]


def order(events: list[Recorded]) -> list[tuple[Any, ...]]:
    """What an order is compared by: types, kinds of chunks and lists, places, endings."""
    told: list[tuple[Any, ...]] = []
    for event in events:
        data = event.json
        if event.type in OTHERS_WRITE:
            continue
        detail: Any = None
        match event.type:
            case "assistant/chunk":
                chunk = data["chunk"]
                reason = chunk.get("reason", {})
                detail = (chunk["type"], reason.get("kind"), reason.get("failure", {}).get("code"))
            case "agent/inbox/spliced":
                detail = (data["target"], data.get("removedCount", 0), len(data["inserted"]))
            case "turn/end":
                reason = data["reason"]
                detail = (reason["kind"], reason.get("error", {}).get("code"))
            case "llm/retry":
                detail = (data["retry"], data["failure"]["code"], data["failure"].get("status"))
            case "request/header":
                detail = data["reason"]
        told.append((event.type, data.get("turn"), data.get("step"), detail))
    return told


class AsRecorded:
    """The recorded session as a script: answers, tools, and what entered each step."""

    def __init__(self, exchanges: list[Exchange], events: list[Recorded]) -> None:
        self._answers = iter(exchanges)
        self.tools: list[Any] = []
        self.prompts = [
            Message.decode(message)
            for event in events
            if event.type == "agent/inbox/spliced"
            for message in event.json["inserted"]
        ]
        self._entered: dict[tuple[int, int], list[Message]] = {}
        self._outcomes: dict[str, ToolOutcome] = {}
        place = (0, 0)
        for event in events:
            match event.type:
                case "step/start":
                    place = (event.json["turn"], event.json["step"])
                    self._entered[place] = []
                case "user/message":
                    self._entered[place].append(Message.decode(event.json))
                case "tool/result":
                    self._remember(event.json)

    def _remember(self, data: Any) -> None:
        (block,) = data["message"]["content"]
        content = tuple(TextBlock(text=part["text"]) for part in block["content"])
        error = ToolError.decode(data["error"]) if "error" in data else None
        self._outcomes[block["toolCallId"]] = ToolOutcome(content, bool(block.get("isError")), error)

    def is_exclusive(self, name: str) -> bool:  # noqa: ARG002 - the protocol's
        return True

    async def call(self, name: str, arguments: str, call_id: str, token: CancelToken) -> ToolOutcome:  # noqa: ARG002
        return self._outcomes[call_id]

    async def pre_step(self, proposal: Proposal, inner: Any) -> Any:  # noqa: ARG002 - the innermost link
        return Enter(tuple(self._entered.get((proposal.turn, proposal.step), ())))

    def answer(self, _request: Request) -> Answer:
        exchange = next(self._answers)
        headers = {
            name: value for name, value in exchange.response_headers.items() if name != "content-length"
        }
        headers = {
            name: value for name, value in headers.items() if name not in ("connection", "transfer-encoding")
        }
        match exchange.end:
            case "complete":
                return Answer(exchange.status, [exchange.body], headers)
            case "reset":
                return Answer(exchange.status, [exchange.body, RESET], headers)
            case "reset-before-response":
                return Answer(None, [RESET])
        return Answer(exchange.status, [exchange.body, CUT], headers)


async def no_wait(_delay_ms: float, _token: CancelToken) -> None:
    """Retries do not wait here."""


async def drive(recorded: AsRecorded, url: str) -> list[Recorded]:
    session = MemoryLog(ticking()).create(SessionHeader(SessionId("s1"), 1))
    async with Provider(DEEPSEEK_CHAT_0_1_1, url, "a-key-for-tests") as provider:
        config = CallConfig(provider="deepseek-official", model="deepseek-v4-flash")
        options = AgentOptions(provider, config, tools=recorded, clock=ticking(), new_id=counting())
        agent = Agent(LiveSession(session, ticking()), options)
        agent.hooks.pre_step.add(recorded.pre_step)
        retries = Retries(agent.session, RetryPolicy(), new_id=counting("retry"), wait=no_wait)
        agent.hooks.request_error.add(retries)
        for prompt in recorded.prompts:
            agent.followup(prompt)
            await agent.when_idle()
    return list(session.read())


def sessions_with_faults(scenario: Scenario) -> Iterator[tuple[list[Exchange], list[Recorded]]]:
    for id, log in scenario.logs().items():
        own = [exchange for exchange in scenario.exchanges() if exchange.session == id]
        if own:
            yield own, list(log.events())


@pytest.mark.parametrize("scenario", of(FAULTY | SOUND))
def test_a_recorded_wire_leaves_the_recorded_order_of_events(scenario: Scenario) -> None:
    compared = 0
    for exchanges, events in sessions_with_faults(scenario):
        recorded = AsRecorded(exchanges, events)
        with scripted_server(script=recorded.answer) as server:
            driven = asyncio.run(drive(recorded, server.url))
        assert order(driven) == order(events)
        compared += 1
    assert compared
