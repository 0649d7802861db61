"""Whether the message of a model call is what its chunks give.

A message that an answer became follows from its stream, to the letter: content and replay state are what
``BlockAssembler`` makes of the chunks, its usage is that of the last usage chunk. One with ``interrupted`` was kept
when somebody stopped the call: it has the text and the reasoning so far, no replay state, and its stream no finish. Of
a stream that ended in a failure there is no message. Where chunks are events, ``sourceEventSeqs`` are those events, all
of them and no others. Source: docs/formats.md, "Streams and messages".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from playhead.eventstore import members
from playhead.eventstore.assembler import BlockAssembler, OpenUnknownBlock
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import FAILED_FINISHES
from playhead.projections.same_json import digest
from playhead.replay.excerpts import difference, spelled


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Two things a log says of one call that cannot both be so.

    ``seq`` is the event that the rest of the log speaks against. ``recorded`` and ``derived`` are excerpts of what it
    says and of what follows from the rest, cut to where they part. ``kind`` is one of:

    ==================== ==================================================================
    ``content``          the blocks of a message
    ``replay-state``     what the adapter keeps to send a message back
    ``usage``            the tokens of a message
    ``finish``           a message of a stream that failed, or interrupted one that finished
    ``sources``          the events that a message names as its chunks
    ``stream``           an event or entry in a stream that is no chunk of it
    ``route``            provider and model of a message, and of the request
    ``message-id``       the id of a message, which another message has
    ==================== ==================================================================
    """

    kind: str
    message: str
    seq: int
    recorded: str | None = None
    derived: str | None = None


def compare(message: Recorded, chunks: Iterable[Chunk], seqs: Sequence[int] | None) -> Iterator[Discrepancy]:
    """What in ``message``, an ``assistant/message``, does not follow from its ``chunks``.

    ``seqs`` are the events that the chunks are; None where they lie inside the message.
    """
    data = members.of(message)
    body = members.inner(data, "message")
    assembler = BlockAssembler(chunks)
    interrupted = data.get("interrupted") is True
    finish = assembler.finish.to_json()
    if interrupted and assembler.finished:
        yield _differing("finish", message, "interrupted", finish)
    elif finish.get("kind") in FAILED_FINISHES:
        yield _differing("finish", message, "a whole answer", finish)
    yield from _content(message, body.get("content"), assembler, interrupted)
    usage = None if assembler.usage is None else assembler.usage.to_json()
    if not _same(data.get("usage"), usage):
        yield _differing("usage", message, data.get("usage"), usage)
    cited = message.source_seqs
    if seqs is not None and cited is not None and tuple(cited) != tuple(seqs):
        yield _differing("sources", message, list(cited), list(seqs))


def _content(
    message: Recorded, content: Any, assembler: BlockAssembler, interrupted: bool
) -> Iterator[Discrepancy]:
    """What differs in the blocks and the replay state."""
    try:
        blocks = assembler.interrupted_blocks() if interrupted else assembler.blocks()
        replay_state = None if interrupted else assembler.replay_state
    except OpenUnknownBlock as error:
        yield Discrepancy("content", str(error), message.seq)
        return
    derived = [block.to_json() for block in blocks]
    if not _same(content, derived):
        yield _differing("content", message, *_first_differing(content, derived))
    source = members.inner(members.inner(members.of(message), "message"), "source")
    if not _same(source.get("replayState"), replay_state):
        yield _differing("replay-state", message, source.get("replayState"), replay_state)


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, however deeply they are nested."""
    try:
        return bool(one == other)
    except RecursionError:
        return digest(one) == digest(other)


def _first_differing(recorded: Any, derived: list[Any]) -> tuple[Any, Any]:
    """The first blocks that differ, None for one that is missing."""
    if not isinstance(recorded, list):
        return recorded, derived
    pairs = zip_longest(recorded, derived)
    return next(pair for pair in pairs if not _same(*pair))


def _differing(kind: str, message: Recorded, recorded: Any, derived: Any) -> Discrepancy:
    one, other = difference(spelled(recorded), spelled(derived))
    return Discrepancy(kind, f"the message has {one}, its chunks give {other}", message.seq, one, other)
