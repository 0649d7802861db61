"""What stands at the end of a recorded answer, and a Messages client is told at the start: usage, model, ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playhead.adapters.providers.messages_decoder import COUNTS
from playhead.adapters.providers.messages_profile import MessagesProfile
from playhead.eventstore import members
from playhead.eventstore.blocks import ToolCallBlock
from playhead.eventstore.chunks import BlockEnd, Chunk, FinishChunk, ToolCallDelta, UsageChunk
from playhead.eventstore.reasons import AnyFinishReason
from playhead.eventstore.usage import Usage

NAMELESS = "msg_0"
"""The id of a message to which nobody gave one."""

_STOP_REASONS: Mapping[str, str] = {
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "max-tokens": "max_tokens",
}
"""Our finish reason -> the usual stop reason. Another kind is a success like ``stop``."""


class RecordedAnswer:
    """What stands at the end of a recording, and is needed from the start."""

    def __init__(self, chunks: Sequence[Chunk], profile: MessagesProfile, model: str, id: str) -> None:
        finish: FinishChunk | None = None
        self._usage: Usage | None = None
        indexes = set()
        self.calls: dict[int, tuple[str, str]] = {}
        """Id and name of each tool call by its index, as far as the recording has them."""
        for chunk in chunks:
            if not isinstance(chunk, UsageChunk | FinishChunk):
                indexes.add(chunk.index)
            match chunk:
                case UsageChunk(usage=usage):
                    self._usage = usage
                case FinishChunk():
                    finish = finish or chunk
                case ToolCallDelta(index=index, id=call, name=name):
                    known = self.calls.get(index, ("", ""))
                    self.calls[index] = (call or known[0], name or known[1])
                case BlockEnd(index=index, block=ToolCallBlock(id=call, name=name)):
                    self.calls[index] = (call, name)
                case _:
                    pass
        state = finish.replay_state if finish is not None and isinstance(finish.replay_state, dict) else {}
        response = members.inner(state, "response")
        is_ours = (response.get("kind"), response.get("version")) == (profile.kind, 1)
        self.reason: AnyFinishReason | None = None if finish is None else finish.reason
        entries = members.objects(state, "blocks") if is_ours else []
        self.entries = entries if len(entries) == len(indexes) else []
        """The replay state of each block; none at all where they do not fit the blocks."""
        self._response = response if is_ours else {}
        self._model = members.text(self._response, "model") or model
        self._id = members.text(self._response, "id") or id or NAMELESS

    @property
    def has_usage(self) -> bool:
        return self._usage is not None

    @property
    def stop_reason(self) -> str:
        """The stop reason of a success: the one that was recorded, else the usual one for its kind."""
        usual = _STOP_REASONS.get(self.reason.tag if self.reason else "", "end_turn")
        return members.text(self._response, "stopReason") or usual

    @property
    def counts(self) -> dict[str, int]:
        """The usage as the wire has it."""
        if self._usage is None:
            return {"input_tokens": 0, "output_tokens": 0}
        figures = {wire: getattr(self._usage, ours) for wire, ours in COUNTS.items()}
        return {wire: figure for wire, figure in figures.items() if figure is not None}

    def message(
        self, content: list[dict[str, Any]], stop_reason: str | None, counts: Mapping[str, int]
    ) -> dict[str, Any]:
        """The message object."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": dict(counts),
        }
