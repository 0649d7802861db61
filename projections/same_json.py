"""A digest of a JSON value that is equal for equal values: key order and the spelling of numbers do not count.

Any value that JSON can give is digested, however deeply it is nested: the walk keeps its own stack.
"""

from __future__ import annotations

import hashlib
from typing import Any


class _Key(str):
    """A key of an object, between the values on the stack."""


def digest(value: Any) -> str:
    """128 bits of SHA-256 over the tokens of ``value``, in hex."""
    seen = hashlib.sha256()
    todo = [value]
    while todo:
        item = todo.pop()
        match item:
            case dict():
                token = f"object {len(item)}"
                for key in sorted(item, reverse=True):
                    todo += (item[key], _Key(key))
            case list() | tuple():
                token = f"array {len(item)}"
                todo += reversed(item)
            case _Key():
                token = f"key {len(item)} {item}"
            case str():
                token = f"text {len(item)} {item}"
            case bool() | None:
                token = str(item)
            case float() if item.is_integer():
                token = f"number {int(item)}"
            case _:
                token = f"number {item}"
        seen.update(token.encode("utf-8", "surrogatepass"))
        seen.update(b"\n")
    return seen.hexdigest()[:32]
