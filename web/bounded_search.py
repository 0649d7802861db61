"""Patterns searched in a process of their own, so that one that takes for ever holds nobody up."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

from playhead.replay import last_match
from playhead.replay.placeholders import PlaceholderError


async def search(patterns: Sequence[str], text: str, limit_s: float) -> dict[str, str]:
    """What each pattern finds last in ``text``. Raises ``PlaceholderError`` for nothing, and beyond ``limit_s``."""
    return await asyncio.to_thread(_search, patterns, text, limit_s)


def _search(patterns: Sequence[str], text: str, limit_s: float) -> dict[str, str]:
    asked = json.dumps({"patterns": list(patterns), "text": text})
    try:
        ran = subprocess.run(
            [sys.executable, "-I", last_match.__file__],
            input=asked,
            capture_output=True,
            encoding="ascii",
            timeout=limit_s,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise PlaceholderError(
            f"the patterns {', '.join(map(repr, patterns))} took longer than {limit_s:g} s"
        ) from None
    except subprocess.CalledProcessError as error:
        raise PlaceholderError(f"the search for patterns failed: {error.stderr.strip()[-200:]}") from None
    answer = json.loads(ran.stdout)
    if "error" in answer:
        raise PlaceholderError(answer["error"])
    found: dict[str, str] = answer["found"]
    return found
