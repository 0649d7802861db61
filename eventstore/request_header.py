"""What a request asks for besides its messages: model, sampling, system prompt, tools.

``{config, adapterDefaults?, system?, tools?}``. Up to log format 2 the system prompt is here; from 3 on it is
a ``system/message`` of its own. In canonical form an empty system prompt, an empty list of tools and empty
adapter defaults are absent.
"""

from __future__ import annotations

from typing import Any

from playhead.eventstore import json_text
from playhead.eventstore.value import Flag, Number, Text, Value, Whole


class CallConfig(Value):
    """The model to call, and how. ``temperature`` and the rest are absent where the provider decides."""

    provider: Text
    model: Text
    reasoning_effort: Text | None = None
    temperature: Number | None = None
    max_tokens: Whole | None = None
    stop: tuple[Text, ...] | None = None


class AdapterDefaults(Value):
    """Marks, always true, on what the adapter filled in because nobody asked for it."""

    reasoning_effort: Flag | None = None
    max_tokens: Flag | None = None


class Tool(Value):
    """A tool on offer. ``parameters`` is its JSON schema."""

    name: Text
    description: Text
    parameters: Any


class RequestHeader(Value):
    """Config, system prompt and tools of a model call."""

    config: CallConfig
    adapter_defaults: AdapterDefaults | None = None
    system: Text | None = None
    tools: tuple[Tool, ...] | None = None

    def canonical(self) -> RequestHeader:
        """The same header, with whatever is empty absent."""
        defaults = self.adapter_defaults
        marked = defaults is not None and (defaults.reasoning_effort or defaults.max_tokens)
        return RequestHeader(
            config=self.config,
            adapter_defaults=defaults if marked else None,
            system=self.system or None,
            tools=self.tools or None,
        )

    def asks_the_same(self, other: RequestHeader) -> bool:
        """Whether config, marks and system prompt are equal, and the tools in order, by their JSON text."""
        return _asked(self.canonical()) == _asked(other.canonical())


def _asked(header: RequestHeader) -> tuple[Any, ...]:
    config = header.config
    defaults = header.adapter_defaults or AdapterDefaults()
    return (
        (config.provider, config.model, config.reasoning_effort, config.temperature),
        (config.max_tokens, config.stop),
        (bool(defaults.reasoning_effort), bool(defaults.max_tokens)),
        header.system,
        [json_text.stringify(tool.to_json()) for tool in header.tools or ()],
    )
