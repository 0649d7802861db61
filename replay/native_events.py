"""Logical events of a log of any format as the events that a native session holds.

Those of formats 0 and 1 are that already. From format 2 on a log says some things in another way, and they are put
back, the other way round than dsh's conversions went:

======================================== ============================================================================
stored                                   native
======================================== ============================================================================
a stream in ``assistant/message`` or     one ``assistant/chunk`` for each chunk, with its own time; the message cites
``assistant/attempt``                    them, the attempt is gone. They stand before the event, and among what was
                                         logged since the call went out where their times say so
``system/message``                       ``header.system`` of each ``request/header`` behind it. Where none follows
                                         before the next call, one is added: the last one with the new prompt
source ``runtime-context``, ...          source ``plugin``, see ``eventstore/sources.py``
``session/end-seed {inherited: true}``   ``session/end-seed {}``
types that came after format 0           the same, marked ignorable, with no place on the surface
``session-log-deepseek/...``             nothing: marks of what a server has got of the file that is copied from
======================================== ============================================================================

Everything is numbered anew, and what cites a seq follows: sources, surface operations, and ``cited_seqs``. A citation
of an event that is gone is left out; a replacement takes the place of those events in its range that are still there.
Everything else is the same to the byte: type, time, data, ids. A stream that makes no sense stays where it is.
Source: docs/formats.md, "Forks".
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from playhead.eventstore import chunk_rows, json_text, members
from playhead.eventstore.cited_seqs import renumbered
from playhead.eventstore.fork import END_SEED
from playhead.eventstore.format_0_types import FROM_0_1_2_TYPES, LATER_TYPES
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, is_safe_integer
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp
from playhead.eventstore.sources import PLUGIN_KINDS, PROMPT_PLUGIN
from playhead.projections import surface as surfaces
from playhead.projections.surface import Surface
from playhead.replay import native_prompt
from playhead.replay.native_prompt import NativePrompt

Json = dict[str, Any]

EMBEDDED_FROM = 2
"""The format from which streams lie inside events."""

DELIVERED = "session-log-deepseek/delivery-accepted"
"""The type of the events that have no place in another session."""

_GONE = -1
_STEP_OPENS = {"step/start": True, "step/end": False, "turn/start": False, "turn/end": False, END_SEED: False}
_STANDING = frozenset(
    {"request/header", "request/context", "llm/retry", "llm/retry-started", "tool/call", "tool/code-dispatch"}
)
_MARKED = LATER_TYPES | FROM_0_1_2_TYPES
_PLUGINS = {kind: plugin for plugin, kind in PLUGIN_KINDS.items()} | {"runtime-context": PROMPT_PLUGIN}


class _Chunk(NamedTuple):
    time_ms: int
    chunk: Json


class NativeEvents:
    """Takes the logical events of one log in order, from the first, and gives those of the native session.

    What is logged in a step is held back until it is known whether a stream runs past it; ``rest`` gives it at the end.
    ``next_seq`` counts the events that it gave, ``left_out`` those that are gone without a trace.
    """

    def __init__(self, header: SessionHeader) -> None:
        self.next_seq = 0
        self.left_out = 0
        self._same = header.version < EMBEDDED_FROM
        self._now = array("q")  # by old seq the new one, or _GONE
        self._surface = Surface()
        self._off_surface: set[int] = set()  # old seqs of what was on the surface, and is not any more
        self._prompt = NativePrompt()
        self._in_step = False
        self._waiting: deque[Recorded] = deque()

    def feed(self, event: Recorded) -> Iterator[Recorded]:
        """The native events that are known once ``event`` is, in order."""
        if self._same:
            self.next_seq = event.seq + 1
            yield event
            return
        shadowed = self._fold(event)
        if event.type in ("assistant/message", "assistant/attempt"):
            yield from self._call(event, shadowed)
        elif self._in_step and not _stands_still(event):
            self._waiting.append(event)
        else:
            yield from self.rest()
            if event.type in _STEP_OPENS:
                self._in_step = _STEP_OPENS[event.type]
            yield from self._one(event, shadowed)

    def rest(self) -> Iterator[Recorded]:
        """The events that were held back."""
        while self._waiting:
            yield from self._one(self._waiting.popleft())

    def _one(self, event: Recorded, shadowed: tuple[int, ...] = ()) -> Iterator[Recorded]:
        """An event that is no call, or nothing where it has no place."""
        if event.type in (native_prompt.TYPE, DELIVERED):
            self.left_out += event.type == DELIVERED
            self._now.append(_GONE)
        else:
            yield self._told(event, self._data(event), shadowed)

    def _fold(self, event: Recorded) -> tuple[int, ...]:
        """Take ``event`` into the surface; the old seqs that it takes the place of."""
        if event.type not in surfaces.TYPES:
            return ()
        if event.type in LATER_TYPES:
            self._off_surface.add(event.seq)
        before = self._surface.generation
        self._surface = surfaces.apply(self._surface, event)
        replaced = self._surface.generation > before
        shadowed = self._surface.replacements[-1].shadowed if replaced else ()
        self._prompt.see(event, self._surface, shadowed)
        return shadowed

    # Calls

    def _call(self, event: Recorded, shadowed: tuple[int, ...]) -> Iterator[Recorded]:
        """A call with its chunks before it; an event whose stream cannot be taken out stays as it is."""
        data = members.of(event)
        chunks = _chunks(data)
        replaces = isinstance(event.surface_op, Replace)
        attempt = event.type == "assistant/attempt"
        if chunks is None or (chunks and replaces) or (attempt and not chunks):
            yield from self.rest()
            yield self._told(event, event.json, shadowed)
            return
        if not replaces and self._prompt.untold:
            time_ms = self._prompt.changed_ms
            yield self._made(event, "request/header", time_ms, self._prompt.header())
        place: Json = {key: data[key] for key in ("turn", "step") if key in data}
        cited: list[Seq] = []
        for time_ms, chunk in chunks:
            yield from self._before(time_ms)
            cited.append(Seq(self.next_seq))
            yield self._made(event, chunk_rows.EVENT_TYPE, time_ms, {**place, "chunk": chunk})
        yield from self.rest()
        if attempt:
            self._now.append(cited[-1])
            return
        told = {key: value for key, value in data.items() if key != "stream"}
        yield self._told(event, told, shadowed, None if replaces else tuple(cited))

    def _before(self, time_ms: int) -> Iterator[Recorded]:
        """Those of the events held back that were logged before this time, and what belongs to the last of them."""
        while self._waiting and self._waiting[0].time_ms < time_ms:
            event = self._waiting.popleft()
            yield from self._one(event)
            if self._waiting and _cancels(event, "next-step") and _cancels(self._waiting[0], "next-turn"):
                yield from self._one(self._waiting.popleft())

    def _made(self, event: Recorded, type: str, time_ms: int, data: Json) -> Recorded:
        """What ``event`` says as an event of its own."""
        made = Recorded(event.session, Seq(self.next_seq), time_ms, type, json_text.dumps(data))
        self.next_seq += 1
        return made

    # Events that stay

    def _told(
        self, event: Recorded, data: Any, shadowed: tuple[int, ...], cited: tuple[Seq, ...] | None = None
    ) -> Recorded:
        """``event`` with this data at its new seq, whatever it cites following; ``cited`` are new sources."""
        data = renumbered(event.type, data, self._now_of)
        placed = event.type not in LATER_TYPES
        told = Recorded(
            event.session,
            Seq(self.next_seq),
            event.time_ms,
            event.type,
            event.raw if data is event.json else json_text.dumps(data),
            self._operation(event.surface_op, shadowed) if placed else None,
            (self._sources(event) if cited is None else cited) if placed else None,
            event.ignorable or event.type in _MARKED,
        )
        self._now.append(self.next_seq)
        self.next_seq += 1
        return told

    def _data(self, event: Recorded) -> Any:
        data = event.json
        if not isinstance(data, dict):
            return data
        if event.type == "request/header":
            return self._prompt.into(data)
        change = _DATA.get(event.type)
        return data if change is None else change(data)

    def _operation(self, op: SurfaceOp | None, shadowed: tuple[int, ...]) -> SurfaceOp | None:
        if not isinstance(op, Replace):
            return op
        if not shadowed:  # it breaks a rule of the surface, and takes the place of nothing
            return Replace(*(Seq(self._now_of(seq) or 0) for seq in op))
        there = [self._now_of(seq) for seq in shadowed if seq not in self._off_surface]
        kept = [Seq(seq) for seq in there if seq is not None]
        return Replace(kept[0], kept[-1]) if kept else "append"

    def _sources(self, event: Recorded) -> tuple[Seq, ...] | None:
        if event.source_seqs is None:
            return None
        moved = (self._now_of(seq) for seq in event.source_seqs)
        there = tuple(dict.fromkeys(Seq(seq) for seq in moved if seq is not None))
        return there if there or event.type == "assistant/message" else None

    def _now_of(self, seq: int) -> int | None:
        """The new seq of an event; None for one that is gone, or that has not come yet."""
        now = self._now[seq] if seq < len(self._now) else _GONE
        return None if now == _GONE else now


def _stands_still(event: Recorded) -> bool:
    """Whether nothing of a stream that ends behind ``event`` can have come before it."""
    return event.type in surfaces.TYPES or event.type in _STANDING or event.type in _STEP_OPENS


def _cancels(event: Recorded, target: str) -> bool:
    """Whether ``event`` just takes messages out of this list: both lists are emptied by two events in a row."""
    data = members.of(event)
    return (
        event.type == "agent/inbox/spliced"
        and (data.get("target"), data.get("outcome")) == (target, "canceled")
        and data.get("inserted") == []
    )


def _chunks(data: Json) -> list[_Chunk] | None:
    """The chunks of an embedded stream with their times; None where there is none, or one that makes no sense."""
    stream = data.get("stream")
    if not isinstance(stream, list):
        return None
    chunks: list[_Chunk] = []
    for entry in stream:
        if not isinstance(entry, dict):
            return None
        if entry.get("type") == "chunk":
            time_ms, chunk = entry.get("time"), entry.get("chunk")
            if entry.keys() != {"type", "time", "chunk"} or not is_safe_integer(time_ms):
                return None
            if not isinstance(chunk, dict):
                return None
            chunks.append(_Chunk(int(time_ms), chunk))
            continue
        rest = {key: value for key, value in entry.items() if key not in ("type", "time0")}
        row = {"type": entry.get("type"), "seq0": 0, "time0": entry.get("time0")}
        if row["type"] not in chunk_rows.TAGS or not rest.keys().isdisjoint(("turn", "step")):
            return None
        try:
            packed = chunk_rows.unpack(row | {"data": {"turn": 1, "step": 1, **rest}})
        except chunk_rows.MalformedRow:
            return None
        chunks += (_Chunk(event["time"], event["data"]["chunk"]) for event in packed)
    return chunks


def _unmarked(data: Json) -> Json:
    """The data of a ``session/end-seed`` without the word of who inherited: the header says it."""
    return {key: value for key, value in data.items() if key != "inherited"} if "inherited" in data else data


def _sourced(message: Json) -> Json:
    """The message with the plugin that its kind stands for; the same object where it stands for none."""
    source = message.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(kind, str):
        return message
    plugin = kind.removeprefix("plugin:") if kind.startswith("plugin:") else _PLUGINS.get(kind)
    if plugin is None:
        return message
    rest = {key: value for key, value in source.items() if key != "kind"}
    return message | {"source": {"kind": "plugin", "plugin": plugin, **rest}}


def _splice(data: Json) -> Json:
    inserted = data.get("inserted")
    if not isinstance(inserted, list):
        return data
    told = [_sourced(message) if isinstance(message, dict) else message for message in inserted]
    same = all(one is other for one, other in zip(told, inserted, strict=True))
    return data if same else data | {"inserted": told}


_DATA: dict[str, Callable[[Json], Json]] = {
    "agent/inbox/spliced": _splice,
    "user/message": _sourced,
    END_SEED: _unmarked,
}
