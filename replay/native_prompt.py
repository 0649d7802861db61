"""The system prompt of a log that has it on the surface, for the request headers of one that has it there.

From format 3 on a prompt is a ``system/message``; before, and in native sessions, it is ``header.system`` of each
``request/header``.
"""

from __future__ import annotations

from typing import Any

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded
from playhead.projections import message_text
from playhead.projections.surface import Surface

TYPE = "system/message"

Json = dict[str, Any]


class NativePrompt:
    """The prompt that is on the surface, and the last header with the prompt that it told.

    ``changed_ms`` is the time of the event that brought the prompt, or took it away.
    """

    def __init__(self) -> None:
        self.changed_ms = 0
        self._text = ""
        self._texts: dict[int, str] = {}
        self._told: Json | None = None
        self._told_text = ""

    def see(self, event: Recorded, surface: Surface, shadowed: tuple[int, ...]) -> None:
        """Take an event that is folded into ``surface`` already, and took the place of ``shadowed``."""
        if event.type == TYPE:
            self._texts[event.seq] = message_text.text_of(members.inner(members.of(event), "message"))[0]
        elif self._texts.keys().isdisjoint(shadowed):
            return
        self.changed_ms, self._text = event.time_ms, ""
        for entry in surface.entries():
            self._text = self._texts.get(entry.seq, self._text)

    @property
    def untold(self) -> bool:
        """Whether the next call is sent another prompt than the last header told."""
        return self._told is not None and self._told_text != self._text

    def into(self, data: Json) -> Json:
        """The data of a ``request/header`` with the prompt in it; as it is in a log without such prompts."""
        header = data.get("header")
        if not self._texts or not isinstance(header, dict):
            return data
        rest = {key: value for key, value in header.items() if key != "system"}
        if self._text:  # before the tools, where dsh writes it
            tools = {key: rest.pop(key) for key in ("tools",) if key in rest}
            rest |= {"system": self._text} | tools
        self._told, self._told_text = data | {"header": rest}, self._text
        return self._told

    def header(self) -> Json:
        """The data of a ``request/header`` that says what the last one said, with the prompt as it is now."""
        return self.into((self._told or {"header": {}}) | {"reason": "change"})
