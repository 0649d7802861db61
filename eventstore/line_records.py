"""The records in the text of one line that is no sound event and no sound row.

It may be either with a flaw, or a record that a crash tore, with others behind it on the same line: then every whole
record whose seq goes on from the one before is found. Nothing is refused; what is wrong with the line is a ``Defect``.
Source: docs/formats.md, "Lines".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from playhead.eventstore import chunk_rows, json_text
from playhead.eventstore.ids import SAFE_INTEGER, is_safe_integer

EVENT_MEMBERS = frozenset({"type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp"})
"""The members that an event may have."""

_MAX_FAILURES = 64
"""A torn record fails once for itself and once for each object in it that is still open; a line made to be slow fails
without end."""

_RECORD_START = re.compile(rf'\{{[ \t]*"(?:{"|".join(sorted(EVENT_MEMBERS))}|seq0|time0)"')
_NUMBER = re.compile(r"[-+.0-9eE]+")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)

_Decode = Callable[[str, int], tuple[Any, int]]

_decode_shallow: _Decode = json_text.exact_decoder.raw_decode
"""For the search within a line, which tries many places: it gives up early on what is nested too deeply."""


class Defect(NamedTuple):
    """Why a line is not simply one event: ``kind`` as in ``findings.py``, and what was found."""

    kind: str
    message: str


class Place(NamedTuple):
    """Which facts a record stands for: ``n`` from ``seq0`` on, of one ``type``, at times between ``t0`` and ``t1``."""

    seq0: int
    n: int
    t0: int
    t1: int
    type: str


class LineRecord(NamedTuple):
    """A whole record: its members, and where the text of each value lies."""

    members: dict[str, Any]
    spans: dict[str, tuple[int, int]]

    @property
    def place(self) -> Place:
        """Of a usable record, as all are that ``records`` gives."""
        if self.members["type"] in chunk_rows.TAGS:
            times = chunk_rows.times(self.members)
            return Place(int(self.members["seq0"]), len(times), min(times), max(times), chunk_rows.EVENT_TYPE)
        time = time_of(self.members["time"])
        return Place(int(self.members["seq"]), 1, time, time, self.members["type"])


def time_of(value: Any) -> int:
    """Epoch ms of an event; a fraction or an absurd value is cut to what the log can order by."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(max(-SAFE_INTEGER, min(SAFE_INTEGER, value)))


def records(line: bytes) -> tuple[list[LineRecord], Defect | None]:
    """The whole records in ``line``, numbered without a gap, and what is wrong with the line."""
    if not line.strip(b" \t\r"):
        return [], Defect("blank-line", "an empty line")
    text = line.decode("utf-8", "surrogateescape")
    bad_utf8 = None
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad_utf8 = Defect("invalid-utf8", f"invalid UTF-8 {error.start} bytes into the line; read as U+FFFD")
    part, end, problem = _record_at(text, 0)
    if part is not None and not text[end:].strip(" \t\r"):
        return [part], problem or bad_utf8
    if part is None and problem is not None and end == len(text):
        return [], problem
    found = list(_records_within(text))
    kept = found[:1]
    for one, other in pairwise(found):
        if other.place.seq0 != one.place.seq0 + one.place.n:
            break
        kept.append(other)
    if kept:
        return kept, Defect("two-records-on-one-line", _glued(found, len(kept)))
    return [], Defect("bad-json", "the line is not JSON")


def _glued(found: list[LineRecord], kept: int) -> str:
    seqs = ", ".join(str(record.place.seq0) for record in found[:kept])
    lost = f"; {len(found) - kept} more do not continue the numbering" if len(found) > kept else ""
    return f"a broken record with whole ones behind it on the same line; kept: seq {seqs}{lost}"


def _records_within(text: str) -> Iterator[LineRecord]:
    """Whole usable records inside ``text``, left to right, the rubbish between them passed over."""
    start = _RECORD_START.search(text)
    failures = 0
    while start is not None and failures < _MAX_FAILURES:
        part, end, _ = _record_at(text, start.start(), _decode_shallow)
        if part is not None:
            yield part
        broken = end <= start.start()
        failures += broken
        start = _RECORD_START.search(text, start.end() if broken else end)


