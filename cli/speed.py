"""The factor of ``--speed``."""

from __future__ import annotations

import math
import re

from playhead.eventstore.errors import UsageError


def speed_of(word: str) -> float:
    """The factor that ``word`` names: ``4x``, ``0.5``, or ``max``, which waits for nothing."""
    if word == "max":
        return math.inf
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)x?", word, re.ASCII)
    factor = float(found[1]) if found else 0.0
    if not 0 < factor < math.inf:
        raise UsageError(f"--speed {word}: give a factor such as 4x or 0.5, or max")
    return factor
