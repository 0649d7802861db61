"""Placeholders: parts of a script that only the request of a call knows.

``{{fromRequest:PATTERN}}`` in any text of an entry stands for what the pattern finds in the request: in all texts that
are anywhere in its messages, one a line. The last match counts: its first group, or all of it where the pattern has
none (``last_match.py``). A pattern ends with the last two braces of the first run of two ``}`` or more, so that
``[0-9]{4}`` may stand at its end.
Source: docs/replaying-in-tests.md, "Placeholders".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from playhead.replay.script import ScriptError

_BEGIN = "{{fromRequest:"
_END = re.compile(r"\}{2,}")


class PlaceholderError(ScriptError):
    """A placeholder that cannot be filled in."""

    def __init__(self, message: str) -> None:
        super().__init__("placeholder", message)


def patterns(value: Any) -> Iterator[str]:
    """The patterns in all texts of a JSON value, in order. Raises ``PlaceholderError`` for one that has no end."""
    for text in texts(value):
        yield from (pattern for _, pattern, _ in _found(text))


def filled(value: Any, found: Mapping[str, str]) -> Any:
    """The JSON value with what was ``found`` for each pattern in the place of its placeholder."""
    match value:
        case str():
            parts, at = [], 0
            for start, pattern, end in _found(value):
                parts += [value[at:start], found[pattern]]
                at = end
            return "".join([*parts, value[at:]]) if parts else value
        case list():
            return [filled(member, found) for member in value]
        case dict():
            return {name: filled(member, found) for name, member in value.items()}
        case _:
            return value


def request_text(messages: Any) -> str:
    """What patterns are looked for in: every text in the messages of a request, one a line."""
    return "\n".join(texts(messages))


def texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, in the order in which it is written; the names of members are none."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as inner:
                waiting += reversed(inner)
            case dict() as inner:
                waiting += reversed(inner.values())


def _found(text: str) -> Iterator[tuple[int, str, int]]:
    """Each placeholder of ``text``: where it starts, its pattern, and where it ends."""
    at = 0
    while (start := text.find(_BEGIN, at)) >= 0:
        end = _END.search(text, start + len(_BEGIN))
        if end is None:
            raise PlaceholderError(f"a placeholder has no end: {_shown(text[start:])}")
        yield start, text[start + len(_BEGIN) : end.end() - 2], end.end()
        at = end.end()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")
