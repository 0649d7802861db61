"""What one stored line says: how many facts from which seq, and the facts themselves.

A line is one JSON object: an event ``{type, seq, time, data, ...}`` or a chunk row that packs many
(``chunk_rows.py``). Reading never refuses: a line without a usable seq stands for no fact, and its
``defect`` says why. What is no sound event and no sound row is read by ``line_records.py``, which takes its time.
Source: docs/formats.md, "Lines".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from playhead.eventstore import chunk_rows, json_text, line_records, source_seqs
from playhead.eventstore.ids import SAFE_INTEGER, Position, Seq, SessionId, is_safe_integer
from playhead.eventstore.line_records import Defect
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp


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
    found, defect = line_records.records(line)
    if not found:
        return LineView(-1, 0, 0, 0, "", defect)
    places = [record.place for record in found]
    return LineView(
        places[0].seq0,
        sum(place.n for place in places),
        min(place.t0 for place in places),
        max(place.t1 for place in places),
        places[0].type,
        defect,
    )


def _slow_facts(line: bytes, session: SessionId, position: Position | None) -> Iterator[Recorded]:
    text = line.decode("utf-8", "surrogateescape")
    found, _ = line_records.records(line)
    done = 0
    for record in found:
        members = record.members
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
        start, end = record.spans["data"]
        op = _surface_op(members.get("surfaceOp"))
        sources = _sources(members.get("sourceEventSeqs"))
        read = {"surfaceOp": op, "sourceEventSeqs": sources}
        yield Recorded(
            session,
            Seq(int(members["seq"])),
            line_records.time_of(members["time"]),
            members["type"],
            text[start:end].encode("utf-8", "surrogateescape"),
            op,
            sources,
            members.get("ignorable") is True,
            None if position is None else Position(position + done),
            tuple(name for name, value in read.items() if value is None and name in members),
        )
        done += 1
