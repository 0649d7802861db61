"""The Messages format: one dialect for Anthropic and for DeepSeek's endpoint, told apart by a profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playhead.adapters.providers import messages_encoder, messages_history, messages_request
from playhead.adapters.providers.dialect import WireError, WireEvent
from playhead.adapters.providers.messages_decoder import MessagesDecoder
from playhead.adapters.providers.messages_failures import error_answer
from playhead.adapters.providers.messages_profile import ANTHROPIC, DEEPSEEK, MessagesProfile
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.failures import Failure


@dataclass(frozen=True, slots=True)
class MessagesDialect:
    """A ``ProviderDialect``. ``profile`` is what sets it apart; its kind is its name."""

    profile: MessagesProfile

    @property
    def name(self) -> str:
        """What users and stores call it."""
        return self.profile.kind

    @property
    def path(self) -> str:
        """Where requests go, behind the base URL."""
        return "/v1/messages"

    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON body that asks for ``request`` as a stream. Raises ``AdapterError`` for what it cannot say."""
        return messages_request.build_request(request, self.profile)

    def read_request(self, body: Mapping[str, Any]) -> ModelRequest:
        """What ``body`` asks for. Raises ``AdapterError`` with ``INVALID_REQUEST`` for a body that is no request."""
        return messages_history.read_request(body, self.profile, self.name)

    def decoder(self) -> MessagesDecoder:
        """For one answer."""
        return MessagesDecoder(self.profile)

    def encode(
        self, chunks: Iterable[Chunk], *, model: str = "", id: str = ""
    ) -> Iterator[tuple[int, WireEvent]]:
        """The wire events of an answer, each with the number of chunks after which it is due.

        ``model`` and ``id`` are for an answer whose recording has none. All chunks are taken before the first event.
        """
        return messages_encoder.encode(chunks, self.profile, model, id)

    def encode_whole(self, chunks: Iterable[Chunk], *, model: str = "", id: str = "") -> dict[str, Any]:
        """The same answer as one message object. Raises ``AdapterError`` for one that a failure, or nothing, ended."""
        return messages_encoder.encode_whole(chunks, self.profile, model, id)

    def error(self, failure: Failure) -> WireError:
        """The answer that tells a client of ``failure`` before any chunk."""
        return error_answer(failure)

    def error_event(self, failure: Failure) -> WireEvent:
        """The event that tells a client of ``failure`` in mid-stream."""
        return messages_encoder.error_event(failure)


ANTHROPIC_MESSAGES = MessagesDialect(ANTHROPIC)
DEEPSEEK_MESSAGES = MessagesDialect(DEEPSEEK)
