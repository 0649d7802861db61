"""Points in time as people write them: ``2026-05-04``, ``2026-05-04T13:02``, ``2026-05-04 13:02:11.5+02:00``, or
epoch milliseconds. What has no offset is local time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from playhead.eventstore.errors import UsageError

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH_MS = re.compile(r"-?\d{9,16}")


def first_ms(text: str) -> int:
    """The first millisecond of what ``text`` names, as epoch milliseconds. Raises ``UsageError``."""
    return _parsed(text)


def last_ms(text: str) -> int:
    """The last millisecond of what ``text`` names: of the day, where it names no more. Raises ``UsageError``."""
    return _parsed(text, timedelta(days=1)) - 1 if _DAY.fullmatch(text.strip()) else _parsed(text)


def _parsed(text: str, later: timedelta = timedelta()) -> int:
    text = text.strip()
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        return round((datetime.fromisoformat(text) + later).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time; write 2026-05-04, 2026-05-04T13:02, or epoch milliseconds"
        ) from None
