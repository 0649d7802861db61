"""A recorded session as a model: a ``ChunkSource`` that answers with its calls, without a server or a network.

What it answers is a script (``replay/script.py``): derived from a log, written by hand, or changed by an override. Each
call takes the next entry at once, whatever it asks. An entry that throws fails after its chunks, one that hangs begins
to answer and then waits until it is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.failures import Failure
from playhead.projections.folding import Foldable
from playhead.replay.script import PARTIAL, Chunks, Entry, Hang, Throw, derive

EXHAUSTED = "SCRIPT_EXHAUSTED"
"""The code of the failure when more calls are made than the script has."""


class ReplaySource:
    """Answers with ``entries``, one a call. ``requests`` are those that came."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = list(entries)
        self.requests: list[ModelRequest] = []

    @classmethod
    def of(cls, session: Foldable) -> ReplaySource:
        """Answers with what ``session`` was answered. Raises ``ScriptError`` for a call that has no end in its log."""
        return cls(derive(session))

    @property
    def left(self) -> int:
        """How many entries nobody has asked for yet."""
        return max(0, len(self._entries) - len(self.requests))

    async def stream(self, request: ModelRequest, token: CancelToken) -> AsyncIterator[Chunk]:
        """See ``ChunkSource.stream``. A recorded failure comes as its recorded ``finish``."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self._entries):
            message = f"call {number + 1} of a script that has {len(self._entries)}"
            raise AdapterError(Failure(message=message, code=EXHAUSTED))
        entry = self._entries[number]
        for chunk in PARTIAL if isinstance(entry, Hang) else entry.chunks:
            token.check()
            yield chunk
        match entry:
            case Throw(message=message, code=code):
                raise AdapterError(Failure(message=message, code=code))
            case Hang(ready_file=name):
                if name is not None:
                    Path(name).touch()
                await token.wait()
                token.check()
            case Chunks():
                return
