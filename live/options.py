"""What an agent is made of: the model to call, its prompt, its tools, and where ids and time come from."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from playhead.eventstore.chunk_source import ChunkSource
from playhead.eventstore.log import Clock
from playhead.eventstore.log import now_ms as now_ms
from playhead.eventstore.request_header import AdapterDefaults, CallConfig
from playhead.live.tool_box import NoTools, ToolBox

FillIn = Callable[[CallConfig], tuple[CallConfig, AdapterDefaults | None]]
"""Gives a config with the adapter's defaults, and marks on those."""

SystemPrompt = str | Callable[[], Awaitable[str | None]] | None
"""The prompt, or what makes one before every step."""


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())


def as_asked(config: CallConfig) -> tuple[CallConfig, AdapterDefaults | None]:
    """A config as it is: an adapter without defaults."""
    return config, None


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """``source`` answers calls with ``config``. ``context_window`` is in tokens, None where nobody knows."""

    source: ChunkSource
    config: CallConfig
    system: SystemPrompt = None
    tools: ToolBox = field(default_factory=NoTools)
    context_window: int | None = None
    fill_in: FillIn = as_asked
    clock: Clock = now_ms
    new_id: Callable[[], str] = new_id
