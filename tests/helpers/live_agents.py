"""Small parts of which tests build agents in memory."""

from __future__ import annotations

from typing import Any

from scripted_model import ScriptedModel, counting, ticking

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog, MemorySession
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.options import AgentOptions


def stored(id: str = "s1") -> MemorySession:
    """An empty session."""
    return MemoryLog(ticking()).create(SessionHeader(SessionId(id), 1))


def options(model: ScriptedModel, **named: Any) -> AgentOptions:
    """Options with a clock and ids that are the same every time."""
    given: dict[str, Any] = {
        "config": CallConfig(provider="mock", model="m"),
        "clock": ticking(),
        "new_id": counting(),
    }
    return AgentOptions(model, **(given | named))


def ends(agent: Agent) -> list[str]:
    """How the turns of ``agent`` ended."""
    return [event.json["reason"]["kind"] for event in agent.session.stored.read(types=("turn/end",))]
