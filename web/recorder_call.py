"""One call that passed through a proxy: what it asks, and what becomes of it in the log.

What the proxy sees comes as ``Asked``, ``Head``, ``Piece`` and ``Ended``, each with its time. A call to the path of a
dialect whose body that dialect can read is a model call; any other only passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from playhead.adapters.providers.chat import DEEPSEEK_CHAT
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import dialect_at
from playhead.adapters.providers.messages import DEEPSEEK_MESSAGES
from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.events.recording import RecordingStarted
from playhead.eventstore.exchange import Exchange, ExchangeEnd, ExchangeRecorder
from playhead.eventstore.reasons import is_failure
from playhead.eventstore.redaction import Secrets, text_without_credentials, unescaped
from playhead.replay.timed_chunk import TimedChunk
from playhead.web.recorder_answer import AnswerReader
from playhead.web.recorder_history import History
from playhead.web.recorder_index import Conversation
from playhead.web.recorder_rewrites import CutShort, Summary
from playhead.web.recorder_session import RecordedSession

Headers: TypeAlias = list[tuple[str, str]]


class Asked(NamedTuple):
    """The request is there, with its whole body."""

    body: bytes
    time_ms: int


class Head(NamedTuple):
    """The answer began."""

    status: int
    headers: Headers
    time_ms: int


class Piece(NamedTuple):
    """A piece of the answer's body came."""

    data: bytes
    time_ms: int


class Ended(NamedTuple):
    """The exchange is over; ``reason`` says why a connection broke."""

    end: ExchangeEnd
    reason: str
    time_ms: int


Seen: TypeAlias = Asked | Head | Piece | Ended


@dataclass(frozen=True, slots=True)
class Opening:
    """The head of a request. ``target`` is its path and query."""

    method: str
    target: str
    headers: Headers
    began_ms: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def secrets(self) -> Secrets:
        """What its head proves to be secret."""
        return Secrets.of_request(self.target, self.headers)

    @property
    def may_be_a_model_call(self) -> bool:
        """Whether its body matters: anything else only passes, however large it is."""
        return self.method == "POST" and dialect_at(self.path) is not None

    def header(self, *names: str) -> str | None:
        """The value of the first of these headers that is there."""
        given = {name.lower(): value for name, value in reversed(self.headers)}
        return next((given[name] for name in names if given.get(name)), None)


class Rules(NamedTuple):
    """What the user of the proxy says: a dialect, where paths do not tell enough, and one group for all calls."""

    upstream: str
    dialect: ProviderDialect | None = None
    group: str | None = None
    keeps_wire: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """A model call as the client asks for it, without the credentials of its request."""

    dialect: ProviderDialect
    request: ModelRequest
    streams: bool
    is_summary: bool
    started: RecordingStarted
    history: History
    secrets: Secrets

    @classmethod
    def of(cls, opening: Opening, body: bytes, rules: Rules) -> Question | None:
        """The model call that a request makes; None where it makes none."""
        dialect = _dialect(opening, rules)
        if not opening.may_be_a_model_call or dialect is None:
            return None
        secrets = opening.secrets
        try:
            asked = parse_payload(secrets.hidden(unescaped(body)))
            request = dialect.read_request(asked) if isinstance(asked, dict) else None
        except (ValueError, AdapterError):
            return None
        if request is None:
            return None
        group = rules.group or _group(opening)
        client = opening.header("user-agent")
        started = RecordingStarted(
            dialect=dialect.name,
            upstream=rules.upstream,
            group=None if group is None else secrets.hidden_text(group),
            client=None if client is None else secrets.hidden_text(text_without_credentials(client)),
        )
        return cls(
            dialect=dialect,
            request=request,
            streams=asked.get("stream") is True,
            is_summary=opening.header("x-playhead-compact", "x-deepseek-harness-compact") is not None,
            started=started,
            history=History.of(request.messages, started.group),
            secrets=secrets,
        )


