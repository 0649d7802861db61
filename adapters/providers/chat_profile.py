"""How one speaker of chat completions differs from another. All else is the same code for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ChatProfile:
    """What varies between endpoints, and between releases of what calls them.

    Requests: ``max_tokens_field``, ``system_role`` and ``empty_content`` (the content of an assistant message that
    has none) are what the endpoint wants to read. ``reasoning_field`` is where earlier thinking is sent back, None for
    nowhere; ``reasoning_with_calls_only`` leaves it out of messages without tool calls. ``sends_effort`` says whether
    ``reasoning_effort`` is sent. ``has_thinking`` says that thinking is switched by ``thinking {type}``, and that the
    efforts are ``off``, ``low``, ``high`` and ``max``; ``default_thinking`` and ``default_effort`` hold where a request
    names no effort.

    Answers: ``is_gateway`` reads what others than DeepSeek send (see ``chat_decoder``). ``has_terminator`` says that an
    answer without ``[DONE]`` was cut off. ``has_totals`` says that the provider's own sum of tokens is recorded.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    empty_content: Literal[""] | None = ""
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    reasoning_with_calls_only: bool = False
    sends_effort: bool = True
    has_thinking: bool = False
    default_thinking: Literal["enabled", "disabled"] | None = None
    default_effort: str | None = None
    is_gateway: bool = True
    has_terminator: bool = True
    has_totals: bool = False


OPENAI = ChatProfile()
"""OpenAI, and endpoints that speak as it does."""

DEEPSEEK = ChatProfile(
    reasoning_field="reasoning_content", has_thinking=True, is_gateway=False, has_totals=True
)
"""DeepSeek, as dsh 0.1.2 to 0.1.5 speaks to it."""

DEEPSEEK_0_1_1 = ChatProfile(reasoning_field="reasoning_content", has_thinking=True, is_gateway=False)
"""As dsh 0.1.1 did: it recorded no sum of tokens."""

DEEPSEEK_0_1_0 = ChatProfile(
    reasoning_field="reasoning_content", reasoning_with_calls_only=True, has_thinking=True, is_gateway=False
)
"""As dsh 0.1.0 did: besides, thinking was sent back only in messages with tool calls."""
