"""Events of Playhead's own sessions as the later formats of dsh have them: what dsh's own conversions make.

A native session holds the events of format 1: a stream is one ``assistant/chunk`` per chunk, the system prompt
lies in ``request/header``. Each step below goes on where the one before ended.

====== ================================================================================================
to 2   The chunks of a call go into ``data.stream`` of its ``assistant/message``, which then cites no
       sources, or, when there is none, of one ``assistant/attempt {turn, step, stream}`` at the place and
       with the time of the last chunk. Deltas are rows without seq, turn and step. What is left is
       numbered anew, and what cites a seq follows. The inherited events end in ``session/end-seed
       {inherited: true}``, since the header does not count them any more.
to 3   The system prompt becomes ``system/message``: an empty one behind the first ``step/start``, and a
       replacement before each ``request/header`` with another prompt. ``tool/code-dispatch`` is
       ``tool/ptc-dispatch``. A replacement says ``startSeq`` and ``endSeq``.
to 4   A tool result is a flat message of role ``tool``. The source ``plugin`` becomes a kind of its own.
====== ================================================================================================

Ids of the new messages follow from session and place, as in dsh. What dsh adds from elsewhere when it converts
a log is left out: the catalog of children (``subagent/catalog``), closing events, the prefix ``plugin:`` of
unknown types. Source: docs/formats.md, "Chunk rows" and "Dialects".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from playhead.adapters.dsh.dialects import CODE_DISPATCH
from playhead.eventstore import chunk_rows, json_text
from playhead.eventstore.cited_seqs import renumbered
from playhead.eventstore.errors import UsageError
from playhead.eventstore.sources import PLUGIN_KINDS, PROMPT_PLUGIN
from playhead.projections.attempt import STREAM_ENDS

Json = dict[str, Any]
Batch = Sequence[Json]
"""Events that became durable together, each as the members of its line."""

_IN_FORMAT_3 = {now: then for then, now in CODE_DISPATCH.items()}
_RUNS = chunk_rows.Limits(min_members=1)


def to_format_2(batches: Iterable[Batch], seed_length: int | None) -> list[list[Json]]:
    """The events of format 1 in format 2; ``seed_length`` counts the inherited ones, None without a parent.

    Raises ``UsageError`` for a chunk without turn, step and chunk.
    """
    folding = _Folding()
    for number, batch in enumerate(_marked(batches, seed_length)):
        for event in batch:
            folding.add(event, number)
    return _numbered(folding.finished())


def to_format_3(batches: Iterable[Batch], session: str) -> list[list[Json]]:
    """The events of format 2 in format 3; ``session`` is the id of the session."""
    lifting = _Lifting(session)
    for number, batch in enumerate(batches):
        for event in batch:
            lifting.add(event, number)
    return [[_renamed(event) for event in batch] for batch in _numbered(lifting.placed)]


def to_format_4(batches: Iterable[Batch]) -> list[list[Json]]:
    """The events of format 3 in format 4."""
    return [[_in_format_4(event) for event in batch] for batch in batches]


class _Placed(NamedTuple):
    """An event with its batch, and the seqs that now mean it; a new event has a negative one, or none."""

    event: Json
    batch: int
    seqs: tuple[int, ...]


class _Folding:
    """Takes the chunks out of a log and puts them into the event that ends their call."""

    def __init__(self) -> None:
        self._placed: list[_Placed] = []
        self._chunks: list[Json] = []
        self._last_at = 0
        self._batch = 0

    def add(self, event: Json, batch: int) -> None:
        if event["type"] == chunk_rows.EVENT_TYPE:
            self._add_chunk(event, batch)
            return
        if event["type"] in STREAM_ENDS:
            self._end_attempt()
        seqs: tuple[int, ...] = (event["seq"],)
        if event["type"] == "assistant/message":
            event, seqs = self._message(event)
        self._placed.append(_Placed(event, batch, seqs))

    def finished(self) -> list[_Placed]:
        self._end_attempt()
        return self._placed

    def _add_chunk(self, event: Json, batch: int) -> None:
        data = event["data"]
        if not isinstance(data, dict) or not data.keys() >= {"turn", "step", "chunk"}:
            raise UsageError(f"seq {event['seq']}: a chunk without turn, step and chunk")
        if self._chunks:
            last = self._chunks[-1]["data"]
            finished = isinstance(last["chunk"], dict) and last["chunk"].get("type") == "finish"
            if finished or _place(last) != _place(data):
                self._end_attempt()
        self._chunks.append(event)
        self._last_at = len(self._placed)
        self._batch = batch

    def _message(self, event: Json) -> tuple[Json, tuple[int, ...]]:
        """The message with the stream of its call. One that replaces another has no call and keeps its sources."""
        data = event["data"]
        if event.get("surfaceOp") != "append":
            return event | {"data": data | {"stream": []}}, (event["seq"],)
        if self._chunks and _place(self._chunks[-1]["data"]) != _place(data):
            self._end_attempt()
        seqs = (*(chunk["seq"] for chunk in self._chunks), event["seq"])
        told = {key: value for key, value in event.items() if key != "sourceEventSeqs"}
        told["data"] = data | {"stream": _stream(self._chunks)}
        self._chunks = []
        return told, seqs

    def _end_attempt(self) -> None:
        if not self._chunks:
            return
        last = self._chunks[-1]
        turn, step = _place(last["data"])
        attempt = {
            "type": "assistant/attempt",
            "seq": last["seq"],
            "time": last["time"],
            "data": {"turn": turn, "step": step, "stream": _stream(self._chunks)},
        }
        seqs = tuple(chunk["seq"] for chunk in self._chunks)
        self._placed.insert(self._last_at, _Placed(attempt, self._batch, seqs))
        self._chunks = []


class _Lifting:
    """Takes the system prompt out of the request headers and makes messages of it."""

    def __init__(self, session: str) -> None:
        self.placed: list[_Placed] = []
        self._session = session
        self._step: tuple[Any, Any] = (1, 1)
        self._prompt = ""
        self._messages = 0

    def add(self, event: Json, batch: int) -> None:
        data = event["data"]
        if event["type"] == "request/header" and isinstance(data, dict):
            header = data.get("header")
            if isinstance(header, dict):
                prompt = header.get("system", "")
                if prompt != self._prompt:
                    self._say(prompt, event, batch)
                header = {key: value for key, value in header.items() if key != "system"}
                event = event | {"data": data | {"header": header}}
        self.placed.append(_Placed(event, batch, (event["seq"],)))
        if event["type"] == "step/start" and isinstance(data, dict):
            self._step = _place(data)
            if not self._messages:
                self._say("", event, batch)

    def _say(self, prompt: str, anchor: Json, batch: int) -> None:
        """Place a message with the prompt, in the place of the last one if there is one."""
        turn, step = self._step
        content = [{"type": "text", "text": prompt}] if prompt else []
        message = {
            "id": self._id(anchor),
            "role": "system",
            "source": {"kind": "plugin", "plugin": PROMPT_PLUGIN},
            "content": content,
        }
        event: Json = {
            "type": "system/message",
            "seq": anchor["seq"],
            "time": anchor["time"],
            "data": {"turn": turn, "step": step, "message": message},
            "surfaceOp": "append",
        }
        if self._messages:
            last = -self._messages
            event["surfaceOp"] = {"op": "replace", "start": last, "end": last}
            event["sourceEventSeqs"] = [last]
        self._messages += 1
        self._prompt = prompt
        self.placed.append(_Placed(event, batch, (-self._messages,)))

    def _id(self, anchor: Json) -> str:
        parts = ["session-format-v2-to-v3", self._session, anchor["seq"], anchor["type"]]
        return f"v2-to-v3-system-{hashlib.sha256(json_text.dumps(parts)).hexdigest()}"


def _place(data: Json) -> tuple[Any, Any]:
    return data.get("turn"), data.get("step")


def _stream(chunks: Iterable[Json]) -> list[Json]:
    """The chunk events of one call as the entries of an embedded stream."""
    rows = chunk_rows.pack([event | {"seq": at} for at, event in enumerate(chunks)], _RUNS)
    return [_entry(row) for row in rows]


def _entry(row: Json) -> Json:
    data = row["data"]
    if row["type"] not in chunk_rows.TAGS:
        return {"type": "chunk", "time": row["time"], "chunk": data["chunk"]}
    packed = {key: value for key, value in data.items() if key not in ("turn", "step")}
    return {"type": row["type"], "time0": row["time0"], **packed}


def _marked(batches: Iterable[Batch], seed_length: int | None) -> Iterator[list[Json]]:
    """The batches, the end of the inherited events said by a marker, which is added where there is none."""
    marked = seed_length is None
    time_ms: int = 0
    for batch in batches:
        events: list[Json] = []
        for event in batch:
            time_ms = event["time"]
            if marked or event["seq"] != seed_length:
                events.append(event)
                continue
            marked = True
            if event["type"] == "session/end-seed":
                events.append({**event, "data": {"inherited": True}})
            else:
                events += [_marker(time_ms), event]
        yield events
    if not marked:
        yield [_marker(time_ms)]


def _marker(time_ms: int) -> Json:
    return {"type": "session/end-seed", "seq": -1, "time": time_ms, "data": {"inherited": True}}


def _numbered(placed: Sequence[_Placed]) -> list[list[Json]]:
    """The events in their batches, numbered from 0, with every seq that they cite following."""
    now = {old: seq for seq, one in enumerate(placed) for old in one.seqs}
    numbered = ((one.batch, _moved(one.event, seq, now)) for seq, one in enumerate(placed))
    return [[event for _, event in batch] for _, batch in groupby(numbered, key=lambda pair: pair[0])]


def _moved(event: Json, seq: int, now: Mapping[int, int]) -> Json:
    moved = event | {"seq": seq}
    if "sourceEventSeqs" in event:
        moved["sourceEventSeqs"] = list(dict.fromkeys(_cited(event["sourceEventSeqs"], now)))
    if isinstance(event.get("surfaceOp"), dict):
        moved["surfaceOp"] = _cited(event["surfaceOp"], now)
    moved["data"] = renumbered(event["type"], event["data"], lambda old: now.get(old, old))
    return moved


def _cited(value: Any, now: Mapping[int, int]) -> Any:
    """``value`` with every number in it that is an old seq as the new one."""
    if isinstance(value, list):
        return [_cited(item, now) for item in value]
    if isinstance(value, dict):
        return {key: _cited(item, now) for key, item in value.items()}
    return now.get(value, value) if type(value) is int else value


def _renamed(event: Json) -> Json:
    op = event.get("surfaceOp")
    if isinstance(op, dict):
        event = event | {"surfaceOp": {"op": op["op"], "startSeq": op["start"], "endSeq": op["end"]}}
    return event | {"type": _IN_FORMAT_3.get(event["type"], event["type"])}


def _in_format_4(event: Json) -> Json:
    change = _DATA_IN_FORMAT_4.get(event["type"])
    data = event["data"]
    return event | {"data": change(data)} if change is not None and isinstance(data, dict) else event


def _flat_result(data: Json) -> Json:
    """The result with its one block taken apart; a message of another shape stays as it is."""
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(content, list) or len(content) != 1:
        return data
    block = content[0]
    if not isinstance(block, dict) or block.get("type") != "tool-result":
        return data
    parts = message | {"role": "tool"} | block
    ordered = {key: parts.pop(key) for key in _FLAT_RESULT if key in parts}
    del parts["type"]
    return data | {"message": ordered | parts}


_FLAT_RESULT = ("role", "source", "toolCallId", "content", "isError", "id")


def _sourced(message: Json, prompt_kind: str) -> Json:
    """The message with the kind that its plugin has; ``prompt_kind`` is that of the prompt's plugin."""
    source = message.get("source")
    if not isinstance(source, dict) or source.get("kind") != "plugin":
        return message
    plugin = source.get("plugin")
    if not isinstance(plugin, str):
        return message
    kind = prompt_kind if plugin == PROMPT_PLUGIN else PLUGIN_KINDS.get(plugin, f"plugin:{plugin}")
    rest = {key: value for key, value in source.items() if key not in ("kind", "plugin")}
    return message | {"source": {"kind": kind, **rest}}


def _system_message(data: Json) -> Json:
    return data | {"message": _sourced(data["message"], "system-prompt")}


def _user_message(message: Json) -> Json:
    return _sourced(message, "runtime-context")


def _splice(data: Json) -> Json:
    inserted = data.get("inserted")
    if not isinstance(inserted, list):
        return data
    return data | {"inserted": [_user_message(one) if isinstance(one, dict) else one for one in inserted]}


_DATA_IN_FORMAT_4: dict[str, Callable[[Json], Json]] = {
    "agent/inbox/spliced": _splice,
    "system/message": _system_message,
    "tool/result": _flat_result,
    "user/message": _user_message,
}
