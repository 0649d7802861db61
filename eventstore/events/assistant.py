"""What the model answers: its stream, and the message that came of it.

Written by the loop. Up to log format 1, and in Playhead's own sessions, every chunk is an event as it
arrives, and the message follows a success. From format 2 on the stream lies inside ``assistant/message``, or
inside ``assistant/attempt`` when no message came of it, and is written when the attempt is over.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from playhead.eventstore.chunks import Chunk, decode_chunk
from playhead.eventstore.messages import Message
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.usage import Usage
from playhead.eventstore.value import Flag, JsonList, Whole


class _DecodedChunk:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(decode_chunk)


CHUNK = _DecodedChunk()


@event_type("assistant/chunk")
class ChunkReceived(Event):
    """One chunk, before the assembler sees it; usage and finish chunks too."""

    turn: Whole
    step: Whole
    chunk: Annotated[Chunk, CHUNK]


@event_type("assistant/message")
class AssistantMessaged(Event):
    """The assembled answer, on the surface. Its content may be empty.

    ``usage`` repeats the last usage chunk. ``interrupted`` marks the part that was kept of a cancelled
    stream: text and reasoning only. ``stream`` is the embedded stream of format 2 and later, undecoded JSON.
    """

    surface: ClassVar[bool] = True

    turn: Whole
    step: Whole
    message: Message
    usage: Usage | None = None
    interrupted: Flag | None = None
    stream: JsonList | None = None


@event_type("assistant/attempt")
class AttemptFailed(Event):
    """A model call that gave no message, from log format 2 on; ``stream`` is what arrived, undecoded JSON."""

    turn: Whole
    step: Whole
    stream: JsonList
