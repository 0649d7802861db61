"""Slash commands of a person. Written around the command's handler."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.sources import SourceField
from playhead.eventstore.value import SeqField, Text


@event_type("command/run")
class CommandRun(Event):
    """The handler starts. ``args`` is the rest of the line, verbatim; some commands do not record it."""

    command_id: Text
    name: Text
    source: SourceField
    args: Text | None = None


@event_type("command/done")
class CommandDone(Event):
    """``kind`` is ``success`` or ``error``; ``source_event_seq`` is the event in which the success shows."""

    command_id: Text
    kind: Text
    text: Text | None = None
    source_event_seq: SeqField | None = None
