"""A block of a Messages answer while it is read."""

from __future__ import annotations

from io import StringIO
from typing import Any

from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore import json_text
from playhead.eventstore.blocks import Block, ReasoningBlock, TextBlock, ToolCallBlock
from playhead.eventstore.ids import CallId


class ReadBlock:
    """A block of an answer, up to now.

    ``kind`` is its type in our vocabulary, ``input`` the arguments that a tool started with, ``entry`` its part of the
    replay state.
    """

    __slots__ = ("closed", "entry", "id", "index", "input", "kind", "name", "signature", "text")

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.text = StringIO()
        self.signature: StringIO | None = None
        self.entry: dict[str, Any] = {}
        self.id = CallId("")
        self.name = ""
        self.input = ""
        self.closed = False

    @property
    def arguments(self) -> str:
        """The arguments of a tool call: what its deltas spelled, else what it started with."""
        return json_text.whole(self.text.getvalue()) or self.input

    @property
    def has_json_object(self) -> bool:
        """Whether the arguments are the JSON of an object, as a tool takes them."""
        return is_json_object(self.arguments)

    @property
    def signed_entry(self) -> dict[str, Any]:
        """The entry with the signature, where one came."""
        signed = {} if self.signature is None else {"signature": self.signature.getvalue()}
        return self.entry | signed

    def whole(self) -> Block:
        """The complete block. Halves of a character that came in two deltas are joined."""
        if self.kind == "tool-call":
            return ToolCallBlock(id=self.id, name=self.name, arguments=self.arguments)
        text = json_text.whole(self.text.getvalue())
        return TextBlock(text=text) if self.kind == "text" else ReasoningBlock(text=text)


def is_json_object(text: str) -> bool:
    """Whether ``text`` is the JSON of an object, as the arguments of a tool must be."""
    try:
        return isinstance(parse_payload(text), dict)
    except ValueError:
        return False
