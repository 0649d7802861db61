"""The figures of ``playhead stats``: model calls and tools, summed up over sessions, and by model, day or session.

Only a session's own calls count; what it inherited from its parent is the parent's. Steps of which nothing came are
told apart, because nobody can say whether a request went out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from playhead.cli import damage, units
from playhead.cli.prices import Cost, Prices
from playhead.eventstore.findings import damage as damaged
from playhead.projections.attempt import STEP, Attempt
from playhead.projections.session_stats import session_stats
from playhead.projections.token_sums import TokenSum
from playhead.projections.tool_use import Tool

if TYPE_CHECKING:
    from playhead.cli.stats_reading import Reading


@dataclass(frozen=True)
class Figures:
    """Model calls, summed up. ``model_ms`` is the time that ``timed`` of them took; the others have no known end.

    ``silent`` are the steps and retries of which nothing came, ``waited_ms`` the waits before retries.
    """

    turns: int = 0
    steps: int = 0
    calls: int = 0
    silent: int = 0
    retries: int = 0
    waited_ms: float = 0
    model_ms: int = 0
    timed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    tokens: TokenSum = field(default_factory=TokenSum)
    cost: Cost = field(default_factory=Cost)

    @classmethod
    def of(cls, every: Iterable[Attempt], prices: Prices | None = None) -> Figures:
        """The sum over calls of one session."""
        known = list(every)
        made = [call for call in known if call.outcome != "unanswered"]
        spans = [span for call in made if (span := _span(call)) is not None]
        retries = [call.retry for call in known if call.retry is not None]
        return cls(
            turns=len({call.turn for call in known if call.turn is not None}),
            steps=len({(call.turn, call.step) for call in known if call.kind == STEP}),
            calls=len(made),
            silent=len(known) - len(made),
            retries=len(retries),
            waited_ms=sum(retry.delay_ms or 0 for retry in retries if retry.started_ms is not None),
            model_ms=sum(spans),
            timed=len(spans),
            outcomes=Counter(call.outcome for call in made),
            failures=Counter(_code(call) for call in made if call.outcome == "failed"),
            tokens=TokenSum.of(call.tokens for call in made),
            cost=Cost() if prices is None else prices.cost(made),
        )

    def plus(self, other: Figures) -> Figures:
        """The sum of both."""
        return Figures(
            self.turns + other.turns,
            self.steps + other.steps,
            self.calls + other.calls,
            self.silent + other.silent,
            self.retries + other.retries,
            self.waited_ms + other.waited_ms,
            self.model_ms + other.model_ms,
            self.timed + other.timed,
            self.outcomes + other.outcomes,
            self.failures + other.failures,
            self.tokens.plus(other.tokens),
            self.cost.plus(other.cost),
        )

    def to_json(self, *, priced: bool) -> dict[str, Any]:
        """The figures as a JSON object; ``cost`` is a text in exact digits, and there only when ``priced``."""
        cost = {"cost": self.cost.text, "callsWithoutPrice": self.cost.unpriced} if priced else {}
        return {
            "turns": self.turns,
            "steps": self.steps,
            **self.tokens.to_json(),
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": dict(sorted(self.failures.items())),
            "unanswered": self.silent,
            "retries": self.retries,
            "retryWaitMs": self.waited_ms,
            "modelMs": self.model_ms,
            "callsTimed": self.timed,
            **cost,
        }


def _span(call: Attempt) -> int | None:
    begun = call.started_ms if call.asked_ms is None else call.asked_ms
    return None if begun is None or call.ended_ms is None else max(0, call.ended_ms - begun)


def _code(call: Attempt) -> str:
    return (call.failure and call.failure.code) or "unknown"


Name = tuple[str | None, ...]
"""The name of a group: one part, or model and provider; None is what is not known."""

Key = Callable[[Attempt], Name]
"""Which group a call belongs to."""


def by_model(call: Attempt) -> Name:
    """Model and provider."""
    return call.model, call.provider


def by_day(call: Attempt) -> Name:
    """The local day on which the call ended, or began where it has no end."""
    times = (call.ended_ms, call.started_ms, call.asked_ms)
    time_ms = next((time for time in times if time is not None), None)
    return (None if time_ms is None else units.when(time_ms).partition(" ")[0],)


class Summary:
    """Figures of sessions: of all, by group, and of what they inherited; their tools, the most used first.

    ``last`` is the session that was added last.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = prices
        self.sessions = 0
        self.total = Figures()
        self.inherited = Figures()
        self.last: Reading | None = None
        self._unknown: list[dict[str, Any]] = []
        self._damaged: list[dict[str, Any]] = []
        self._groups: dict[Name, Figures] = {}
        self._tools: dict[str, Tool] = {}

    def add(self, found: Reading, key: Key) -> None:
        """Add a session, each of its own calls to the group that ``key`` gives."""
        groups: dict[Name, list[Attempt]] = {}
        for call in found.own:
            groups.setdefault(key(call), []).append(call)
        for name, calls in groups.items():
            made = Figures.of(calls, self.prices)
            self._groups[name] = self._groups.get(name, Figures()).plus(made)
        for tool, used in found.tools.items():
            self._tools[tool] = self._tools.get(tool, Tool()).plus(used)
        self.total = self.total.plus(Figures.of(found.own, self.prices))
        self.inherited = self.inherited.plus(Figures.of(found.inherited, self.prices))
        self.sessions += 1
        self.last = found
        id = found.info.id
        self._unknown += [{"session": id, "type": type, "seq": seq} for type, seq in found.unknown]
        self._damaged += [
            {"session": id, **damage.as_json(finding)} for finding in damaged(found.info.findings)
        ]

    @property
    def groups(self) -> list[tuple[Name, Figures]]:
        """Name and figures of each group, in the order of the names."""
        return sorted(self._groups.items(), key=lambda item: [part or "" for part in item[0]])

    @property
    def tools(self) -> list[tuple[str, Tool]]:
        """Name and figures of each tool, the most used first."""
        return sorted(self._tools.items(), key=lambda item: (-item[1].calls, item[0]))

    def to_json(self, *, alone: bool, by: str | None) -> dict[str, Any]:
        """All of it as a JSON object; ``alone``: of one session, ``by``: what the groups are."""
        priced = self.prices is not None
        told: dict[str, Any] = {"sessions": self.sessions}
        if alone and self.last is not None:
            told = {"session": self.last.info.id, "generation": self.last.info.generation}
        told |= {"damaged": self._damaged, "unknown": self._unknown}
        told |= {"total": self.total.to_json(priced=priced)}
        told |= {"inherited": self.inherited.to_json(priced=priced)}
        if alone and self.last is not None:
            if self.last.as_shown is not None:
                told["speed"] = session_stats.view(self.last.as_shown)
            if self.last.speed is not None:
                told["callSpeed"] = self.last.speed.to_json()
        told["tools"] = [{"tool": name, **msgspec.to_builtins(tool)} for name, tool in self.tools]
        if by is not None and by != "tool":
            told["by"] = by
            told["groups"] = [
                {**dict(zip((by, "provider"), name, strict=False)), **made.to_json(priced=priced)}
                for name, made in self.groups
            ]
        return told
