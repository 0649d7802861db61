"""Members of JSON values of any shape: total reads, for code that must not fail on a damaged log."""

from __future__ import annotations

import math
from typing import Any

from playhead.eventstore.recorded import Recorded

NOTHING: dict[str, Any] = {}
"""Stands for an object that is not there. It is shared: do not change it."""


def of(fact: Recorded) -> dict[str, Any]:
    """The data of ``fact`` where it is an object, else an empty one."""
    try:
        data = fact.json
    except (ValueError, RecursionError):
        return NOTHING
    return data if isinstance(data, dict) else NOTHING


def inner(members: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under ``key``, an empty one where there is none."""
    value = members.get(key)
    return value if isinstance(value, dict) else NOTHING


def objects(members: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of the list under ``key``; elements that are none are left out."""
    value = members.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(members: dict[str, Any], key: str) -> str | None:
    """The text under ``key``; None where there is none. Empty text is text."""
    value = members.get(key)
    return value if isinstance(value, str) else None


def number(members: dict[str, Any], key: str) -> float | None:
    """The number under ``key``, an ``int`` where it is one; None for none, a boolean or an infinity."""
    value = members.get(key)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    return None
