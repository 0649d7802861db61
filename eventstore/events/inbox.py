"""The two lists of pending input, as splices.

Written by the inbox before the list itself changes. The lists are what the splices since the session's own
beginning add up to; an inherited splice does not count.
"""

from __future__ import annotations

from typing import Literal

from playhead.eventstore.messages import Message
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Whole


@event_type("agent/inbox/spliced")
class InboxSpliced(Event):
    """``removed_count`` messages from ``start`` on (absent: none) gave way to ``inserted``.

    A claim is a pure removal without ``outcome``; ``canceled`` says that messages were removed otherwise.
    """

    target: Literal["next-turn", "next-step"]
    start: Whole
    inserted: tuple[Message, ...]
    removed_count: Whole | None = None
    outcome: Literal["canceled"] | None = None
