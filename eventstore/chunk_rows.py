"""Chunk rows: many token deltas packed on one log line, and the events they stand for.

A row is never an event. It is how a run of ``assistant/chunk`` events is stored::

    {type, seq0, time0, data}
    text-chunks, reasoning-chunks   data = {turn, step, index, dt, texts}
    tool-call-chunks                data = {turn, step, index, dt, id, name?, args}

Member ``k`` is the event at ``seq0 + k``; its time is ``time0`` plus the first ``k`` gaps of ``dt``, which
has one entry fewer than the payload. Gaps are milliseconds and may be negative. Members are never joined:
where one delta ends and the next begins is data. An empty ``name`` is a name; a missing one is not.

A run is one kind of delta with consecutive seqs and the same turn, step, index and, for tool calls, id and
name. Three or more members make a row. Files take rows of any length, databases rows within ``SQLITE``.
Source: docs/formats.md, "Chunk rows".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from playhead.eventstore import json_text
from playhead.eventstore.ids import SAFE_INTEGER, is_safe_integer

EVENT_TYPE = "assistant/chunk"
"""The type of the events that rows stand for."""


class _Kind(NamedTuple):
    """One kind of delta: how its row is tagged, and under which keys the row and the chunk hold the text."""

    tag: str
    delta: str
    payload: str
    text: str
    is_call: bool


_KINDS = (
    _Kind("text-chunks", "text-delta", "texts", "text", False),
    _Kind("reasoning-chunks", "reasoning-delta", "texts", "text", False),
    _Kind("tool-call-chunks", "tool-call-delta", "args", "argumentsDelta", True),
)
_BY_TAG = {kind.tag: kind for kind in _KINDS}
_BY_DELTA = {kind.delta: kind for kind in _KINDS}

TAGS = frozenset(_BY_TAG)
"""The types that mark a line as a row."""

LINE_STARTS = tuple(b'{"type":"%s",' % tag.encode() for tag in sorted(TAGS))
"""How such lines begin, as every writer spells them."""


class Limits(NamedTuple):
    """How large a row may be: members, and UTF-8 bytes of the JSON text of its ``data``."""

    min_members: int = 1
    max_members: int = SAFE_INTEGER
    max_data_bytes: int = SAFE_INTEGER


READ = Limits()
"""What a reader of files takes: any row with a member."""

JSONL = Limits(min_members=3)
"""What a writer of files makes."""

SQLITE = Limits(min_members=3, max_members=1024, max_data_bytes=1 << 20)
"""What a database row may hold, in both directions."""


class MalformedRow(ValueError):
    """A row whose parts do not fit each other. ``code`` names the rule that it breaks."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def validate(members: dict[str, Any], limits: Limits = READ) -> None:
    """Raise ``MalformedRow`` unless ``members``, of a type in ``TAGS``, are a row within ``limits``."""
    _checked_times(members)
    kind = _BY_TAG[members["type"]]
    count = len(members["data"][kind.payload])
    if not limits.min_members <= count <= limits.max_members:
        raise MalformedRow(
            "row-members", f"{count} members, not {limits.min_members} to {limits.max_members}"
        )
    if limits.max_data_bytes < SAFE_INTEGER:
        size_bytes = len(json_text.dumps(members["data"]))
        if size_bytes > limits.max_data_bytes:
            raise MalformedRow("row-size", f"{size_bytes} bytes of data, more than {limits.max_data_bytes}")


def times(members: dict[str, Any]) -> list[int]:
    """The time of each member of a row, epoch milliseconds. Raises ``MalformedRow``."""
    return _checked_times(members)


