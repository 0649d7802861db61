"""Chunks that begin or end a block, told from their text: most chunks that are no deltas say nothing else to a fold.

Every writer begins the data of a chunk event with ``{"turn":T,"step":S,"chunk":{"type":KIND,``. Parsing the rest would
take longer than all that a fold does with it, because the end of a block holds the whole block once more.
"""

from __future__ import annotations

import re

from playhead.eventstore.recorded import Recorded

_BLOCK = re.compile(rb'\{"turn":(\d{1,15}),"step":(\d{1,15}),"chunk":\{"type":"block-(?:start|end)",')


def place_of(event: Recorded) -> tuple[int, int] | None:
    """Turn and step of an ``assistant/chunk`` that begins or ends a block; None for others and for odd spellings."""
    found = _BLOCK.match(event.raw)
    return None if found is None else (int(found[1]), int(found[2]))
