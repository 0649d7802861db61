"""What an endpoint serves: the model calls of recorded sessions, in order, each with all that is known of it.

A call is served that went out over the wire. Left out are calls of an inherited part, which the parent made, and
failures of a client before it sent anything: a missing key, an effort that the model does not have.
Source: docs/replaying-in-tests.md, "What is served".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from playhead.adapters.providers.asked import asked
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import Recordings
from playhead.eventstore import members
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.errors import UsageError
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.log import Session, SessionInfo, Store
from playhead.replay.attempt import Attempt, attempts
from playhead.replay.timed_chunk import TimedChunk

_NEVER_SENT = frozenset(
    {
        "INVALID_CREDENTIAL",
        "INVALID_PREPARED_CALL",
        "MISSING_CREDENTIAL",
        "UNSUPPORTED_OPTION",
        "UNSUPPORTED_REASONING_EFFORT",
    }
)
"""Failures of a client that asked nobody."""

SUBAGENT = "subagent"
"""The origin of a session that another one started to do a part of its work."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a recorded session. ``number`` counts those that are served, from 0."""

    session: Session
    number: int
    attempt: Attempt
    recordings: Recordings = field(repr=False)

    @property
    def place(self) -> str:
        """What people call it."""
        if self.attempt.is_summary:
            return f"the summary at seq {self.attempt.seq}"
        place = f"turn {self.attempt.turn}, step {self.attempt.step}"
        return place if self.attempt.number < 2 else f"{place}, attempt {self.attempt.number}"

    @property
    def dialect(self) -> ProviderDialect:
        """The dialect in which it was recorded."""
        return self.recordings.dialect_of(self.attempt)

    @property
    def model(self) -> str:
        return self.attempt.model or ""

    @property
    def is_synthesised(self) -> bool:
        """Its chunks are made up, because the log has its result alone."""
        return self.attempt.is_summary

    def chunks(self) -> Iterator[TimedChunk]:
        """The chunks that are served."""
        return self.attempt.synthesised_chunks() if self.is_synthesised else self.attempt.chunks()

    def exchange(self) -> Exchange | None:
        """What went over the wire; None where it was not kept, or not whole."""
        call = self.attempt.call
        for exchange in self.session.exchanges(turn=call.turn, step=call.step):
            same_place = exchange.seq is None and exchange.number == call.number
            if exchange.seq == call.seq or (same_place and call.step is not None):
                return exchange if exchange.whole else None
        return None

    def request(self) -> ModelRequest:
        """What the model was asked, as the log tells it. That of a summary lacks the instruction at its end."""
        recorded = self.attempt.request()
        request = asked(recorded, session=self.session.id)
        if not self.attempt.is_summary:
            return request
        covered = self._covered()
        messages = tuple(message for seq, message in recorded.messages if covered is None or seq in covered)
        return ModelRequest(
            request.config, messages, request.system, request.tools, request.session, "compaction"
        )

    def _covered(self) -> frozenset[Any] | None:
        """The seqs of the messages that a summary was made of; None where the log does not say."""
        for event in self.session.events(self.attempt.seq, self.attempt.seq + 1):
            shadowed = members.of(event).get("shadowedSeqs")
            if isinstance(shadowed, list):
                return frozenset(seq for seq in shadowed if isinstance(seq, int))
        return None


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded session and its calls."""

    session: Session
    calls: Sequence[RecordedCall]

    @classmethod
    def of(cls, session: Session) -> Recording:
        """The recording of ``session``. Its log is read once, without the deltas."""
        recordings = Recordings(session)
        served = [attempt for attempt in attempts(session) if _was_sent(attempt)]
        return cls(
            session,
            [RecordedCall(session, number, attempt, recordings) for number, attempt in enumerate(served)],
        )

    @property
    def models(self) -> list[tuple[str, str]]:
        """(model, provider) of its calls, each once, in order."""
        named = ((call.attempt.model, call.attempt.provider or "") for call in self.calls)
        return list(dict.fromkeys((model, provider) for model, provider in named if model))


def with_subagents(named: Iterable[tuple[Store, Session]]) -> list[Session]:
    """The sessions that were ``named``, each with its store, and behind them those that they started, each once.

    Raises ``UsageError`` for two of one id: a live session takes the script of its own id.
    """
    named = list(named)
    ids = [session.id for _, session in named]
    twice = next((id for id in ids if ids.count(id) > 1), None)
    if twice is not None:
        raise UsageError(f"session {twice!r} is named twice")
    found = {session.id: session for _, session in named}
    for store, session in named:
        for info in subagents_of(session.id, store.sessions()):
            found.setdefault(info.id, store.session(info.id))
    return list(found.values())


def subagents_of(parent: str, sessions: Iterable[SessionInfo]) -> list[SessionInfo]:
    """Those of ``sessions`` that ``parent`` started to do a part of its work, and those that they started in turn."""
    by_parent: dict[str, list[SessionInfo]] = {}
    for info in sessions:
        if info.header.origin == SUBAGENT and info.header.parent is not None:
            by_parent.setdefault(info.header.parent, []).append(info)
    found: dict[str, SessionInfo] = {}
    waiting = [parent]
    while waiting:
        for info in by_parent.get(waiting.pop(), []):
            if info.id not in found and info.id != parent:
                found[info.id] = info
                waiting.append(info.id)
    return list(found.values())


def _was_sent(attempt: Attempt) -> bool:
    code = attempt.failure.code if attempt.failure is not None else None
    return not attempt.is_inherited and code not in _NEVER_SENT
