"""What a conversation is with and how its calls are made, from the options and from the session that goes on.

A session that goes on keeps what it was asked with, its system prompt and its model among that, unless an option says
otherwise. Tools must be named again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from playhead.cli.run_provider import ProviderChoice, choose
from playhead.cli.run_tools import END_GOAL, tools
from playhead.eventstore import members
from playhead.eventstore.errors import UsageError
from playhead.eventstore.registry import event_types
from playhead.eventstore.request_header import AdapterDefaults, CallConfig, RequestHeader
from playhead.live.retry import RetryPolicy

if TYPE_CHECKING:
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.live.tools import Tools

_HEADER = "request/header"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options; None is what nobody said."""

    base_url: str | None = None
    dialect: str | None = None
    key_env: str | None = None
    no_key: bool = False
    model: str | None = None
    system: str | None = None
    effort: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    context_window: int | None = None
    retries: int | None = None
    tools: Sequence[str] = ()
    keeps_wire: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What a conversation is with, and how calls are made; ``keeps_wire`` keeps their bytes.

    ``ends_goals`` adds the tool ``END_GOAL`` to ``tools``, once there are goals.
    """

    provider: ProviderChoice
    key: str
    config: CallConfig
    system: str | None
    tools: Tools
    ends_goals: bool
    context_window: int | None
    policy: RetryPolicy
    keeps_wire: bool


def planned(asked: Asked, last: RequestHeader | None, environment: Mapping[str, str]) -> Plan:
    """The plan for a new session, or for one whose last header is ``last``.

    Raises ``UsageError`` for what does not fit, and where the provider, the model or the key is missing.
    """
    recorded = None if last is None else last.config.provider
    provider = choose(asked.base_url, asked.dialect, recorded, asked.key_env, no_key=asked.no_key)
    model = asked.model or (None if last is None else last.config.model)
    if model is None:
        raise UsageError("which model? Give --model NAME")
    if asked.temperature is not None and not math.isfinite(asked.temperature):
        raise UsageError(f"--temperature {asked.temperature}: give a number")
    given = {
        "reasoning_effort": asked.effort,
        "temperature": asked.temperature,
        "max_tokens": asked.max_tokens,
    }
    kept = {} if last is None else _kept(last)
    said = {name: value for name, value in given.items() if value is not None}
    system = None if last is None else last.system
    return Plan(
        provider=provider,
        key=provider.key(environment),
        config=CallConfig(provider=provider.dialect.name, model=model, **(kept | said)),
        system=system if asked.system is None else asked.system,
        tools=tools(asked.tools, () if provider.key_env is None else (provider.key_env,)),
        ends_goals=END_GOAL in asked.tools,
        context_window=asked.context_window,
        policy=RetryPolicy() if asked.retries is None else RetryPolicy(most=asked.retries),
        keeps_wire=asked.keeps_wire,
    )


def last_header(log: SqlSession) -> RequestHeader | None:
    """With what ``log`` last asked a model; None where it never did."""
    found = None
    for event in log.events(deltas=False, without=frozenset(event_types) - {_HEADER}):
        if event.type == _HEADER:
            found = event
    return None if found is None else RequestHeader.decode(members.inner(members.of(found), "header"))


def _kept(last: RequestHeader) -> dict[str, Any]:
    """What was asked for besides provider and model, and not filled in by an adapter."""
    filled = last.adapter_defaults or AdapterDefaults()
    config = last.config
    kept: dict[str, Any] = {"temperature": config.temperature, "stop": config.stop}
    if not filled.reasoning_effort:
        kept["reasoning_effort"] = config.reasoning_effort
    if not filled.max_tokens:
        kept["max_tokens"] = config.max_tokens
    return {name: value for name, value in kept.items() if value is not None}
