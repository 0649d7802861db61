"""That a session was recorded from the outside, by a proxy between a client and its provider."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Text


@event_type("recording/started")
class RecordingStarted(Event):
    """What follows is what the proxy saw. Written by it, once, before the first turn that it records.

    ``dialect`` is the wire format, ``upstream`` the base URL of the provider, ``group`` the session that the client
    named in a header, ``client`` its user agent. Marked ignorable: it changes the meaning of no other event.
    """

    dialect: Text
    upstream: Text
    group: Text | None = None
    client: Text | None = None
