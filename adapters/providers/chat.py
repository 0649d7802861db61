"""Chat completions: one dialect for DeepSeek, OpenAI and what speaks like them, told apart by a profile."""

from __future__ import annotations

from dataclasses import dataclass

from playhead.adapters.providers.chat_decoder import ChatDecoder
from playhead.adapters.providers.chat_profile import DEEPSEEK, OPENAI, ChatProfile


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """A ``ProviderDialect``. ``name`` is what users and stores call it; ``profile`` is what sets it apart."""

    name: str
    profile: ChatProfile

    @property
    def path(self) -> str:
        """Where requests go, behind the base URL."""
        return "/chat/completions"

    def decoder(self) -> ChatDecoder:
        """For one answer."""
        return ChatDecoder(self.profile)


DEEPSEEK_CHAT = ChatDialect("deepseek-chat", DEEPSEEK)
OPENAI_CHAT = ChatDialect("openai-chat", OPENAI)
