"""Where recorded conversations are kept, and where a request that goes on with none of them gets its session.

=============================================================  =====================================================
the request begins a conversation                              a new session
it shares whole turns with a recorded one, and everything that a fork of that one behind the last turn that they share
a model said in it (an edited prompt, another try)
it has answers in it that were not recorded here               a session that inherits them: turns made of what the
                                                               request says, in front of its own events
=============================================================  =====================================================

What is inherited is no call of the session. Its parent is the session that the request shares turns with, else the
first of the same client where that names its sessions, else none. A session has the id that the client names where it
is free, or that id with a suffix; others have a random id. Source: docs/recording.md, "Sessions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playhead.eventstore import members
from playhead.eventstore.chunks import BlockEnd, BlockStart, Chunk, FinishChunk
from playhead.eventstore.dialect import Native
from playhead.eventstore.errors import SessionExists
from playhead.eventstore.events.recording import RecordingStarted
from playhead.eventstore.fork import END_SEED
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import FinishStop, FinishToolCalls
from playhead.eventstore.recorded import SurfaceOp
from playhead.eventstore.registry import event_types
from playhead.eventstore.sources import ModelSource
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.store import SqlStore
from playhead.eventstore.sql.writer import Writer
from playhead.projections.surface import TYPES as ON_THE_SURFACE
from playhead.replay.fork import branch
from playhead.web.recorder_history import History, is_answer
from playhead.web.recorder_index import Conversation, Conversations, Telling
from playhead.web.recorder_session import RecordedSession
from playhead.web.recorder_turns import COMPLETED, Turns

STARTED = "recording/started"

_PASSED_OVER = frozenset(event_types) - ON_THE_SURFACE - {"turn/end"}


@dataclass(frozen=True, slots=True)
class RecordedSessions:
    """The recorded sessions of ``store``. ``new_id`` gives random ids."""

    store: SqlStore
    writer: Writer
    new_id: Callable[[], str]

    def load(self, index: Conversations) -> None:
        """Put what was recorded before into ``index``."""
        for info in reversed(self.store.sessions()):
            if info.dialect != Native.name:
                continue
            stored = self.store.session(info.id, generation=info.generation)
            started = [members.of(fact) for fact in stored.read(types=[STARTED])]
            if started:
                conversation = Conversation(stored.id, stored.row_id, members.text(started[-1], "group"))
                self.look_up(index, conversation)

    def look_up(self, index: Conversations, conversation: Conversation) -> None:
        """Put ``conversation`` into ``index`` as its log has it."""
        telling = Telling(conversation.scope)
        stored = self.store.of_row(conversation.row)
        for seq in telling.feed(stored.events(deltas=False, without=_PASSED_OVER)):
            index.turn_ended(telling.digests, conversation.row, seq)
        index.put(conversation, telling.digests)

    def open(self, conversation: Conversation, now_ms: int) -> RecordedSession:
        """The session of ``conversation``, to be written."""
        stored = self.store.of_row(conversation.row)
        return RecordedSession(stored, self.writer, self.new_id, now_ms, conversation.scope)

    def create(
        self,
        index: Conversations,
        history: History,
        started: RecordingStarted,
        now_ms: int,
    ) -> tuple[Conversation, list[dict[str, Any]]]:
        """A session for a request that goes on with nothing; what of its messages is still to be put into it."""
        messages = history.messages
        answers = 1 + max((at for at, message in enumerate(messages) if is_answer(message)), default=-1)
        fork = index.fork(history)
        parent = None if fork is None else self.store.of_row(fork.row)
        if fork is not None and parent is not None and fork.link.upto >= answers:
            queue = self.writer.opened(parent)
            if queue is not None:
                queue.flushed().result()
            with branch(parent, self.new_id(), now_ms, at=fork.seq) as made:
                line = _line(started, made.events, now_ms)
                stored = self._named(
                    started.group,
                    lambda id: self.store.create_from(
                        replace(made.header, id=SessionId(id)), [*made.blocks(), line]
                    ),
                )
            return Conversation(stored.id, stored.row_id, started.group), history.behind(fork.link)
        above = parent.id if parent is not None else index.first_of(started.group)
        seed = _Seed(now_ms)
        added = list(messages)
        if answers:
            added = _tell_again(messages, answers, Turns(seed.append, self.new_id), seed)
        length = len(seed.lines)
        if length:
            seed.append(END_SEED, {})
        lines = [*seed.lines, _line(started, len(seed.lines), now_ms)]

        def header(id: str) -> SessionHeader:
            return SessionHeader(
                SessionId(id),
                now_ms,
                parent=None if above is None else SessionId(above),
                seed_length=length or None,
            )

        stored = self._named(started.group, lambda id: self.store.create_from(header(id), lines))
        return Conversation(stored.id, stored.row_id, started.group), added

    def _named(self, wished: str | None, create: Callable[[str], SqlSession]) -> SqlSession:
        if wished is None:
            return create(self.new_id())
        try:
            return create(wished)
        except SessionExists:
            return create(f"{wished}.{self.new_id()[:8]}")


class _Seed:
    """The lines of what a session inherits."""

    def __init__(self, time_ms: int) -> None:
        self.lines: list[bytes] = []
        self._time_ms = time_ms

    def append(
        self,
        type: str,
        data: Any,
        *,
        surface_op: SurfaceOp | None = None,
        source_seqs: Sequence[int] | None = None,
    ) -> int:
        seq = len(self.lines)
        event = NewEvent(type, data, surface_op=surface_op, source_seqs=source_seqs)
        self.lines.append(event.line(seq, self._time_ms) + b"\n")
        return seq


def _tell_again(
    messages: Sequence[dict[str, Any]], answers: int, turns: Turns, seed: _Seed
) -> list[dict[str, Any]]:
    """Make turns of a history whose last answer ends at ``answers``; the messages behind it that are no results."""
    said: list[dict[str, Any]] = []
    for message in messages[:answers]:
        if is_answer(message):
            if said or turns.turn is None:
                turns.enter(said)
                said = []
            answer = Message.decode({**message, "id": turns.new_id()})
            seqs = [
                seed.append("assistant/chunk", {**turns.place, "chunk": chunk.to_json()})
                for chunk in _chunks(answer)
            ]
            turns.answer(answer, seqs)
        elif message.get("role") != "assistant":
            said.append(message)
    rest = turns.results(messages[answers:])
    turns.end(COMPLETED)
    return rest


def _chunks(answer: Message) -> Iterator[Chunk]:
    """Chunks that give ``answer``: nobody here knows those in which it came."""
    for index, block in enumerate(answer.content):
        yield BlockStart(index, block.tag)
        yield BlockEnd(index, block)
    source = answer.source
    yield FinishChunk(
        FinishToolCalls() if answer.tool_calls else FinishStop(),
        source.replay_state if isinstance(source, ModelSource) else None,
    )


def _line(event: RecordingStarted, seq: int, now_ms: int) -> bytes:
    return NewEvent(STARTED, event, ignorable=True).line(seq, now_ms) + b"\n"
