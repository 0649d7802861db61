"""The chunks of a streamed body: bytes in, chunks out, whatever dialect."""

from __future__ import annotations

from collections.abc import Iterator

from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.sse import EventReader
from playhead.eventstore.chunks import Chunk


class BodyDecoder:
    """Decodes one body in pieces cut anywhere."""

    def __init__(self, dialect: ProviderDialect) -> None:
        self._events = EventReader()
        self._decoder = dialect.decoder()

    @property
    def done(self) -> bool:
        """The terminal event was seen: nothing behind it counts."""
        return self._decoder.done

    def push(self, piece: bytes) -> Iterator[Chunk]:
        """The chunks that ``piece`` completes. Raises ``AdapterError`` for a failure in it, after the chunks before."""
        if self.done:
            return
        for event in self._events.push(piece):
            yield from self._decoder.push(event)
            if self.done:
                return

    def end(self) -> Iterator[Chunk]:
        """What the end of the body gives. Raises ``AdapterError`` when it comes too early."""
        if not self.done:
            yield from self._decoder.end()
