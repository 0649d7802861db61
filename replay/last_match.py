"""What a pattern finds last in a text; also a program that does this for somebody who cannot wait for ever.

A regular expression can take for ever, and nothing stops it but the end of its process. So this module needs nothing
but the standard library: run as a program it is there at once. It reads ``{"patterns": [...], "text": "..."}`` and
writes ``{"found": {PATTERN: TEXT}}``, or ``{"error": "..."}``.

Patterns are regular expressions of Python; ``(?<name>...)`` is understood too.
"""

from __future__ import annotations

import json
import re
import sys
from collections import deque

_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")


class NoMatch(ValueError):
    """The pattern finds nothing, or is none."""


def last_match(pattern: str, text: str) -> str:
    """What the last match gives: its first group where the pattern has one that took part, else all of it.

    Raises ``NoMatch``.
    """
    shown = repr(pattern if len(pattern) <= 80 else f"{pattern[:79]}…")
    try:
        compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise NoMatch(f"the pattern {shown} is wrong: {error}") from None
    last = next(iter(deque(compiled.finditer(text), maxlen=1)), None)
    if last is None:
        raise NoMatch(f"nothing in the request fits the pattern {shown}")
    group = last[1] if compiled.groups else None
    return last[0] if group is None else group


def main() -> None:
    """Search as stdin says, and tell on stdout."""
    asked = json.load(sys.stdin)
    answer: dict[str, object]
    try:
        answer = {"found": {pattern: last_match(pattern, asked["text"]) for pattern in asked["patterns"]}}
    except NoMatch as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