class Call:
    """One call; ``summary`` is what it gave, if that was what it asked for.

    While it ``waits`` for its conversation, what is seen of it goes to the ``backlog``.
    """

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.question: Question | None = None
        self.conversation: Conversation | None = None
        self.status: int | None = None
        self.chunks = 0
        self.summary: Summary | None = None
        self.waits = False
        self.is_lost = False
        self.backlog: list[Seen] = []
        self._session: RecordedSession | None = None
        self._answer = BlockAssembler()
        self._reader: AnswerReader | None = None
        self._wire: ExchangeRecorder | None = None

    def ask(self, asked: Asked, rules: Rules) -> None:
        """The request is there."""
        question = self.question = Question.of(self.opening, asked.body, rules)
        if question is None:
            return
        self._reader = AnswerReader(question.dialect, streams=question.streams, secrets=question.secrets)
        if rules.keeps_wire:
            opening = self.opening
            self._wire = ExchangeRecorder(
                question.dialect.name, opening.target, opening.headers, asked.body, opening.began_ms
            )

    def begin(
        self,
        session: RecordedSession,
        added: Sequence[dict[str, Any]],
        time_ms: int,
        changed: Sequence[CutShort] = (),
    ) -> None:
        """Write the call into ``session`` from now on; see ``RecordedSession.begin``."""
        assert self.question is not None
        session.begin(self.question.request, added, time_ms, changed)
        self._session = session

    def answer(self, seen: Head | Piece) -> None:
        """The answer goes on."""
        if isinstance(seen, Head):
            self.status = seen.status
        if self._reader is None:
            return
        if isinstance(seen, Head):
            self._reader.head(seen.status, seen.headers)
            if self._wire is not None:
                readable = self._reader.is_readable
                kept = [
                    pair for pair in seen.headers if not readable or pair[0].lower() != "content-encoding"
                ]
                self._wire.head(seen.status, kept, seen.time_ms)
            return
        data = self._reader.decoded(seen.data)
        if self._wire is not None:
            self._wire.piece(data, seen.time_ms)
        for timed in self._reader.push(data, seen.time_ms):
            self._chunk(timed)

    def end(self, seen: Ended) -> str:
        """The call is over and all of it is kept; how it ended, in a word."""
        if self._reader is None:
            return "passed on"
        was_whole = self._reader.finished
        for timed in self._reader.end(seen.end, seen.reason, seen.time_ms):
            self._chunk(timed)
        if self._reader.spread_a_secret:
            self._wire = None
        ended = seen._replace(end="complete") if was_whole and seen.end == "client-gone" else seen
        wire = None if self._wire is None else self._wire.ended(ended.end, ended.time_ms)
        if self._session is None:
            return self._unplaced(wire, ended.time_ms)
        place, how = self._session.end(seen.time_ms)
        self._session.committed()
        if wire is not None:
            self._session.keep(wire.placed(**place))
        return how

    def _unplaced(self, wire: Exchange | None, time_ms: int) -> str:
        """The end of a call that asked for a summary: it has no place in the log until it is known what came of it."""
        assert self.question is not None
        if not self._answer.finished or is_failure(self._answer.finish):
            return "no summary"
        question = self.question
        self.summary = Summary(
            question.history,
            question.request.config,
            self._answer.blocks(),
            self._answer.usage,
            time_ms,
            wire,
        )
        return "summary"

    def _chunk(self, timed: TimedChunk) -> None:
        self.chunks += 1
        if self._session is None:
            self._answer.push(timed.chunk)
        else:
            self._session.chunk(timed.chunk, timed.time_ms)


def _dialect(opening: Opening, rules: Rules) -> ProviderDialect | None:
    """The dialect of a call: as the user says, else as the client gives itself away, else by the path."""
    wished = rules.dialect
    if wished is None and opening.header("x-deepseek-harness-session-id") is not None:
        wished = next(
            (known for known in (DEEPSEEK_MESSAGES, DEEPSEEK_CHAT) if opening.path.endswith(known.path)), None
        )
    return dialect_at(opening.path, wished)


def _group(opening: Opening) -> str | None:
    """The session that the client names. Playhead's own header is in percent notation."""
    ours = opening.header("x-playhead-session-id")
    return opening.header("x-deepseek-harness-session-id") if ours is None else unquote(ours)
