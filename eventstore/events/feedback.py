"""What a person thinks of the work. Written when they say so."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Text


@event_type("feedback/record")
class FeedbackRecorded(Event):
    """A remark on the session."""

    text: Text


@event_type("feedback/message-put")
class MessageFeedbackPut(Event):
    """A vote on a message. No example is known: every member is kept as it is found."""


@event_type("feedback/message-delete")
class MessageFeedbackDeleted(Event):
    """A vote was taken back. No example is known: every member is kept as it is found."""
