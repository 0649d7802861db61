"""Scripts: what a model is to answer, call by call, in place of a model.

A script is a list of entries, one for each model call:

    {kind: "chunks", chunks}                  streams the chunks
    {kind: "throw", chunks, message, code}    streams the chunks, then fails
    {kind: "hang", readyFile?}                begins to answer, makes the file, and says no more

``derive`` makes one of a recorded session, ``override.py`` lets a user change it, ``placeholders.py`` fills in what
only the request knows, ``claims.py`` gives each live session the script that is its own.
Source: docs/replaying-in-tests.md, "Scripts".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from playhead.eventstore import chunk_rows, members
from playhead.eventstore.chunks import BlockStart, Chunk, FinishChunk, TextDelta
from playhead.eventstore.errors import UsageError
from playhead.projections.folding import Foldable
from playhead.projections.inherited import inherited_part
from playhead.replay import stream
from playhead.replay.stream import Piece, StreamProblem

PARTIAL: tuple[Chunk, ...] = (BlockStart(0, "text"), TextDelta(0, "partial"))
"""What a call that hangs has said by then."""


class ScriptError(UsageError):
    """A session, or a document, of which no script can be made; ``code`` says why."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Chunks:
    """Streams ``chunks``."""

    kind: ClassVar[str] = "chunks"
    chunks: tuple[Chunk, ...]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "chunks": [chunk.to_json() for chunk in self.chunks]}


@dataclass(frozen=True, slots=True)
class Throw:
    """Streams ``chunks``, then fails with ``code``."""

    kind: ClassVar[str] = "throw"
    chunks: tuple[Chunk, ...]
    message: str
    code: str

    def to_json(self) -> dict[str, Any]:
        chunks = [chunk.to_json() for chunk in self.chunks]
        return {"kind": self.kind, "chunks": chunks, "message": self.message, "code": self.code}


@dataclass(frozen=True, slots=True)
class Hang:
    """Says ``PARTIAL``, then nothing more. ``ready_file`` is made when it has come to that."""

    kind: ClassVar[str] = "hang"
    ready_file: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **({} if self.ready_file is None else {"readyFile": self.ready_file})}


Entry: TypeAlias = Chunks | Throw | Hang


def derive(session: Foldable) -> list[Chunks]:
    """The script of ``session``: one entry for each call that it made itself, summaries among them.

    What the session inherited from its parent is left out. Raises ``ScriptError``: ``unterminated-call`` for a call
    without a ``finish``, which was stopped or crashed and can only be told by an override;
    ``marked-summary-without-output``; ``malformed-chunk``.
    """
    return list(_entries(session))


def _entries(session: Foldable) -> Iterator[Chunks]:
    opened: list[Chunk] = []
    place: stream.Place = (None, None)
    others = stream.not_in_streams() - {"compaction/summary"}
    for event in session.events(inherited_part(session).to_seq, without=others):
        if event.type == chunk_rows.EVENT_TYPE:
            here, piece = stream.placed_chunk(event)
            if opened and here != place:
                raise _unterminated(place)
            place = here
            opened.append(_sound(piece))
            if isinstance(opened[-1], FinishChunk):
                yield Chunks(tuple(opened))
                opened = []
        elif event.type == "compaction/summary":
            if opened:
                raise _unterminated(place)
            if members.of(event).get("llmStreamCall") is True:
                yield Chunks(tuple(_summary(event.seq, stream.summary_chunks(event))))
        elif stream.is_embedded(event):
            whole = tuple(map(_sound, stream.embedded_chunks(event)))
            if not whole or not isinstance(whole[-1], FinishChunk):
                raise _unterminated(stream.place_of(members.of(event)))
            yield Chunks(whole)
    if opened:
        raise _unterminated(place)


def _sound(piece: Piece) -> Chunk:
    if isinstance(piece, StreamProblem):
        raise ScriptError("malformed-chunk", f"seq {piece.seq}: {piece.message}")
    return piece.chunk


def _summary(seq: int, pieces: Iterator[Piece]) -> Iterator[Chunk]:
    for piece in pieces:
        if isinstance(piece, StreamProblem):
            raise ScriptError("marked-summary-without-output", f"seq {seq}: {piece.message}")
        yield piece.chunk


def _unterminated(place: stream.Place) -> ScriptError:
    turn, step = ("?" if number is None else number for number in place)
    return ScriptError(
        "unterminated-call",
        f"the model call of turn {turn}, step {step} has no end in the log: it was stopped, or crashed; "
        "give an override that says how it is to go",
    )
