"""What one stored line says: how many facts from which seq, and the facts themselves.

A line is one JSON object: an event ``{type, seq, time, data, ...}`` or a chunk row that packs many
(``chunk_rows.py``). Reading never refuses: a line without a usable seq stands for no fact, and its
``defect`` says why. Where a crash put two records on one line, every whole record in it is found.
Source: docs/formats.md, "Lines".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from playhead.eventstore import chunk_rows, json_text, source_seqs
from playhead.eventstore.ids import SAFE_INTEGER, Position, Seq, SessionId, is_safe_integer
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp


class Defect(NamedTuple):
    """Why a line is not simply one event: ``kind`` as in ``findings.py``, and what was found."""

    kind: str
    message: str


class LineView(NamedTuple):
    """What a line stands for, without its data.

    ``seq0`` is -1 and ``n`` 0 for a line that states no usable seq. ``t0`` and ``t1`` are the lowest and the
    highest time of its facts. ``type`` is the type of its facts ("" when there is none).
    """

    seq0: int
    n: int
    t0: int
    t1: int
    type: str
    defect: Defect | None = None


_Seq = Annotated[int, msgspec.Meta(ge=0, le=SAFE_INTEGER)]
_Time = Annotated[int, msgspec.Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


class Envelope(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The seven members of an event, as the fast path accepts them. None of them can be part of a cycle."""

    type: str
    seq: _Seq
    time: _Time
    data: msgspec.Raw
    ignorable: bool | msgspec.UnsetType = msgspec.UNSET
    sourceEventSeqs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    surfaceOp: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Tail(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The members of an event from ``data`` on, as the fast path accepts them."""

    data: msgspec.Raw
    ignorable: bool | msgspec.UnsetType = msgspec.UNSET
    sourceEventSeqs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    surfaceOp: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RowData(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a chunk row, as the fast path accepts them."""

    turn: int | float
    step: int | float
    index: int | float
    dt: list[int]
    texts: list[str] | msgspec.UnsetType = msgspec.UNSET
    args: list[str] | msgspec.UnsetType = msgspec.UNSET
    id: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """A chunk row, as the fast path accepts it."""

    type: Literal["text-chunks", "reasoning-chunks", "tool-call-chunks"]
    seq0: int
    time0: int
    data: _RowData


_fast = msgspec.json.Decoder(Envelope)
_fast_tail = msgspec.json.Decoder(_Tail).decode
_fast_row = msgspec.json.Decoder(_Row)
_fast_seqs = msgspec.json.Decoder(tuple[Annotated[Seq, msgspec.Meta(ge=0, le=SAFE_INTEGER)], ...])
_MEMBERS = frozenset(Envelope.__struct_fields__)
_APPEND = b'"append"'
_UNSET = msgspec.UNSET


def plain(line: bytes) -> Envelope | None:
    """The envelope of a line that is one sound event, the quick way; None for any other line."""
    try:
        event = _fast.decode(line)
        if not line.isascii():
            line.decode("utf-8")  # what is skipped as raw has not been checked
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if event.ignorable is False or event.type in chunk_rows.TAGS:
        return None
    return event


def view(line: bytes) -> LineView:
    """What ``line`` stands for. Never raises; a defect is part of the answer."""
    event = plain(line)
    if event is not None:
        return LineView(event.seq, 1, event.time, event.time, event.type)
    return _row_view(line) or _slow_view(line)


def facts(line: bytes, session: SessionId, position: Position | None = None) -> list[Recorded]:
    """The facts of ``line`` in order, as many as ``view(line).n``; ``position`` is that of the first.

    Raises nothing: a line that stands for no fact gives an empty list.
    """
    event = plain(line)
    if event is None:
        return list(_slow_facts(line, session, position))
    fact = _fact(session, Seq(event.seq), event.time, event.type, event)
    fact.position = position
    return [fact]


def fact_of_tail(
    session: SessionId,
    seq: Seq,
    time_ms: int,
    type: str,
    tail: bytes,
    op: SurfaceOp | None = None,
    sources: range | None = None,
) -> Recorded | None:
    """The fact of the line ``{"type":...,"seq":...,"time":...,"data":`` with ``tail`` behind it, the quick way.

    The line is known to be sound UTF-8. ``op`` and ``sources`` are members that were taken out of it. None when
    only reading the whole line tells what it says.
    """
    try:
        found = _fast_tail(b'{"data":' + tail)
    except (msgspec.DecodeError, RecursionError):
        return None
    ignorable = found.ignorable
    if ignorable is False:
        return None
    if found.surfaceOp is _UNSET and found.sourceEventSeqs is _UNSET:
        return Recorded(session, seq, time_ms, type, bytes(found.data), op, sources, ignorable is True)
    return _fact(session, seq, time_ms, type, found) if sources is None else None


def _fact(session: SessionId, seq: Seq, time_ms: int, type: str, event: Envelope | _Tail) -> Recorded:
    """The fact that a sound event states."""
    raw_op, raw_sources = event.surfaceOp, event.sourceEventSeqs
    op: SurfaceOp | None = None
    sources: tuple[Seq, ...] | None = None
    unreadable: tuple[str, ...] = ()
    if raw_op is not _UNSET:
        text = bytes(raw_op)
        op = "append" if text == _APPEND else _surface_op(_parsed(text))
        if op is None:
            unreadable = ("surfaceOp",)
    if raw_sources is not _UNSET:
        sources = _plain_sources(raw_sources) or _sources(_parsed(bytes(raw_sources)))
        if sources is None:
            unreadable = (*unreadable, "sourceEventSeqs")
    return Recorded(
        session,
        seq,
        time_ms,
        type,
        bytes(event.data),
        op,
        sources,
        event.ignorable is True,
        None,
        unreadable,
    )


def _parsed(raw: bytes) -> Any:
    return json_text.parse(raw)


def _surface_op(value: Any) -> SurfaceOp | None:
    """The operation in either spelling (``start``/``end`` or ``startSeq``/``endSeq``); None if it is neither."""
    if value == "append":
        return "append"
    if isinstance(value, dict) and value.get("op") == "replace" and len(value) == 3:
        start = value.get("start", value.get("startSeq"))
        end = value.get("end", value.get("endSeq"))
        if is_safe_integer(start) and is_safe_integer(end) and start >= 0 and end >= 0:
            return Replace(Seq(int(start)), Seq(int(end)))
    return None


def _plain_sources(raw: msgspec.Raw) -> tuple[Seq, ...] | None:
    """The seqs of a plain list, the quick way; None for any other value, and for an empty list."""
    try:
        seqs = _fast_seqs.decode(raw)
    except msgspec.DecodeError:
        return None
    return seqs or None


def _sources(value: Any) -> tuple[Seq, ...] | None:
    try:
        return tuple(Seq(seq) for seq in source_seqs.expand(value))
    except ValueError:
        return None


class _Part(NamedTuple):
    """One whole record found in a line, and where its text lies."""

    members: dict[str, Any]
    spans: dict[str, tuple[int, int]]


class _SoundRow(NamedTuple):
    """A row that keeps every rule, its texts, and the time of each."""

    row: _Row
    texts: list[str]
    times: list[int]


def _sound_row(line: bytes) -> _SoundRow | None:
    """The sound chunk row in ``line``, the quick way; None for any other line."""
    try:
        row = _fast_row.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    data = row.data
    is_call = row.type == "tool-call-chunks"
    texts, other = (data.args, data.texts) if is_call else (data.texts, data.args)
    times = list(accumulate(data.dt, initial=row.time0))
    t0, t1 = min(times), max(times)
    if (
        texts is not msgspec.UNSET
        and other is msgspec.UNSET
        and is_call == (data.id is not msgspec.UNSET)
        and (is_call or data.name is msgspec.UNSET)
        and len(texts) == len(times)
        and 0 <= row.seq0 <= SAFE_INTEGER - len(data.dt)
        and t0 >= -SAFE_INTEGER
        and t1 <= SAFE_INTEGER
        and t1 - t0 <= SAFE_INTEGER  # so that every gap is a safe integer too
    ):
        return _SoundRow(row, texts, times)
    return None


def _row_view(line: bytes) -> LineView | None:
    """What a sound chunk row stands for; None for any other line."""
    found = _sound_row(line)
    if found is None:
        return None
    row, texts, times = found
    return LineView(row.seq0, len(texts), min(times), max(times), chunk_rows.EVENT_TYPE)


def joined_row(line: bytes, session: SessionId) -> tuple[Recorded, int] | None:
    """The first delta of a sound chunk row, with the text of all, and how many there are; None for any other line."""
    found = _sound_row(line)
    if found is None:
        return None
    row, texts, times = found
    data = row.data
    told = {"index": data.index, "id": data.id, "name": data.name}
    known = {name: value for name, value in told.items() if value is not msgspec.UNSET}
    chunk = chunk_rows.delta(row.type, known, "".join(texts))
    raw = msgspec.json.encode({"turn": data.turn, "step": data.step, "chunk": chunk})
    return Recorded(session, Seq(row.seq0), times[0], chunk_rows.EVENT_TYPE, raw), len(texts)


def _slow_view(line: bytes) -> LineView:
    parts, defect = _parts(line)
    if not parts:
        return LineView(-1, 0, 0, 0, "", defect)
    views = [_part_view(part) for part in parts]
    first = views[0]
    return LineView(
        first[0],
        sum(view[1] for view in views),
        min(view[2] for view in views),
        max(view[3] for view in views),
        first[4],
        defect,
    )


def _slow_facts(line: bytes, session: SessionId, position: Position | None) -> Iterator[Recorded]:
    text = line.decode("utf-8", "surrogateescape")
    parts, _ = _parts(line)
    done = 0
    for part in parts:
        members = part.members
        if members["type"] in chunk_rows.TAGS:
            for event in chunk_rows.unpack(members):
                yield Recorded(
                    session,
                    Seq(event["seq"]),
                    event["time"],
                    event["type"],
                    json_text.dumps(event["data"]),
                    position=None if position is None else Position(position + done),
                )
                done += 1
            continue
        start, end = part.spans["data"]
        op = _surface_op(members.get("surfaceOp"))
        sources = _sources(members.get("sourceEventSeqs"))
        read = {"surfaceOp": op, "sourceEventSeqs": sources}
        yield Recorded(
            session,
            Seq(int(members["seq"])),
            _time(members["time"]),
            members["type"],
            text[start:end].encode("utf-8", "surrogateescape"),
            op,
            sources,
            members.get("ignorable") is True,
            None if position is None else Position(position + done),
            tuple(name for name, value in read.items() if value is None and name in members),
        )
        done += 1


def _part_view(part: _Part) -> tuple[int, int, int, int, str]:
    members = part.members
    if members["type"] in chunk_rows.TAGS:
        times = chunk_rows.times(members)
        return int(members["seq0"]), len(times), min(times), max(times), chunk_rows.EVENT_TYPE
    time = _time(members["time"])
    return int(members["seq"]), 1, time, time, members["type"]


def _time(value: Any) -> int:
    """Epoch ms of an event; a fraction or an absurd value is cut to what the log can order by."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(max(-SAFE_INTEGER, min(SAFE_INTEGER, value)))


def _parts(line: bytes) -> tuple[list[_Part], Defect | None]:
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
    kept: list[_Part] = []
    for candidate in found:
        seq0, n, *_ = _part_view(candidate)
        if kept:
            last0, last_n, *_ = _part_view(kept[-1])
            if seq0 != last0 + last_n:
                break
        kept.append(candidate)
        del n
    if kept:
        return kept, Defect("two-records-on-one-line", _glued(found, len(kept)))
    return [], Defect("bad-json", "the line is not JSON")


def _glued(found: list[_Part], kept: int) -> str:
    seqs = ", ".join(str(_part_view(part)[0]) for part in found[:kept])
    lost = f"; {len(found) - kept} more do not continue the numbering" if len(found) > kept else ""
    return f"a broken record with whole ones behind it on the same line; kept: seq {seqs}{lost}"


# A torn record fails once for itself and once for each object in it that is still open; a line made to be slow
# fails without end.
_MAX_FAILURES = 64
_RECORD_START = re.compile(r'\{[ \t]*"(?:type|seq0?|time0?|data|ignorable|sourceEventSeqs|surfaceOp)"')


def _records_within(text: str) -> Iterator[_Part]:
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


_NUMBER = re.compile(r"[-+.0-9eE]+")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


_Decode = Callable[[str, int], tuple[Any, int]]

# For the search within a line, which tries many places: it gives up early on what is nested too deeply.
_decode_shallow: _Decode = json_text.exact_decoder.raw_decode


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
) -> tuple[_Part | None, int, Defect | None]:
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
        return _Part(members, spans), end, None
    return _Part(members, spans), end, _odd_envelope(members)


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
    extra = sorted(set(members) - _MEMBERS)
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
