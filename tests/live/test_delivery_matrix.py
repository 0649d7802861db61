"""Every recorded delivery case: the same ordered trace and the same end, wherever the session is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from live_places import Place
from reference import cases
from scripted_model import GatedTools, Gates, ScriptedModel, counting, ticking, user

from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.log import NewEvent
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.hooks import CallFailed, Enter, Proposal, Reject, Retry, Stopping
from playhead.live.notices import Notice
from playhead.live.options import AgentOptions

Json = dict[str, Any]
PLUGIN = {"kind": "plugin", "plugin": "p"}


class Scenario:
    """One case on the way: the agent, its hooks, and the trace so far."""

    def __init__(self, case: Json, place: Place) -> None:
        self.place = place
        self.case = case
        self.trace: list[Any] = []
        self.gates = Gates()
        self.model = ScriptedModel(case["model"], self.gates)
        self._fired: set[int] = set()
        seed = [NewEvent(event["type"], event["data"], 1) for event in case.get("seed", ())]
        self.live = place.live(seed, case.get("seedLength"))
        if seed:
            self.live.resume()
        options = AgentOptions(
            self.model,
            CallConfig(provider="mock", model="m"),
            tools=GatedTools(case.get("tools", ()), self.gates),
            clock=ticking(),
            new_id=counting(),
        )
        self.agent = Agent(self.live, options)
        self.live.observe(self._durable)
        self.agent.notices.listen(self._live)
        self.agent.hooks.pre_step.add(self._pre_step)
        self.agent.hooks.request_error.add(self._request_error)
        self.agent.hooks.turn_stopping.add(self._turn_stopping)
        self._retries = case.get("retries", 0)

    def tell(self, channel: str, name: str, info: Json) -> None:
        self.trace.append([channel, name, info])
        for at, hook in enumerate(self.case.get("hooks", ())):
            matched = all(info.get(key) == value for key, value in hook.get("match", {}).items())
            if hook["on"] == f"{channel}:{name}" and matched and at not in self._fired:
                self._fired.add(at)
                for action in hook["actions"]:
                    self.act(action)

    def act(self, action: Json) -> None:
        agent, id = self.agent, action.get("id", "")
        match action["do"]:
            case "followup":
                agent.followup(user(id))
            case "steer":
                agent.steer(user(id))
            case "inject":
                agent.inject(user(id, PLUGIN))
            case "send":
                agent.send(user(id), action["target"], action["wakeup"])
            case "cancel":
                agent.cancel(action["cause"], keep_inbox=action.get("keepInbox", False))
            case "remove":
                agent.inbox.remove(id)
            case "release":
                self.gates.release(action["gate"])
            case other:
                raise AssertionError(other)

    async def run(self) -> None:
        for action in self.case["actions"]:
            match action["do"]:
                case "wait_idle":
                    await self.agent.when_idle()
                case "settle":
                    await self.place.settled()
                case _:
                    self.act(action)
            told = {"after": action["do"]} | ({"id": action["id"]} if "id" in action else {})
            self.trace.append(["mark", told, {"status": self.agent.status}])
        await self.place.settled()

    def _durable(self, event: Recorded) -> None:
        data = event.json
        place = {"turn": data.get("turn"), "step": data.get("step")}
        info: Json
        match event.type:
            case "agent/inbox/spliced":
                info = data | {"inserted": [message["id"] for message in data["inserted"]]}
            case "user/message":
                info = {"id": data["id"]}
            case "request/header":
                info = {"reason": data["reason"]}
            case "request/context":
                info = {}
            case "assistant/chunk":
                info = place | {"chunk": data["chunk"]["type"]}
            case "assistant/message":
                info = place | {"blocks": [block["type"] for block in data["message"]["content"]]}
                info |= {"usage": True} if "usage" in data else {}
                info |= {"interrupted": True} if data.get("interrupted") else {}
                info |= {"chunks_cited": len(event.source_seqs or ())}
            case "tool/call":
                info = {"callId": data["callId"]}
            case "tool/result":
                info = {"callId": data["message"]["source"]["callId"]}
                info |= {"code": data["error"]["code"]} if "error" in data else {}
            case _:
                info = data
        self.tell("durable", event.type, info)

    def _live(self, notice: Notice) -> None:
        told = dict(notice.info)
        told.pop("error", None)
        message = told.pop("message", None)
        self.tell("live", notice.name, ({"id": message.id} if message else {}) | told)

    async def _pre_step(self, proposal: Proposal, inner: Any) -> Any:
        ids = [message.id for message in proposal.messages]
        info = {"turn": proposal.turn, "step": proposal.step, "messages": ids}
        self.tell("hook", "agent/pre-step", info)
        place = {"on": "pre-step", "turn": proposal.turn, "step": proposal.step}
        for hook in self.case.get("hooks", ()):
            if place.items() <= hook.items():
                for action in hook["actions"]:
                    self.act(action)
                match hook["decision"]:
                    case "reject":
                        return Reject()
                    case "throw":
                        raise RuntimeError("policy crashed")
                    case "empty":
                        return Enter(())
                    case "rewrite":
                        return Enter(tuple(user(id) for id in hook["messages"]))
        return await inner(proposal)

    async def _request_error(self, failed: CallFailed, inner: Any) -> Any:
        info = {"turn": failed.turn, "step": failed.step, "code": failed.failure.code}
        self.tell("hook", "agent/request-error", info)
        if self._retries:
            self._retries -= 1
            return Retry()
        return await inner(failed)

    async def _turn_stopping(self, stopping: Stopping) -> None:
        self.tell("hook", "agent/turn-stopping", {"turn": stopping.turn})


def asked(request: ModelRequest) -> list[str]:
    """The messages of a request: by id, and what the model and tools said by text or kind of block."""
    named = []
    for message in request.messages:
        block = message["content"][0]
        named.append(message["id"] if message["source"]["kind"] in ("user", "plugin") else _name(block))
    return named


def _name(block: Json) -> str:
    return block["text"] if block["type"] == "text" else block["type"]


@pytest.mark.parametrize("case", cases("delivery_matrix", "scenarios"))
def test_a_recorded_delivery_leaves_the_same_trace_and_the_same_end(case: Json, place: Place) -> None:
    async def played() -> Scenario:
        scenario = Scenario(case, place)
        await scenario.run()
        return scenario

    scenario = asyncio.run(played())
    assert scenario.trace == case["expect"]["trace"]
    agent = scenario.agent
    assert {
        "status": agent.status,
        "next-turn": [message.id for message in agent.inbox.next_turn],
        "next-step": [message.id for message in agent.inbox.next_step],
        "model_calls": len(scenario.model.requests),
        "requests": [asked(request) for request in scenario.model.requests],
    } == case["expect"]["final"]
