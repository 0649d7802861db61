"""Retry rules: waits for another attempt, counted in one chain per step, provider and policy.

``llm/retry`` stands in the open step and names the provider of the latest request header. In its chain
``retry`` counts 1, 2, ... under one ``retryId`` that no other chain uses. Mode ``normal`` has a ``maxRetries``
that is not exceeded, mode ``always`` has none. ``llm/retry-started`` ends one scheduled wait, once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from playhead.eventstore import members
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.invariants.rules import BOUNDARIES, Fault, Place
from playhead.eventstore.recorded import Recorded

_LONGEST_DELAY_MS = 2**31 - 1

_Chain = tuple[float | None, float | None, str | None, str | None]


class Retry:
    """See the module."""

    types: ClassVar[frozenset[str] | None] = BOUNDARIES | {"request/header", "llm/retry", "llm/retry-started"}

    def __init__(self) -> None:
        self._place = Place()
        self._provider: str | None = None
        self._chains: dict[_Chain, tuple[str | None, float]] = {}
        self._users: dict[str | None, _Chain] = {}
        self._started: dict[tuple[str | None, float | None], bool] = {}

    def feed(self, fact: Recorded) -> Fault | None:
        """Take the next fact; the first rule it breaks."""
        if self._place.follow(fact):
            return None
        data = members.of(fact)
        if fact.type == "request/header":
            config = members.inner(members.inner(data, "header"), "config")
            self._provider = members.text(config, "provider")
            return None
        fault = self._outside_step(data)
        if fact.type == "llm/retry":
            return self._scheduled(data, fault)
        return self._over(data, fault)

    def _outside_step(self, data: dict[str, Any]) -> Fault | None:
        place = (members.number(data, "turn"), members.number(data, "step"))
        if None not in place and place == (self._place.turn, self._place.step):
            return None
        return Fault("not-in-open-step", f"a retry of turn {place[0]}, step {place[1]}, which is not open")

    def _scheduled(self, data: dict[str, Any], fault: Fault | None) -> Fault | None:
        id, provider = members.text(data, "retryId"), members.text(data, "provider")
        turn, step = members.number(data, "turn"), members.number(data, "step")
        chain = (turn, step, provider, members.text(data, "policyKey"))
        number = members.number(data, "retry")
        known_id, last = self._chains.get(chain, (id, 0))
        user = self._users.setdefault(id, chain)
        self._chains[chain] = (id, number or 0)
        self._started[(id, number)] = False
        if fault is not None:
            return fault
        if provider != self._provider:
            return Fault("retry-provider", f"provider {provider!r} is not that of the latest request")
        fault = _bad_mode(data) or _bad_values(data)
        if fault is not None:
            return fault
        if id != known_id or user != chain:
            return Fault("retry-id", f"retry id {id!r} is not that of its chain alone")
        if number is None or number != last + 1:
            return Fault("retry-number", f"retry {number} follows retry {last}")
        limit = members.number(data, "maxRetries")
        if limit is not None and number > limit:
            return Fault("retry-max", f"retry {number} of at most {limit}")
        return None

    def _over(self, data: dict[str, Any], fault: Fault | None) -> Fault | None:
        key = (members.text(data, "retryId"), members.number(data, "retry"))
        started = self._started.get(key)
        if started is not None:
            self._started[key] = True
        if fault is not None:
            return fault
        if started is None:
            return Fault("retry-not-scheduled", f"retry {key[1]} of {key[0]!r} was never scheduled")
        if started:
            return Fault("retry-started-repeat", f"retry {key[1]} of {key[0]!r} has started before")
        return None


def _bad_mode(data: dict[str, Any]) -> Fault | None:
    has_limit = is_safe_integer(data.get("maxRetries"))
    match data.get("mode"):
        case "normal" if has_limit:
            return None
        case "always" if "maxRetries" not in data:
            return None
    return Fault("retry-mode", "mode and maxRetries do not fit: normal has one, always has none")


def _bad_values(data: dict[str, Any]) -> Fault | None:
    delay = members.number(data, "delayMs")
    if delay is None or not 0 <= delay <= _LONGEST_DELAY_MS:
        return Fault("retry-delay", "delayMs is not a delay")
    failure = members.inner(data, "failure")
    status, after = failure.get("status", 100), failure.get("providerRetryAfterMs", 1)
    told = bool(members.text(failure, "message") and members.text(failure, "code"))
    waits = members.number({"after": after}, "after")
    if not told or not is_safe_integer(status) or not 100 <= status <= 599 or waits is None or waits <= 0:
        return Fault("retry-failure", "the failure lacks a message or code, or has an impossible number")
    return None