def unpack(value: Any) -> list[Any]:
    """The events that a parsed line stands for, in order, with the keys in the order of the live writer.

    Anything but a row comes back as the one element, unread. Raises ``MalformedRow``.
    """
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or value["type"] not in TAGS:
        return [value]
    when = _checked_times(value)
    kind = _BY_TAG[value["type"]]
    data = value["data"]
    turn, step = data["turn"], data["step"]
    told = {key: data[key] for key in ("index", "id", "name") if key in data}
    seq0 = int(value["seq0"])
    return [
        {
            "type": EVENT_TYPE,
            "seq": seq0 + at,
            "time": time,
            "data": {"turn": turn, "step": step, "chunk": delta(kind.tag, told, text)},
        }
        for at, (time, text) in enumerate(zip(when, data[kind.payload], strict=True))
    ]


def delta(tag: str, members: dict[str, Any], text: str) -> dict[str, Any]:
    """A delta as a row of type ``tag`` stands for it; ``members`` are its index, and its id and name if it has them."""
    kind = _BY_TAG[tag]
    return {"type": kind.delta, **members, kind.text: text}


def pack(events: Iterable[dict[str, Any]], limits: Limits = JSONL) -> list[dict[str, Any]]:
    """The lines of one batch of events: every run as rows, everything else the event itself, in order.

    ``unpack`` of each gives events equal to those that went in. A run that ``limits`` do not let into one row
    is cut greedily; what is left below ``limits.min_members`` stays unpacked.
    """
    lines: list[dict[str, Any]] = []
    run: list[dict[str, Any]] = []
    for event in events:
        if not _packable(event):
            lines += _rows(run, limits)
            run = []
            lines.append(event)
            continue
        if run and not _continues(run[-1], event):
            lines += _rows(run, limits)
            run = []
        run.append(event)
    lines += _rows(run, limits)
    return lines


_EVENT_KEYS = {"type", "seq", "time", "data"}
_ROW_KEYS = {"type", "seq0", "time0", "data"}
_DATA_KEYS = {"turn", "step", "chunk"}


