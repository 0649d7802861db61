"""Answers of providers in tests: bytes in, chunks out, and the other way."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from playhead.adapters.providers.dialect import ProviderDialect, WireEvent
from playhead.adapters.providers.sse import EventReader, encode_event
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.chunks import BlockStart, Chunk, FinishChunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError, is_failure
from playhead.eventstore.stream_grammar import StreamGrammar

_BROKEN = ("TRANSPORT", "STREAM_CLOSED")


def received(dialect: ProviderDialect, pieces: Iterable[bytes]) -> tuple[list[Chunk], Failure | None]:
    """The chunks that an answer in ``pieces`` gives, and the failure raised after them."""
    reader, decoder = EventReader(), dialect.decoder()
    chunks: list[Chunk] = []
    try:
        for piece in pieces:
            for event in reader.push(piece):
                chunks.extend(decoder.push(event))
        chunks.extend(decoder.end())
    except AdapterError as error:
        return chunks, error.failure
    return chunks, None


def logged(dialect: ProviderDialect, body: bytes) -> list[Chunk]:
    """The chunks of an answer as a log has them: a failure is the last one."""
    chunks, failure = received(dialect, [body])
    return chunks if failure is None else [*chunks, FinishChunk(FinishError(failure=failure))]


def cut(body: bytes, places: Sequence[int]) -> Iterator[bytes]:
    """``body`` in pieces that end at ``places``."""
    ends = [0, *sorted(min(place, len(body)) for place in places), len(body)]
    return (body[a:b] for a, b in pairwise(ends))


def bytewise(body: bytes) -> Iterator[bytes]:
    """``body`` one byte at a time."""
    return cut(body, range(1, len(body)))


def sent(events: Iterable[tuple[int, WireEvent]]) -> bytes:
    """What encoded events are on the wire."""
    return b"".join(encode_event(event) for _, event in events)


def check_grammar(chunks: Iterable[Chunk], failure: Failure | None) -> None:
    """Raises ``StreamGrammarError`` for chunks that no source may emit. A failure is an end of them."""
    grammar = StreamGrammar()
    for chunk in chunks:
        grammar.push(chunk)
    if failure is None:
        grammar.finish()


def check_vector(dialect: ProviderDialect, case: dict[str, Any]) -> None:
    """The answer of a vector gives what is expected, and is sound, whole, byte by byte and in any pieces."""
    body = case["sse"].encode()
    places = random.Random(case["name"]).sample(range(len(body)), min(9, len(body)))
    for pieces in ([body], bytewise(body), cut(body, places)):
        chunks, failure = received(dialect, pieces)
        assert _as_vectors_have_it(chunks, failure) == case["expect"]
        check_grammar(chunks, failure)


def _as_vectors_have_it(chunks: list[Chunk], failure: Failure | None) -> dict[str, Any]:
    """Chunks and failure in the form of the vectors, which leave the texts of failures open."""
    found = [json.loads(json.dumps(chunk.to_json())) for chunk in chunks]
    for chunk in found:
        told = chunk.get("reason", {}).get("failure")
        if told:
            assert told["message"]
            told["message"] = "*"
    return {"chunks": found} | ({"error": {"code": failure.code}} if failure else {})


def succeeded(chunks: Sequence[Chunk]) -> bool:
    """Whether the answer ended well."""
    last = chunks[-1] if chunks else None
    return isinstance(last, FinishChunk) and not is_failure(last.reason)


def assert_came_back(came: list[Chunk], recorded: list[Chunk]) -> None:
    """What was decoded is what was recorded, but for what no stream tells.

    That is a failure that a status or the connection told, and a stream that was cut right behind a ``block-start``.
    """
    if recorded and not isinstance(recorded[-1], FinishChunk):
        came = came[:-1]  # the client went away: no failure is recorded
        if [type(chunk) for chunk in recorded] == [BlockStart]:
            recorded = []  # has no spelling: a fragment starts a block
    assert _without_outside_failure(came) == _without_outside_failure(recorded)


def _without_outside_failure(chunks: list[Chunk]) -> list[Chunk]:
    last = chunks[-1] if chunks else None
    reason = last.reason if isinstance(last, FinishChunk) else None
    is_outside = isinstance(reason, FinishError) and (reason.failure.status or reason.failure.code in _BROKEN)
    return chunks[:-1] if is_outside else chunks
