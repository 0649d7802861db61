"""What the driver asks of tools: a description for the model, and an outcome for a call.

``tools.py`` makes tools of Python functions; anything else with this interface will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from playhead.eventstore.blocks import AnyBlock, TextBlock
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.events.tool import ToolError
from playhead.eventstore.messages import Message
from playhead.eventstore.request_header import Tool


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call gave. ``content`` goes to the model; ``error`` says why it is no proper result.

    ``meta`` is any JSON, for the log alone. ``context`` are messages that join the next step. ``concludes`` ends the
    turn without asking the model again.
    """

    content: tuple[AnyBlock, ...]
    is_error: bool = False
    error: ToolError | None = None
    meta: Any = None
    context: tuple[Message, ...] = ()
    concludes: bool = False

    def __post_init__(self) -> None:
        if any(isinstance(block, str) for block in self.content):
            raise TypeError("the content of an outcome is blocks; TextBlock(text=...) makes one of text")

    @classmethod
    def failed(cls, text: str, name: str, code: str) -> ToolOutcome:
        """A failure of class ``name`` and ``code`` that the model reads as ``text``."""
        return cls((TextBlock(text=text),), is_error=True, error=ToolError(name=name, code=code))


class ToolBox(Protocol):
    """The tools of an agent."""

    @property
    def tools(self) -> Sequence[Tool]:
        """What the model is offered, in order."""
        ...

    def is_exclusive(self, name: str) -> bool:
        """Whether a call of this tool runs alone: after all before it, and before all behind it."""
        ...

    async def call(self, name: str, arguments: str, call_id: str, token: CancelToken) -> ToolOutcome:
        """The outcome of a call with the model's own JSON text. It never raises but for what ``token`` cancels
        (``Cancelled``): an unknown tool, wrong arguments and a tool that fails are outcomes."""
        ...


class NoTools:
    """An empty tool box."""

    tools: Sequence[Tool] = ()

    def is_exclusive(self, name: str) -> bool:  # noqa: ARG002 - the protocol's
        return False

    async def call(self, name: str, arguments: str, call_id: str, token: CancelToken) -> ToolOutcome:  # noqa: ARG002
        """Says that there is no such tool."""
        return unknown_tool(name)


def unknown_tool(name: str) -> ToolOutcome:
    """The outcome of a call of a tool that nobody has."""
    return ToolOutcome.failed(f'Error: unknown tool "{name}"', "ToolNotFoundError", "UNKNOWN_TOOL")


def broken(error: BaseException) -> ToolOutcome:
    """The outcome of a call that failed with ``error``."""
    kind = type(error).__name__
    return ToolOutcome.failed(f"Error: {str(error) or kind}", kind, "TOOL_FAILED")


def aborted() -> ToolOutcome:
    """The outcome of a call that was stopped while it ran."""
    return ToolOutcome.failed("Error: tool call aborted", "AbortError", "ABORTED")


def not_dispatched() -> ToolOutcome:
    """The outcome of a call that was cancelled before it began."""
    text = "Error: tool call aborted before it was started"
    return ToolOutcome.failed(text, "AbortError", "ABORTED_BEFORE_DISPATCH")
