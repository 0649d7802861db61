"""How the speakers of the Messages format differ. All else is the same code for both.

Two are known: Anthropic itself, and DeepSeek's endpoint as dsh 0.2.1 speaks to it. ``ANTHROPIC`` reads whatever a
stream may come to hold: what it does not know it passes over. ``DEEPSEEK`` does as the runtime does: what it does not
know fails the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishMaxTokens, FinishReason, FinishStop, FinishToolCalls


@dataclass(frozen=True, slots=True)
class MessagesProfile:
    """What varies. ``kind`` names the replay state of an answer, ``label`` begins the messages of failures.

    Answers: ``stop_reasons`` are those that are no failure. ``strict`` refuses what is not in the protocol: an event
    named otherwise than its data, one before ``message_start``, a block or a delta of an unknown kind, a count that is
    none, another stop reason, or none at all, and arguments of a tool that are no JSON object. ``keeps_empty`` gives a
    delta for empty text too. ``repeats_name`` says the name of a tool with every fragment of its arguments.
    ``has_totals`` adds the sum of all tokens to the usage. ``types_entries`` says what block an entry of the replay
    state is for.

    Requests: ``efforts`` is the thinking that is asked for per effort, None for the effort of a request that names
    none. ``max_tokens`` holds where a request has none. ``sends_unsigned`` sends thinking back that has no signature.
    """

    kind: str
    label: str
    stop_reasons: Mapping[str, FinishReason] = field(hash=False)
    strict: bool
    keeps_empty: bool
    repeats_name: bool
    has_totals: bool
    types_entries: bool
    efforts: Mapping[str | None, Mapping[str, Any]] = field(hash=False)
    max_tokens: int
    sends_unsigned: bool

    def malformed(self, detail: str) -> AdapterError:
        """The failure of an answer that is not in the format."""
        return AdapterError(Failure(message=f"{self.label} {detail}", code="MALFORMED_RESPONSE"))


def _thinking(kind: str, effort: str) -> Mapping[str, Any]:
    return {"thinking": {"type": kind}, "output_config": {"effort": effort}}


_DISABLED: Mapping[str, Any] = {"thinking": {"type": "disabled"}}

_COMMON_STOPS: Mapping[str, FinishReason] = {
    "end_turn": FinishStop(),
    "stop_sequence": FinishStop(),
    "tool_use": FinishToolCalls(),
    "max_tokens": FinishMaxTokens(),
}

ANTHROPIC = MessagesProfile(
    kind="anthropic-messages",
    label="Anthropic Messages",
    stop_reasons={
        **_COMMON_STOPS,
        "pause_turn": FinishStop(),
        "model_context_window_exceeded": FinishMaxTokens(),
    },
    strict=False,
    keeps_empty=False,
    repeats_name=True,
    has_totals=False,
    types_entries=False,
    efforts={
        None: {},
        "off": _DISABLED,
        **{effort: _thinking("adaptive", effort) for effort in ("low", "medium", "high", "xhigh", "max")},
    },
    max_tokens=8192,
    sends_unsigned=False,
)
"""Anthropic, and endpoints that speak as it does."""

DEEPSEEK = MessagesProfile(
    kind="deepseek-messages",
    label="DeepSeek Messages",
    stop_reasons=_COMMON_STOPS,
    strict=True,
    keeps_empty=True,
    repeats_name=False,
    has_totals=True,
    types_entries=True,
    efforts={
        None: _thinking("enabled", "high"),
        "off": _DISABLED,
        **{effort: _thinking("enabled", effort) for effort in ("low", "high", "max")},
    },
    max_tokens=256_000,
    sends_unsigned=True,
)
"""DeepSeek's Messages endpoint, as dsh 0.2.1 speaks to it."""
