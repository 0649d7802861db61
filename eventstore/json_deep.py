"""Reading JSON nested more deeply than the interpreter's stack allows.

``json.JSONDecoder`` calls itself for every level and gives up at about a thousand. Here the open containers
are a list; the decoder reads only what lies between them, so its hooks and its grammar stay in force.
"""

from __future__ import annotations

import json
import re
from typing import Any

_blanks = re.compile(r"[ \t\n\r]*")


class _Open:
    """A container whose end has not come. ``key`` is None in an array."""

    __slots__ = ("elements", "key", "pairs")

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.elements: list[Any] = []
        self.pairs: list[tuple[str, Any]] = []

    def add(self, value: Any) -> None:
        if self.key is None:
            self.elements.append(value)
        else:
            self.pairs.append((self.key, value))


def decode(text: str, decoder: json.JSONDecoder) -> Any:
    """The value of the JSON text, as ``decoder.decode`` gives it. Raises ``json.JSONDecodeError``."""
    containers: list[_Open] = []
    at = _skip(text, 0)
    while True:
        value: Any
        if text.startswith("{", at):
            at = _skip(text, at + 1)
            if not text.startswith("}", at):
                key, at = _key(text, at, decoder)
                containers.append(_Open(key))
                continue
            value, at = _object([], decoder), at + 1
        elif text.startswith("[", at):
            at = _skip(text, at + 1)
            if not text.startswith("]", at):
                containers.append(_Open(None))
                continue
            value, at = [], at + 1
        else:
            value, at = decoder.raw_decode(text, at)

        while containers:
            container = containers[-1]
            container.add(value)
            at = _skip(text, at)
            if text.startswith(",", at):
                at = _skip(text, at + 1)
                if container.key is not None:
                    container.key, at = _key(text, at, decoder)
                break
            if not text.startswith("]" if container.key is None else "}", at):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at += 1
            value = container.elements if container.key is None else _object(container.pairs, decoder)
            containers.pop()
        else:
            if _skip(text, at) != len(text):
                raise json.JSONDecodeError("Extra data", text, at)
            return value


def _skip(text: str, at: int) -> int:
    found = _blanks.match(text, at)
    return at if found is None else found.end()


def _key(text: str, at: int, decoder: json.JSONDecoder) -> tuple[str, int]:
    """The key at ``at``, and where its value begins."""
    if not text.startswith('"', at):
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    key, at = decoder.raw_decode(text, at)
    at = _skip(text, at)
    if not text.startswith(":", at):
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, _skip(text, at + 1)


def _object(pairs: list[tuple[str, Any]], decoder: json.JSONDecoder) -> Any:
    return dict(pairs) if decoder.object_pairs_hook is None else decoder.object_pairs_hook(pairs)
