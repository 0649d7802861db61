"""The stream of a model call as it is compared: what came, without the times and, unless asked for, the cuts.

As blocks, a stream is an object::

    blocks       what the chunks add up to, tool calls that the end of the stream made void among them
    finish       the reason of the finish chunk; absent where none came
    usage        of the last usage chunk
    replayState  of the finish chunk
    problems     what is no chunk, as text, with the ``entries`` it came from

``blocks``, ``usage`` and ``replayState`` are left out where the message of the call says the same. As chunks it is
``{chunks}``, one object per chunk, and ``problems``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from playhead.eventstore import members
from playhead.eventstore.assembler import BlockAssembler, OpenUnknownBlock
from playhead.eventstore.chunks import Chunk, ChunkError, FinishChunk, UsageChunk, decode_chunk
from playhead.eventstore.recorded import Recorded
from playhead.replay.stream import StreamProblem, embedded_chunks

_TIMES = frozenset({"time", "time0", "dt"})


class ComparedStream:
    """What has come of one stream. ``seqs`` are its chunk events; none where the stream lies inside an event."""

    def __init__(self, *, as_chunks: bool) -> None:
        self.seqs: list[int] = []
        self.finished = False
        self._as_chunks = as_chunks
        self._chunks: list[Any] = []
        self._assembler = BlockAssembler()
        self._said: dict[str, Any] = {}
        self._problems: list[str] = []
        self._entries: list[Any] = []

    @classmethod
    def embedded(cls, event: Recorded, *, as_chunks: bool) -> ComparedStream:
        """The stream inside ``event``."""
        stream = cls(as_chunks=as_chunks)
        for piece in embedded_chunks(event):
            if isinstance(piece, StreamProblem):
                stream._problems.append(piece.message)
            else:
                stream._push(piece.chunk)
        if stream._problems:
            stream._entries = _without_times(members.of(event).get("stream"))
        return stream

    def add(self, event: Recorded) -> None:
        """Take the next event of type ``assistant/chunk``."""
        self.seqs.append(event.seq)
        chunk = members.of(event).get("chunk")
        try:
            self._push(decode_chunk(chunk))
        except ChunkError as error:
            self._problems.append(str(error))
            self._entries.append(chunk)

    def _push(self, chunk: Chunk) -> None:
        if self._as_chunks:
            self.finished = self.finished or isinstance(chunk, FinishChunk)
            self._chunks.append(chunk.to_json())
            return
        match chunk:
            case FinishChunk():
                self.finished = True
                self._said["finish"] = chunk.reason.to_json()
                self._said["replayState"] = chunk.replay_state
            case UsageChunk():
                self._said["usage"] = chunk.usage.to_json()
            case _:
                self._assembler.push(chunk)

    def told(self, message: dict[str, Any] | None = None) -> dict[str, Any]:
        """The stream as an object; ``message`` is the data of the ``assistant/message`` that came of it, if one did."""
        told: dict[str, Any]
        if self._as_chunks:
            told = {"chunks": self._chunks}
        else:
            told = {
                "blocks": self._blocks(),
                **{key: value for key, value in self._said.items() if value is not None},
            }
            if message is not None:
                told = {key: value for key, value in told.items() if value != _repeated(message, key)}
        if self._problems:
            told |= {"problems": self._problems, "entries": self._entries}
        return told

    def _blocks(self) -> Any:
        try:
            return [block.to_json() for block in self._assembler.blocks()]
        except OpenUnknownBlock as error:
            self._problems.append(str(error))
            return [block.to_json() for block in self._assembler.interrupted_blocks()]


def _repeated(message: dict[str, Any], key: str) -> Any:
    """What a message says once more of its stream."""
    inner = members.inner(message, "message")
    match key:
        case "blocks":
            return inner.get("content")
        case "replayState":
            return members.inner(inner, "source").get("replayState")
        case "usage":
            return message.get("usage")
    return None


def _without_times(stream: Any) -> list[Any]:
    entries: Iterable[Any] = stream if isinstance(stream, list) else ()
    return [
        {key: value for key, value in entry.items() if key not in _TIMES}
        if isinstance(entry, dict)
        else entry
        for entry in entries
    ]
