"""An override document as it lies in a file."""

from __future__ import annotations

from pathlib import Path

from playhead.eventstore import json_text
from playhead.replay.override import Override, OverrideError, parse_override


def read_override(path: Path) -> Override:
    """The override in a file. Raises ``OverrideError`` for what is none, and ``OSError`` where it cannot be read."""
    try:
        document = json_text.parse(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise OverrideError("", f"{path}: not JSON: {error}") from None
    try:
        return parse_override(document)
    except OverrideError as error:
        raise OverrideError("", f"{path}: {error}") from None
