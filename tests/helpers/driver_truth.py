"""What a driver knows of its own session: written down as it acts, never read off the log.

The driver of ``driver_model`` tells each thing in its own words at the moment it becomes durable. The ledger keeps
plain lists and dicts, and a ``Moment`` after every event. It shares no code with the projections.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

Entry = dict[str, Any]
Todos = list[dict[str, str]]


@dataclass
class Fate:
    """What became of a message.

    ``verdict`` is ``open`` from the claim to the delivery or the end of the turn. A ``reason`` of None says that
    there is none, or that the log cannot tell.
    """

    verdict: str
    reason: str | None = None
    detail: str | None = None
    stays: int = 1
    inserted_seq: int = -1
    inserted_ms: int = 0
    target: str = ""
    claimed_turn: int | None = None
    claimed_step: int | None = None
    claimed_ms: int | None = None
    admitted_seq: int | None = None
    replaced_by: str | None = None


@dataclass
class Call:
    """A model call: where it was made, how it came out, and what it reported last."""

    turn: int | None
    step: int | None
    outcome: str = "open"
    finish: str | None = None
    usage: dict[str, int] | None = None
    inherited: bool = False


@dataclass(frozen=True)
class Moment:
    """How things stood after the event ``seq``."""

    seq: int
    next_turn: tuple[str, ...]
    next_step: tuple[str, ...]
    verdicts: dict[str, str]
    goal: dict[str, Any] | None
    rounds: int
    surface: tuple[int, ...]
    title: str | None
    todos: Todos | None


@dataclass
class Stats:
    """The figures of a session as its runtime shows them, and what is open in them."""

    turns: int = 0
    steps: int = 0
    llm_ms: int = 0
    tool_ms: int = 0
    ttft_ms: int = 0
    ttft_steps: int = 0
    decode_ms: int = 0
    decode_tokens: int = 0
    counted_turn: int | None = None
    step_ms: int = 0
    token_ms: int | None = None
    called_ms: dict[str, int] = field(default_factory=dict)

    def answered(self, time_ms: int, usage: dict[str, int] | None) -> None:
        self.llm_ms += max(0, time_ms - self.step_ms)
        if self.token_ms is not None:
            self.ttft_ms += max(0, self.token_ms - self.step_ms)
            self.ttft_steps += 1
            if usage is not None:
                self.decode_ms += max(0, time_ms - self.token_ms)
                self.decode_tokens += usage["outputTokens"]

    def step_ended(self, turn: int | None) -> None:
        self.steps += 1
        self.turns += turn != self.counted_turn
        self.counted_turn = turn


@dataclass
class Truth:
    """The whole ledger of a session."""

    lists: dict[str, list[str]] = field(default_factory=lambda: {"next-turn": [], "next-step": []})
    fates: dict[str, Fate] = field(default_factory=dict)
    goal: dict[str, Any] | None = None
    rounds: int = 0
    admitted_rounds: list[tuple[str, int]] = field(default_factory=list)
    surface: list[int] = field(default_factory=list)
    title: str | None = None
    todos: Todos | None = None
    transcript: list[Entry] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    shown_usage: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    stats: Stats = field(default_factory=Stats)
    moments: list[Moment] = field(default_factory=list)

    def moment(self, seq: int) -> None:
        """Remember how things stand after the event ``seq``."""
        self.moments.append(
            Moment(
                seq,
                tuple(self.lists["next-turn"]),
                tuple(self.lists["next-step"]),
                {id: fate.verdict for id, fate in self.fates.items()},
                self.goal,
                self.rounds,
                tuple(self.surface),
                self.title,
                self.todos,
            )
        )

    def queued(self, id: str, target: str, seq: int, time_ms: int) -> None:
        """A message came into a list. One that was there before begins another stay."""
        stays = self.fates[id].stays + 1 if id in self.fates else 1
        self.fates[id] = Fate("pending", stays=stays, inserted_seq=seq, inserted_ms=time_ms, target=target)

    def claimed(self, id: str, turn: int, step: int, time_ms: int) -> None:
        fate = self.fates[id]
        fate.verdict, fate.claimed_turn, fate.claimed_step, fate.claimed_ms = "open", turn, step, time_ms

    def cancelled(self, id: str, reason: str | None) -> None:
        self.fates[id].verdict, self.fates[id].reason = "cancelled", reason

    def turn_ended(self, kind: str, detail: str | None, steps_over: int, cleared: list[str]) -> None:
        """The turn is over: what it claimed and did not deliver is refused or lost."""
        for fate in self.fates.values():
            if fate.verdict != "open":
                continue
            if (fate.claimed_step or 0) <= steps_over or kind in ("completed", "max-tokens"):
                fate.verdict, fate.reason, fate.detail = "lost", "left-out", kind
            else:
                fate.verdict = "refused" if kind == "blocked" else "lost"
                fate.reason, fate.detail = kind, detail
        for id in cleared if kind == "aborted" else ():
            fate = self.fates[id]
            if (fate.verdict, fate.reason) == ("cancelled", "cleared"):
                fate.reason, fate.detail = "stopped", detail

    def forked(self) -> Truth:
        """The ledger of a child: it inherits everything but the pending input and the bill.

        Where its parent was a child itself, nobody can tell that marker from one of a resume any more.
        """
        child = copy.deepcopy(self)
        for entry in child.transcript:
            if entry.get("kind") == "inherited":
                entry["kind"] = "resumed"
        child.lists = {"next-turn": [], "next-step": []}
        child.fates = {}
        for call in child.calls:
            call.inherited = True
        child.moments = []
        return child
