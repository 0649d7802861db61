"""Where the chunks of a model call come from: a provider, a recording, or a script.

``live`` drives a ``ChunkSource`` and ``adapters`` make them; neither knows of the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.failures import Failure
from playhead.eventstore.request_header import CallConfig, Tool

Purpose = Literal["turn", "compaction", "session-title"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked. ``messages`` are messages as the log holds them, in the order of the surface.

    A message of a tool result may have either shape: role ``user`` with one ``tool-result`` block (to format 3), or
    role ``tool`` with ``toolCallId`` (from format 4). The system prompt stands in ``system`` alone; None is none.
    """

    config: CallConfig
    messages: tuple[dict[str, Any], ...]
    system: str | None = None
    tools: tuple[Tool, ...] = ()
    session: str | None = None
    purpose: Purpose = "turn"


class ChunkSource(Protocol):
    """Answers requests with chunks."""

    def stream(self, request: ModelRequest, token: CancelToken) -> AsyncIterator[Chunk]:
        """The chunks of one answer, in order; the last one is a ``finish``.

        Raises ``AdapterError`` where the call failed, after all chunks that had come; ``Cancelled`` once ``token``
        is cancelled. An iterator that is closed early lets go of its connection.
        """
        ...


class AdapterError(PlayheadError):
    """A model call failed. ``failure`` says how, and goes into the log as it is; ``code`` is its code."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        self.code = failure.code
        super().__init__(failure.message)

    @property
    def status(self) -> int | None:
        """The HTTP status, where there was an answer."""
        return self.failure.status

    @property
    def retry_after_ms(self) -> float | None:
        """How long the provider asked to wait."""
        return self.failure.provider_retry_after_ms
