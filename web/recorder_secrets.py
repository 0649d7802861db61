"""The chunks of an answer without the credentials of its request, also where one is spread over several of them.

Some providers repeat a key that they refuse, and a model says what it was told, a few letters at a time. Deltas of one
block are held back for as long as their text ends in what may be the beginning of a secret. Then each goes on with its
own time and its own length, with stars in place of its share; so it does where the block breaks off inside a secret.
Source: docs/recording.md, "Privacy".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import TypeAlias

import msgspec

from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, ReasoningDelta, TextDelta, ToolCallDelta, decode_chunk
from playhead.eventstore.redaction import Secrets
from playhead.replay.timed_chunk import TimedChunk

_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class HiddenChunks:
    """Takes the chunks of one answer, and gives them without ``secrets``.

    ``were_spread`` says that one of these took several chunks, or broke off.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held: list[tuple[int, _Delta]] = []
        self._text = b""
        self.were_spread = False

    def push(self, chunk: Chunk, time_ms: int) -> Iterator[TimedChunk]:
        """The chunks that are safe now that ``chunk`` came."""
        chunk = self._alone(chunk)
        if self._held and not _go_on(self._held[-1][1], chunk):
            yield from self.end()
        if not isinstance(chunk, _Delta):
            yield TimedChunk(time_ms, chunk)
            return
        self._held.append((time_ms, chunk))
        self._text += _text(chunk)
        if not self._secrets.may_go_on(self._text):
            yield from self.end()

    def end(self) -> Iterator[TimedChunk]:
        """What is held back: nothing more comes that goes on with it."""
        held, text = self._held, self._text
        self._held, self._text = [], b""
        hidden = self._secrets.hidden(text, at_end=True)
        if hidden == text:
            yield from (TimedChunk(*delta) for delta in held)
            return
        self.were_spread = True
        cuts = accumulate((len(_text(delta)) for _, delta in held), initial=0)
        for (time_ms, delta), (start, end) in zip(held, pairwise(cuts), strict=True):
            yield TimedChunk(time_ms, _with_text(delta, hidden[start:end]))

    def _alone(self, chunk: Chunk) -> Chunk:
        """``chunk`` without the secrets that stand in it as a whole, or that break off where a text of it ends."""
        said = json_text.dumps(chunk.to_json())
        hidden = self._secrets.hidden(said)
        if not isinstance(chunk, _Delta):
            whole = hidden
            hidden = b'"'.join(self._secrets.hidden(text, at_end=True) for text in whole.split(b'"'))
            self.were_spread |= hidden != whole
        return chunk if hidden == said else decode_chunk(json_text.parse(hidden))


def _go_on(before: _Delta, chunk: Chunk) -> bool:
    """Whether ``chunk`` is more of the text that ``before`` is of."""
    return isinstance(chunk, _Delta) and type(chunk) is type(before) and chunk.index == before.index


def _text(delta: _Delta) -> bytes:
    text = delta.arguments_delta if isinstance(delta, ToolCallDelta) else delta.text
    return text.encode("utf-8", "surrogatepass")


def _with_text(delta: _Delta, data: bytes) -> Chunk:
    text = data.decode("utf-8", "surrogatepass")
    if isinstance(delta, ToolCallDelta):
        return msgspec.structs.replace(delta, arguments_delta=text)
    return msgspec.structs.replace(delta, text=text)
