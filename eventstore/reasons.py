"""Why a model response ended, and why a turn ended. Both vocabularies are open, with a tag ``kind``.

Finish reasons: ``stop``, ``tool-calls``, ``max-tokens``, ``aborted {failure}``, ``error {failure}``. Three
distinctions matter: ``error`` and ``aborted`` go to recovery, ``max-tokens`` cuts tool calls off, and
anything else, unknown kinds too, is a success.

Turn-end reasons: ``completed``, ``max-tokens``, ``blocked``, ``aborted {reason}``, ``error {error}``,
``interrupted``. An unknown kind ends the turn, and is no success.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from playhead.eventstore.failures import Failure
from playhead.eventstore.registry import Malformed, Registry, Tagged, Unknown
from playhead.eventstore.value import Text, Value


class FinishReason(Tagged):
    """How one model response ended."""


finish_reasons: Registry[FinishReason] = Registry("finish reason", FinishReason, member="kind")

AnyFinishReason: TypeAlias = FinishReason | Unknown | Malformed


@finish_reasons.register("stop")
class FinishStop(FinishReason):
    kind: Literal["stop"] = "stop"


@finish_reasons.register("tool-calls")
class FinishToolCalls(FinishReason):
    kind: Literal["tool-calls"] = "tool-calls"


@finish_reasons.register("max-tokens")
class FinishMaxTokens(FinishReason):
    """The output ceiling was reached; tool calls may be cut short."""

    kind: Literal["max-tokens"] = "max-tokens"


@finish_reasons.register("aborted")
class FinishAborted(FinishReason):
    """Somebody stopped the stream."""

    kind: Literal["aborted"] = "aborted"
    failure: Failure


@finish_reasons.register("error")
class FinishError(FinishReason):
    """The provider or the connection failed."""

    kind: Literal["error"] = "error"
    failure: Failure


def is_failure(reason: AnyFinishReason) -> bool:
    """Whether the response failed: there is no message, and recovery decides."""
    return reason.tag in ("error", "aborted")


class TurnEndReason(Tagged):
    """How a turn ended."""


turn_end_reasons: Registry[TurnEndReason] = Registry("turn-end reason", TurnEndReason, member="kind")

AnyTurnEndReason: TypeAlias = TurnEndReason | Unknown | Malformed
TurnEndReasonField = Annotated[AnyTurnEndReason, turn_end_reasons]


class CancelCause(Value):
    """Who cancelled: ``user``, ``parent``, ``hook`` (with a ``reason``), ``disposed``, or ``legacy``.

    ``legacy`` stands in old logs that did not record the cause.
    """

    kind: Text
    reason: Text | None = None


@turn_end_reasons.register("completed")
class TurnCompleted(TurnEndReason):
    """The turn came to its natural end, or had no input."""

    kind: Literal["completed"] = "completed"


@turn_end_reasons.register("max-tokens")
class TurnMaxTokens(TurnEndReason):
    """At least one step of the turn hit the output ceiling."""

    kind: Literal["max-tokens"] = "max-tokens"


@turn_end_reasons.register("blocked")
class TurnBlocked(TurnEndReason):
    """A step was refused before it began."""

    kind: Literal["blocked"] = "blocked"


@turn_end_reasons.register("aborted")
class TurnAborted(TurnEndReason):
    """The turn was cancelled; ``reason`` says by whom."""

    kind: Literal["aborted"] = "aborted"
    reason: CancelCause


@turn_end_reasons.register("error")
class TurnFailed(TurnEndReason):
    """The turn failed."""

    kind: Literal["error"] = "error"
    error: Failure


@turn_end_reasons.register("interrupted")
class TurnInterrupted(TurnEndReason):
    """The process died in the turn; only crash repair writes this."""

    kind: Literal["interrupted"] = "interrupted"
