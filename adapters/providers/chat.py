"""Chat completions: one dialect for DeepSeek, OpenAI and whoever speaks like them, told apart by a profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playhead.adapters.providers import chat_encoder, chat_failures, chat_request
from playhead.adapters.providers.chat_decoder import ChatDecoder
from playhead.adapters.providers.chat_profile import (
    DEEPSEEK,
    DEEPSEEK_0_1_0,
    DEEPSEEK_0_1_1,
    OPENAI,
    ChatProfile,
)
from playhead.adapters.providers.dialect import WireError, WireEvent
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.failures import Failure


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """A ``ProviderDialect``, which says what each method promises. ``profile`` is what sets it apart."""

    name: str
    profile: ChatProfile

    @property
    def path(self) -> str:
        return "/chat/completions"

    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        return chat_request.build_request(request, self.profile)

    def read_request(self, body: Mapping[str, Any]) -> ModelRequest:
        return chat_request.read_request(body, self.name)

    def decoder(self) -> ChatDecoder:
        return ChatDecoder(self.profile)

    def encode(
        self, chunks: Iterable[Chunk], *, model: str = "", id: str = ""
    ) -> Iterator[tuple[int, WireEvent]]:
        return chat_encoder.encode(chunks, self.profile, model=model, id=id)

    def encode_whole(self, chunks: Iterable[Chunk], *, model: str = "", id: str = "") -> dict[str, Any]:
        return chat_encoder.encode_whole(chunks, self.profile, model=model, id=id)

    def error(self, failure: Failure) -> WireError:
        return chat_failures.error_answer(failure)

    def error_event(self, failure: Failure) -> WireEvent:
        return chat_encoder.error_event(failure)


DEEPSEEK_CHAT = ChatDialect("deepseek-chat", DEEPSEEK)
DEEPSEEK_CHAT_0_1_1 = ChatDialect("deepseek-chat-0.1.1", DEEPSEEK_0_1_1)
DEEPSEEK_CHAT_0_1_0 = ChatDialect("deepseek-chat-0.1.0", DEEPSEEK_0_1_0)
OPENAI_CHAT = ChatDialect("openai-chat", OPENAI)