def _is_number(value: Any) -> bool:
    """True for a JSON number that can be written again: no boolean, and finite."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _checked_times(members: dict[str, Any]) -> list[int]:
    """The time of each member, once every rule has been checked."""
    if members.keys() != _ROW_KEYS:
        raise MalformedRow("row-envelope", "its members are not exactly type, seq0, time0 and data")
    seq0, time0, data = members["seq0"], members["time0"], members["data"]
    if not is_safe_integer(seq0) or seq0 < 0:
        raise MalformedRow("row-seq0", "seq0 is not a whole number from 0")
    if not is_safe_integer(time0):
        raise MalformedRow("row-time0", "time0 is not a whole number")
    if not isinstance(data, dict | list):
        raise MalformedRow("row-data", "its data is not an object")
    kind = _BY_TAG[members["type"]]
    wanted = {"turn", "step", "index", "dt", kind.payload} | ({"id"} if kind.is_call else set())
    if not isinstance(data, dict) or (data.keys() - {"name"} if kind.is_call else data.keys()) != wanted:
        raise MalformedRow("row-data-keys", f"its data does not have exactly the members of {kind.tag}")
    if kind.is_call and not (isinstance(data["id"], str) and isinstance(data.get("name", ""), str)):
        raise MalformedRow("row-call-identity", "id or name is not text")
    if not (_is_number(data["turn"]) and _is_number(data["step"]) and _is_number(data["index"])):
        raise MalformedRow("row-placement", "turn, step or index is not a number")
    payload, gaps = data[kind.payload], data["dt"]
    if not isinstance(payload, list) or set(map(type, payload)) != {str}:
        raise MalformedRow("row-payload", f"{kind.payload} is not a list of texts with at least one")
    if not isinstance(gaps, list) or len(gaps) != len(payload) - 1:
        raise MalformedRow("row-dt-arity", f"dt does not hold one gap fewer than the {len(payload)} members")
    if not _are_whole(gaps):
        raise MalformedRow("row-dt", "a gap is not a whole number")
    if seq0 + len(payload) - 1 > SAFE_INTEGER:
        raise MalformedRow("row-seq-range", "the seq of the last member is too large")
    when = list(accumulate(map(int, gaps), initial=int(time0)))
    if max(when) > SAFE_INTEGER or min(when) < -SAFE_INTEGER:
        raise MalformedRow("row-time-range", "the time of a member is too large")
    return when


def _are_whole(gaps: list[Any]) -> bool:
    """Whether all of ``gaps`` are safe integers; nearly always they are plain ones, which is quickly told."""
    if set(map(type, gaps)) <= {int}:
        return not gaps or max(map(abs, gaps)) <= SAFE_INTEGER
    return all(map(is_safe_integer, gaps))


def _packable(event: dict[str, Any]) -> bool:
    """True when a row can hold the whole event and nothing would be lost."""
    if not isinstance(event, dict) or event.keys() != _EVENT_KEYS or event["type"] != EVENT_TYPE:
        return False
    data = event["data"]
    if not is_safe_integer(event["seq"]) or event["seq"] < 0 or not is_safe_integer(event["time"]):
        return False
    if not isinstance(data, dict) or data.keys() != _DATA_KEYS or not isinstance(data["chunk"], dict):
        return False
    chunk = data["chunk"]
    tag = chunk.get("type")
    kind = _BY_DELTA.get(tag) if isinstance(tag, str) else None
    if kind is None or not all(
        _is_number(value) for value in (data["turn"], data["step"], chunk.get("index"))
    ):
        return False
    texts = {"id", "argumentsDelta"} if kind.is_call else {"text"}
    if kind.is_call and "name" in chunk:
        texts.add("name")
    return chunk.keys() == texts | {"type", "index"} and all(isinstance(chunk[key], str) for key in texts)


def _continues(last: dict[str, Any], event: dict[str, Any]) -> bool:
    """True when ``event`` belongs to the run that ends in ``last``; both are packable."""
    before, after = last["data"], event["data"]
    one, two = before["chunk"], after["chunk"]
    return (
        event["seq"] == last["seq"] + 1
        and abs(event["time"] - last["time"]) <= SAFE_INTEGER
        and (before["turn"], before["step"]) == (after["turn"], after["step"])
        and all(one.get(key) == two.get(key) for key in ("type", "index", "id", "name"))
    )


def _rows(run: list[dict[str, Any]], limits: Limits) -> Iterator[dict[str, Any]]:
    """The lines of one run. A member that starts no row stays as it is, and the next one is tried."""
    at = 0
    while at < len(run):
        count = _fitting(run, at, limits)
        if count < limits.min_members:
            yield run[at]
            at += 1
        else:
            yield _row(run[at : at + count])
            at += count


def _fitting(run: list[dict[str, Any]], at: int, limits: Limits) -> int:
    """How many members of ``run`` from ``at`` on one row can hold."""
    count = min(len(run) - at, limits.max_members)
    if limits.max_data_bytes == SAFE_INTEGER:
        return count
    key = _BY_DELTA[run[at]["data"]["chunk"]["type"]].text
    size_bytes = len(json_text.dumps(_row(run[at : at + 1])["data"]))
    if size_bytes > limits.max_data_bytes:
        return 0
    for more in range(1, count):
        event = run[at + more]
        gap = int(event["time"] - run[at + more - 1]["time"])
        size_bytes += len(json_text.dumps(event["data"]["chunk"][key])) + 1
        size_bytes += len(str(gap)) + (more > 1)  # the first gap has no comma before it
        if size_bytes > limits.max_data_bytes:
            return more
    return count


def _row(run: list[dict[str, Any]]) -> dict[str, Any]:
    first = run[0]
    data, chunk = first["data"], first["data"]["chunk"]
    kind = _BY_DELTA[chunk["type"]]
    packed: dict[str, Any] = {"turn": data["turn"], "step": data["step"], "index": chunk["index"]}
    packed["dt"] = [int(after["time"] - before["time"]) for before, after in pairwise(run)]
    for key in ("id", "name"):
        if key in chunk:
            packed[key] = chunk[key]
    packed[kind.payload] = [event["data"]["chunk"][kind.text] for event in run]
    return {"type": kind.tag, "seq0": first["seq"], "time0": first["time"], "data": packed}
