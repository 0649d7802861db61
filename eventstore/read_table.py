"""Tables that show what was folded from sessions: how they are declared, and what their columns can hold.

A column holds less than an event may say. ``fitted`` turns a row's value into one that every engine keeps, and says
whether that changed it:

======== ===================================================================================================
``int``  64 bits; a number beyond is the nearest one
``real`` a finite double; infinity is the largest one
``text`` Unicode without NUL and lone surrogates, which become U+FFFD; in a key at most 600 bytes (an index
         of PostgreSQL takes no more), what is longer is cut
``bool`` as it is
``json`` the text of the value, NUL and lone surrogates as U+FFFD; ``null`` for what is nested more than 1000
         deep (SQLite reads no more) or holds an infinite number
======== ===================================================================================================
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from playhead.eventstore import json_text

ColumnKind = Literal["int", "real", "text", "bool", "json"]
"""A ``json`` value is any JSON value; the row holds the value, the table its text."""

KEY_BYTES = 600
DEPTH = 1000

_LEAST, _MOST = -(2**63), 2**63 - 1
_LARGEST = 1.7976931348623157e308
_UNFIT = re.compile("[\0\ud800-\udfff]")
_UNFIT_ESCAPE = re.compile(rb"\\\\|\\u0000|\\ud[89a-f][0-9a-f]{2}")
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]')
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a read table. ``references`` is (table, column) of a row of the same session."""

    name: str
    kind: ColumnKind
    meaning: str
    optional: bool = False
    references: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that shows a projection in SQL. Its name begins with ``read_``.

    ``key`` names the columns that tell the rows of one session apart (``seq`` may be one of them). Times are epoch
    milliseconds and end in ``_ms``. Every table also has the columns of ``COMMON_COLUMNS``, in front.

    The rows of a table are those that ``Projection.rows`` makes of the state, or, where ``appended`` is set, those
    that ``Projection.emit`` makes of single events; such rows never change.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    appended: bool = False


COMMON_COLUMNS = (
    Column("session_id", "int", "number of the session in the store: one for each generation"),
    Column("session", "text", "id of the session"),
    Column("generation", "int", "which of several differing logs of this id, from 1"),
    Column(
        "plain", "bool", "the log that the id alone means: of the newest format, then with the latest event"
    ),
    Column("seq", "int", "place in the session of the event that made the row"),
    Column("position", "int", "place of that event in the store", optional=True),
    Column("incomplete", "bool", "events of the session could not be read, or nobody knows what they mean"),
    Column("lossy", "bool", "a value of the row did not fit its column and was changed"),
)
"""What every read table has in front of its own columns."""


class Row(msgspec.Struct, frozen=True):
    """One row: the table, the seq of the event that made it, and its values in the order of the table's columns."""

    table: str
    seq: int
    values: tuple[Any, ...]


def fitted(column: Column, value: Any, *, in_key: bool = False) -> tuple[Any, bool]:
    """The value as the column holds it, and whether it was changed. Raises ``ValueError`` for one of another kind."""
    if value is None:
        if column.kind == "json" and not column.optional:
            return "null", False
        if column.optional:
            return None, False
        raise ValueError(f"column {column.name}: a value is missing")
    match column.kind:
        case "int" if type(value) is int:
            whole = max(_LEAST, min(_MOST, value))
            return whole, whole != value
        case "real" if type(value) in (int, float):
            return _real(value)
        case "text" if isinstance(value, str):
            text, changed = fitted_text(value)
            return _cut(text, changed) if in_key else (text, changed)
        case "bool" if type(value) is bool:
            return value, False
        case "json":
            return _json(value)
    raise ValueError(f"column {column.name}: {type(value).__name__} is no {column.kind}")


def fitted_text(text: str) -> tuple[str, bool]:
    """The text as a column holds it, and whether it was changed."""
    whole = json_text.whole(text)
    kept = _UNFIT.sub(_REPLACEMENT, whole)
    return kept, kept != whole


def _real(value: float) -> tuple[float, bool]:
    try:
        real = float(value)
    except OverflowError:
        real = math.inf if value > 0 else -math.inf
    if math.isnan(real):
        raise ValueError("a number is expected, not NaN")
    return (real, False) if math.isfinite(real) else (math.copysign(_LARGEST, real), True)


def _cut(text: str, changed: bool) -> tuple[str, bool]:
    raw = text.encode()
    if len(raw) <= KEY_BYTES:
        return text, changed
    return raw[:KEY_BYTES].decode("utf-8", "ignore"), True


def _json(value: Any) -> tuple[str, bool]:
    try:
        raw = json_text.dumps(value)
    except ValueError:
        return "null", True
    if raw.count(b"[") + raw.count(b"{") > DEPTH and _depth(raw) > DEPTH:
        return "null", True
    kept = _UNFIT_ESCAPE.sub(_fit_escape, raw)
    return kept.decode(), kept != raw


def _fit_escape(found: re.Match[bytes]) -> bytes:
    return found.group() if found.group() == rb"\\" else _REPLACEMENT.encode()


def _depth(raw: bytes) -> int:
    """How deep a JSON text is nested."""
    deepest = depth = 0
    for found in _BRACKET.finditer(raw):
        match found.group():
            case b"[" | b"{":
                depth += 1
                deepest = max(deepest, depth)
            case b"]" | b"}":
                depth -= 1
    return deepest
