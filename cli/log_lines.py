"""What the layers below log, on stderr as everything else is told: one line each, never a traceback."""

from __future__ import annotations

import logging

from playhead.cli.app import explain, trace
from playhead.cli.output import note
from playhead.cli.safe_text import safe


class LogLines(logging.Handler):
    """Tells of records from ``WARNING`` on, with the reason of those that have one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        text = safe(record.getMessage().strip())
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, Exception):
            trace(error)
            text = f"{text}: {explain(error)}"
        note(text)


def tell_what_is_logged() -> None:
    """From now on what our packages log is told."""
    logging.getLogger("playhead").addHandler(LogLines())