def _decode_value(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at ``at``, and its end. Raises ``ValueError`` for what is not JSON."""
    try:
        return json_text.exact_decoder.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        # Nested too deeply, or a number of too many digits, for a decoder that stops inside the text.
        end = _value_end(text, at)
        return json_text.parse(text[at:end]), end


def _value_end(text: str, at: int) -> int:
    """Where the container or the number that begins at ``at`` ends."""
    number = _NUMBER.match(text, at)
    if number is not None:
        return number.end()
    depth = 0
    for token in _TOKEN.finditer(text, at):
        mark = token.group()
        depth += (mark in ("[", "{")) - (mark in ("]", "}"))
        if depth == 0:
            return token.end()
    raise ValueError("the value has no end")


def _record_at(
    text: str, at: int, decode: _Decode = _decode_value
) -> tuple[LineRecord | None, int, Defect | None]:
    """The usable record that begins at ``at``; the end of what was read; what is wrong.

    Without a record the end is ``len(text)`` when the text is one JSON value that is no record, and the
    place of the syntax error otherwise.
    """
    try:
        members, spans, end = _members(text, at, decode)
    except (ValueError, RecursionError):
        return None, at, Defect("bad-json", "the line is not JSON")
    if members is None:
        rest = len(text) if not text[end:].strip(" \t\r") else end
        return None, rest, Defect("bad-envelope", "the line is JSON, but not an object")
    defect = _unusable(members)
    if defect is not None:
        rest = len(text) if not text[end:].strip(" \t\r") else end
        return None, rest, defect
    if members["type"] in chunk_rows.TAGS:
        return LineRecord(members, spans), end, None
    return LineRecord(members, spans), end, _odd_envelope(members)


def _unusable(members: dict[str, Any]) -> Defect | None:
    """Why the members give no fact, or None when they do."""
    tag = members.get("type")
    if not isinstance(tag, str):
        return Defect("bad-envelope", "the event has no type")
    if tag in chunk_rows.TAGS:
        try:
            chunk_rows.validate(members)
        except chunk_rows.MalformedRow as error:
            return Defect("bad-row", f"a malformed {tag} row: {error}")
        return None
    seq = members.get("seq")
    if not is_safe_integer(seq) or seq < 0:
        return Defect("bad-envelope", f"event {tag!r} has no usable seq")
    if "time" not in members or "data" not in members:
        return Defect("bad-envelope", f"event {tag!r} has no {'time' if 'time' not in members else 'data'}")
    return None


def _odd_envelope(members: dict[str, Any]) -> Defect | None:
    """What is wrong with an event that can still be placed."""
    if not is_safe_integer(members["time"]):
        return Defect("bad-envelope", f"event {members['type']!r}: time is not an integer")
    extra = sorted(set(members) - EVENT_MEMBERS)
    if extra:
        return Defect("bad-envelope", f"event {members['type']!r}: unexpected member {extra[0]!r}")
    if "ignorable" in members and members["ignorable"] is not True:
        return Defect("bad-envelope", f"event {members['type']!r}: ignorable is not true")
    return None


def _members(
    text: str, at: int, decode: _Decode
) -> tuple[dict[str, Any] | None, dict[str, tuple[int, int]], int]:
    """The members of the JSON object at ``at``, where each value lies, and the end of the object.

    A value that is no object gives None. Raises ``ValueError`` for what is not JSON, and what ``decode`` does.
    """
    at = _skip_blanks(text, at)
    if text[at : at + 1] != "{":
        _, end = decode(text, at)
        return None, {}, end
    members: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    at = _skip_blanks(text, at + 1)
    if text[at : at + 1] == "}":
        return members, spans, at + 1
    while True:
        key, at = decode(text, at)
        at = _skip_blanks(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError("not a member")
        start = _skip_blanks(text, at + 1)
        value, at = decode(text, start)
        members[key] = value
        spans[key] = (start, at)
        at = _skip_blanks(text, at)
        mark = text[at : at + 1]
        if mark == "}":
            return members, spans, at + 1
        if mark != ",":
            raise ValueError("not an object")
        at = _skip_blanks(text, at + 1)


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r") and at < len(text):
        at += 1
    return at
