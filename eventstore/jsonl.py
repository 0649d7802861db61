"""The lines of a log, and how much of them a strict reader accepts.

A decoded log is UTF-8: the header line, then one JSON value per line, every line ended by LF (a CR before it
is a blank). The rules, for the lines behind the header:

1. Bytes behind the last LF are a torn tail, even where they are a whole value.
2. The first line that is no JSON, is a malformed row, or does not continue the numbering is the *issue*.
   Nothing is kept from there on; a row is kept whole or not at all.
3. Where a ``turn/end`` stands on that line or on a later one that parses, the damage lies in the *committed*
   part: the log is corrupt. Otherwise what begins at the issue is a tail that may be dropped.
4. Bytes that whole compressed frames gave are committed as such: they must end with a line, and no issue may
   begin in them.

Strict reading and repair go by these rules. A store keeps every line.
Source: docs/formats.md, "Lines".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from playhead.eventstore import envelope, json_text
from playhead.eventstore.envelope import LineView
from playhead.eventstore.findings import Finding
from playhead.eventstore.ids import SessionId, is_safe_integer
from playhead.eventstore.recorded import Recorded


class Line(NamedTuple):
    """One whole line at ``byte`` of the decoded log, its LF left out; the header is ``number`` 1."""

    number: int
    byte: int
    text: bytes


@dataclass(slots=True)
class Scan:
    """What a strict reader makes of a decoded log.

    ``header_line`` is the first line without its LF, None where there is none. ``facts`` are those of the
    kept lines and ``safe_length`` is where these end. ``issue`` is the first fault; it is ``committed`` when
    it makes the log corrupt, and the start of a tail that may be dropped when not. ``whole_behind`` counts
    the lines behind it that are whole records. ``torn_bytes`` stand behind the last LF. ``odd`` are kept
    lines whose envelope or encoding is not as it should be.
    """

    header_line: bytes | None
    safe_length: int = 0
    facts: list[Recorded] = field(default_factory=list)
    issue: Finding | None = None
    committed: bool = False
    whole_behind: int = 0
    torn_bytes: int = 0
    odd: list[Finding] = field(default_factory=list)


def lines(decoded: bytes) -> Iterator[Line]:
    """The lines that end in LF, the header first."""
    start, number = 0, 1
    while (end := decoded.find(b"\n", start)) >= 0:
        yield Line(number, start, decoded[start:end])
        start, number = end + 1, number + 1


def scan(decoded: bytes, session: SessionId, *, framed_bytes: int = 0) -> Scan:
    """What a strict reader makes of ``decoded``. Raises nothing; what the header says is not looked at.

    ``session`` is the id for the facts. ``framed_bytes`` is how many bytes came from whole compressed frames.
    """
    every_line = lines(decoded)
    header = next(every_line, None)
    if header is None:
        return Scan(None, torn_bytes=len(decoded))
    found = Scan(header.text, len(header.text) + 1)
    end = found.safe_length
    for line in every_line:
        end = line.byte + len(line.text) + 1
        view = envelope.view(line.text)
        if found.issue is not None:
            found.whole_behind += 1 if view.n and _parses(view) else 0
            found.committed = found.committed or _is_turn_end(line.text, view)
            continue
        broken = line.byte < framed_bytes < end
        found.issue = _split_line(line.byte, line.number) if broken else _issue(line, view, len(found.facts))
        if found.issue is not None:
            found.committed = line.byte < framed_bytes or _is_corrupt(line.text, view, len(found.facts))
            continue
        found.facts += envelope.facts(line.text, session)
        found.safe_length = end
        if view.defect is not None:
            kind, message = view.defect
            found.odd.append(Finding(kind, message, line.number, line.byte, view.seq0))
    found.torn_bytes = len(decoded) - end
    if found.issue is None and end < framed_bytes:
        found.issue = _split_line(end, decoded.count(b"\n", 0, end) + 1)
        found.committed = True
    return found


def _issue(line: Line, view: LineView, next_seq: int) -> Finding | None:
    """Why the line cannot be kept behind ``next_seq`` facts; None when it can."""
    if view.defect is not None and (not view.n or not _parses(view)):
        return Finding(view.defect.kind, view.defect.message, line.number, line.byte, next_seq)
    if view.seq0 != next_seq:
        message = f"seq {next_seq} is missing; seq {view.seq0} follows"
        return Finding("seq-gap", message, line.number, line.byte, next_seq)
    return None


def _split_line(byte: int, number: int) -> Finding:
    return Finding("torn-tail", "the last whole frame ends inside a line", number, byte)


def _parses(view: LineView) -> bool:
    """True for a line that is one JSON value and no malformed row."""
    return view.defect is None or view.defect.kind in ("bad-envelope", "invalid-utf8")


def _is_turn_end(text: bytes, view: LineView) -> bool:
    if not _parses(view):
        return False
    return view.type == "turn/end" or (not view.n and _value(text, "type") == "turn/end")


def _is_corrupt(text: bytes, view: LineView, next_seq: int) -> bool:
    """True for a line at which even a log without any later turn end is corrupt.

    Those are a turn end that is out of order, a bare ``null``, and a value that has the right number but is
    no event: whoever wrote that did not stop half-way.
    """
    if _is_turn_end(text, view) or text.strip() == b"null":
        return True
    seq = _value(text, "seq") if _parses(view) and not view.n else None
    return is_safe_integer(seq) and seq == next_seq


def _value(text: bytes, key: str) -> Any:
    """The member ``key`` of a line that is one JSON value; None where that is no object."""
    value = json_text.parse(text)
    return value.get(key) if isinstance(value, dict) else None
