"""Streams inside events that look as every writer writes them, read in one go.

Nearly all of them do: their entries have the members of their kind and no others. ``stream`` says what entries are,
and reads the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Annotated, Any, TypeAlias

import msgspec

from playhead.eventstore.chunks import Chunk, ReasoningDelta, TextDelta, ToolCallDelta
from playhead.eventstore.ids import SAFE_INTEGER, CallId
from playhead.replay.plain_chunk import PlainChunk, Whole
from playhead.replay.timed_chunk import TimedChunk


def read(entries: list[Any], *, joined: bool) -> list[TimedChunk] | None:
    """The chunks of a stream, the deltas of one entry as one when they are to be ``joined``.

    None for a stream that has to be read otherwise.
    """
    found: list[TimedChunk] = []
    try:
        for entry in msgspec.convert(entries, _Entries):
            found += entry.chunks(joined)
    except (ValueError, RecursionError):
        return None
    return found


class _Single(msgspec.Struct, tag_field="type", tag="chunk"):
    time: Whole
    chunk: PlainChunk

    def chunks(self, _joined: bool) -> list[TimedChunk]:
        return [TimedChunk(self.time, self.chunk.decoded())]


_Texts: TypeAlias = Annotated[list[str], msgspec.Meta(min_length=1)]


class _Run(msgspec.Struct, tag_field="type", forbid_unknown_fields=True):
    time0: Whole
    index: Whole
    dt: list[Whole]

    def deltas(self, texts: list[str], joined: bool, delta: Callable[[str], Chunk]) -> list[TimedChunk]:
        """A delta for each of ``texts``, or for all. Raises ``ValueError`` when their times do not fit them."""
        times = list(accumulate(self.dt, initial=self.time0))
        if len(times) != len(texts) or max(times) > SAFE_INTEGER or min(times) < -SAFE_INTEGER:
            raise ValueError("texts without sound times")
        if joined:
            return [TimedChunk(self.time0, delta("".join(texts)))]
        return list(map(TimedChunk, times, map(delta, texts)))


class _TextRun(_Run, tag="text-chunks"):
    texts: _Texts

    def chunks(self, joined: bool) -> list[TimedChunk]:
        return self.deltas(self.texts, joined, lambda text: TextDelta(self.index, text))


class _ReasoningRun(_Run, tag="reasoning-chunks"):
    texts: _Texts

    def chunks(self, joined: bool) -> list[TimedChunk]:
        return self.deltas(self.texts, joined, lambda text: ReasoningDelta(self.index, text))


class _CallRun(_Run, tag="tool-call-chunks"):
    id: str
    args: _Texts
    name: str | msgspec.UnsetType = msgspec.UNSET

    def chunks(self, joined: bool) -> list[TimedChunk]:
        call, name = CallId(self.id), None if self.name is msgspec.UNSET else self.name
        return self.deltas(self.args, joined, lambda text: ToolCallDelta(self.index, call, name, text))


_Entries: TypeAlias = list[_Single | _TextRun | _ReasoningRun | _CallRun]
