"""Whether a log agrees with itself about its model calls: each message is what its chunks give, and where it should be.

Beside what ``reassembly.py`` compares, three rules hold:

- nothing lies in the stream of a call that is no chunk of it (``stream``);
- a message comes from the provider and the model that the latest ``request/header`` names (``route``);
- no two answers have one message id (``message-id``); other messages may be sent twice.

A log is read once, neighbouring deltas joined. That clears the messages which agree with their chunks. About one that
does not, or whose chunks lie oddly in the log, the chunks of its call have the last word, read one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from playhead.eventstore import chunk_rows, members
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections.folding import Foldable
from playhead.replay import stream
from playhead.replay.attempt import Attempt, attempts
from playhead.replay.reassembly import Discrepancy, compare
from playhead.replay.stream import Place, StreamProblem

_ENDS = frozenset({"turn/start", "turn/end", "step/start", "step/end", "llm/retry", "session/end-seed"})
"""The types of events behind which a stream of chunk events does not go on."""


def discrepancies(session: Foldable) -> Iterator[Discrepancy]:
    """All that ``session`` says of its model calls and that cannot be so, by seq."""
    reader = _Reader()
    for event in _events(session):
        reader.see(event)
    yield from _settled(reader, lambda: session)


class Watcher:
    """Looks for the discrepancies of logs that are read anyway: give its ``watch`` to the ``verify`` of a store.

    ``session`` gives the log of an id and a generation, where it has to be read all the same.
    """

    def __init__(self, session: Callable[[str, int], Foldable]) -> None:
        self._session = session
        self._read: dict[tuple[str, int], _Reader] = {}

    def watch(self, id: str, generation: int, events: Iterable[Recorded]) -> Iterator[Recorded]:
        """The ``events`` of one log, all of them, as they are."""
        reader = _Reader()
        for event in events:
            reader.see(event)
            yield event
        reader.end()
        self._read[id, generation] = reader

    def discrepancies(self, id: str, generation: int) -> Iterator[Discrepancy]:
        """Those of one log. One that was not watched to its end is read now."""
        reader = self._read.pop((id, generation), None)
        if reader is None:
            yield from discrepancies(self._session(id, generation))
        else:
            yield from _settled(reader, lambda: self._session(id, generation))


def _settled(reader: _Reader, session: Callable[[], Foldable]) -> Iterator[Discrepancy]:
    """What ``reader`` found in a log, its doubts cleared up."""
    found = list(reader.found)
    if reader.has_doubts:
        found += (
            one for attempt in attempts(session()) if reader.doubts(attempt) for one in of_attempt(attempt)
        )
    yield from sorted(dict.fromkeys(found), key=lambda one: one.seq)


def of_attempt(attempt: Attempt) -> list[Discrepancy]:
    """What does not agree in one call and the message that it became, whose provider and id aside."""
    found = [Discrepancy("stream", problem.message, problem.seq) for problem in attempt.problems()]
    message = attempt.message()
    if message is None:
        return found
    chunks = [piece.chunk for piece in attempt.chunks()]
    if not chunks and message.source_seqs is None and not stream.is_embedded(message):
        return found  # of its stream nothing is recorded
    seqs = None if found or stream.is_embedded(message) else attempt.source_seqs()
    return [*found, *compare(message, chunks, seqs)]


@runtime_checkable
class _JoinsDeltas(Protocol):
    """A session that can join the deltas of a run while it reads them."""

    def joined_events(self) -> Iterator[Recorded]: ...


def _events(session: Foldable) -> Iterator[Recorded]:
    return session.joined_events() if isinstance(session, _JoinsDeltas) else session.events()


class _Reader:
    """Looks at the events of a log in order; ``found`` is what is wrong, as far as it can tell.

    Chunk events are kept up to the message that they became, or the end of the step.
    """

    def __init__(self) -> None:
        self.found: list[Discrepancy] = []
        self._doubted: set[int] = set()
        self._unreadable: list[int] = []
        self._chunks: list[Chunk] = []
        self._from_seq = -1  # of the first of them
        self._places: set[Place] = set()
        self._others: set[int] = set()
        self._route: tuple[str | None, str | None] = (None, None)
        self._answers: set[str] = set()

    def see(self, event: Recorded) -> None:
        """Take the next event."""
        if event.type == chunk_rows.EVENT_TYPE:
            self._chunk(event)
        elif event.type == "assistant/message" and not isinstance(event.surface_op, Replace):
            self._message(event)
            self._begin_stream()
        elif event.type == "assistant/attempt":
            self._embedded(event)
        elif event.type in _ENDS:
            self._begin_stream()
        else:
            if event.type == "request/header":
                self._route = _route(members.inner(members.inner(members.of(event), "header"), "config"))
            self._others.add(event.seq)

    def end(self) -> None:
        """Forget what only matters to events that would follow."""
        self._begin_stream()
        self._answers.clear()

    @property
    def has_doubts(self) -> bool:
        """Whether the chunks of any call have to be looked at one by one."""
        return bool(self._doubted or self._unreadable)

    def doubts(self, attempt: Attempt) -> bool:
        """Whether those of this one have to be."""
        if attempt.call.message_seq in self._doubted:
            return True
        at = bisect_left(self._unreadable, attempt.from_seq)
        return at < len(self._unreadable) and attempt.covers(self._unreadable[at])

    def _begin_stream(self) -> None:
        self._chunks.clear()
        self._places.clear()
        self._others.clear()

    def _chunk(self, event: Recorded) -> None:
        place, piece = stream.placed_chunk(event)
        if isinstance(piece, StreamProblem):
            self._report(piece)
            return
        if self._chunks and isinstance(self._chunks[-1], FinishChunk):
            self._begin_stream()
        if not self._chunks:
            self._from_seq = event.seq
        self._chunks.append(piece.chunk)
        self._places.add(place)

    def _embedded(self, event: Recorded) -> list[Chunk]:
        """The chunks inside ``event``, neighbouring deltas joined."""
        chunks = []
        for piece in stream.embedded_chunks(event, joined=True):
            if isinstance(piece, StreamProblem):
                self._report(piece)
            else:
                chunks.append(piece.chunk)
        return chunks

    def _report(self, problem: StreamProblem) -> None:
        self.found.append(Discrepancy("stream", problem.message, problem.seq))
        self._unreadable.append(problem.seq)

    def _message(self, event: Recorded) -> None:
        if stream.is_embedded(event):
            chunks = self._embedded(event)
        else:
            chunks = self._chunks
            if not self._are_chunks_of(event):
                self._doubted.add(event.seq)
        if any(compare(event, chunks, None)):
            self._doubted.add(event.seq)
        body = members.inner(members.of(event), "message")
        route = _route(members.inner(body, "source"))
        if None not in self._route and route != self._route:
            ours, theirs = (" of ".join(map(str, reversed(pair))) for pair in (route, self._route))
            text = f"the message is from {ours}, the request went to {theirs}"
            self.found.append(Discrepancy("route", text, event.seq, ours, theirs))
        id = members.text(body, "id")
        if id is not None and id in self._answers:
            text = f"another answer has the message id {id}"
            self.found.append(Discrepancy("message-id", text, event.seq, id, None))
        elif id is not None:
            self._answers.add(id)

    def _are_chunks_of(self, event: Recorded) -> bool:
        """Whether ``event`` names the chunks seen, and all that were joined with them, as its own."""
        if not self._chunks:
            return event.source_seqs == ()
        if event.source_seqs is None or self._places != {stream.place_of(members.of(event))}:
            return False
        seqs: Iterable[int] = range(self._from_seq, event.seq)
        if self._others:
            seqs = (seq for seq in seqs if seq not in self._others)
        return event.source_seqs == tuple(seqs)


def _route(named: dict[str, Any]) -> tuple[str | None, str | None]:
    """Provider and model that a source or a configuration names."""
    return members.text(named, "provider"), members.text(named, "model")
