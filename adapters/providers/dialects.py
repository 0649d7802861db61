"""The dialects that Playhead speaks, by name, by the path of a request, and by what a log tells of a call.

A log names no dialect, and yet a recorded answer is the same again only in the one in which it came. What tells it, the
first that applies:

1. the finish has replay state of a kind that is the name of a dialect;
2. the provider is the name of a dialect, as in sessions that Playhead records;
3. the answer finished without such state: it came by chat completions;
4. a failure begins as one dialect words its failures;
5. a process died in mid-answer, and the log has format 4: the answer was migrated, for what writes that format keeps
   nothing of one before its end. It came by chat completions;
6. the nearest whole answer before the call, else behind it;
7. a tool call leaves out a name that it had, a block begins after another ended, or the usage has cache writes: these
   are of Messages. So is a call in a log of format 4 that has no whole answer: dsh 0.2.1 made it. Any other came by
   chat completions, the only way of dsh before.

Chat completions come in profiles, which a log tells in part. A sum of tokens was recorded from dsh 0.1.2 on; dsh 0.1.0
gave up after two retries, and sent thinking back only beside tool calls. A usage without a sum is of 0.1.1 otherwise.
Source: docs/providers.md, "Dialects".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from playhead.adapters.providers.chat import (
    DEEPSEEK_CHAT,
    DEEPSEEK_CHAT_0_1_0,
    DEEPSEEK_CHAT_0_1_1,
    OPENAI_CHAT,
)
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES, MessagesDialect
from playhead.eventstore import members
from playhead.eventstore.chunks import BlockEnd, BlockStart, Chunk, FinishChunk, ToolCallDelta, UsageChunk
from playhead.eventstore.errors import UsageError
from playhead.eventstore.registry import event_types
from playhead.projections.folding import Foldable
from playhead.replay.attempt import Attempt

DIALECTS: Mapping[str, ProviderDialect] = {
    known.name: known
    for known in (
        OPENAI_CHAT,
        DEEPSEEK_CHAT,
        DEEPSEEK_CHAT_0_1_1,
        DEEPSEEK_CHAT_0_1_0,
        ANTHROPIC_MESSAGES,
        DEEPSEEK_MESSAGES,
    )
}
"""Every dialect by its name. Of those at one path, the first is for clients of which nothing is known."""

_MESSAGES: Sequence[MessagesDialect] = (ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES)
_FIRST_MESSAGES_FORMAT = 4
_RETRIES_OF_0_1_0 = 2


def dialect(name: str) -> ProviderDialect:
    """The dialect of this name. Raises ``UsageError`` that lists the names."""
    found = DIALECTS.get(name)
    if found is None:
        raise UsageError(f"no dialect is named {name!r}; there are {', '.join(DIALECTS)}")
    return found


def dialect_at(path: str, recorded: ProviderDialect | None = None) -> ProviderDialect | None:
    """The dialect in which a request to ``path`` is answered: ``recorded`` where it is one of that path.

    A prefix such as ``/v1`` or ``/anthropic`` makes no difference. None for a path that no dialect answers.
    """
    there = [known for known in DIALECTS.values() if path.rstrip("/").endswith(known.path)]
    if recorded is not None and any(recorded.path == known.path for known in there):
        return recorded
    return there[0] if there else None


def recorded_in(attempt: Attempt) -> ProviderDialect:
    """The dialect, with the profile, in which ``attempt`` was recorded. For many of one session, see ``Recordings``."""
    return Recordings(attempt.session).dialect_of(attempt)


class Recordings:
    """Tells of the calls of one session in which dialect they were recorded. The log is read once, when needed."""

    def __init__(self, session: Foldable) -> None:
        self._session = session
        self._landmarks: _Landmarks | None = None

    def dialect_of(self, attempt: Attempt) -> ProviderDialect:
        """The dialect, with the profile, in which ``attempt``, a call of the session, was recorded."""
        chunks = [timed.chunk for timed in attempt.chunks()]
        stated = _stated(chunks) or DIALECTS.get(attempt.provider or "")
        if stated is not None:
            return stated
        messages = self._by_messages(attempt, chunks)
        return messages or self._chat_profile(attempt, chunks)

    def _by_messages(self, attempt: Attempt, chunks: Sequence[Chunk]) -> MessagesDialect | None:
        """The Messages dialect of a call that states none; None where it came by chat completions."""
        if attempt.outcome == "finished" and not attempt.is_summary:
            return None
        message = (attempt.failure.message if attempt.failure else None) or ""
        worded = next((known for known in _MESSAGES if message.startswith(known.profile.label)), None)
        if worded is not None:
            return worded
        is_newest = self._session.header.version >= _FIRST_MESSAGES_FORMAT
        if is_newest and attempt.outcome in ("crashed", "open"):
            return None
        answers = self._known.answers
        near = answers[max(bisect_left(answers, attempt.seq, key=_seq) - 1, 0)][1] if answers else None
        is_native = is_newest and not answers
        return near or (DEEPSEEK_MESSAGES if is_native or _shaped_as_messages(chunks) else None)

    def _chat_profile(self, attempt: Attempt, chunks: Sequence[Chunk]) -> ProviderDialect:
        usage = next((chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)), None)
        if usage is not None and usage.total_tokens is not None:
            return DEEPSEEK_CHAT
        if (attempt.provider or "").startswith("openai"):
            return OPENAI_CHAT
        if self._known.most_retries == _RETRIES_OF_0_1_0:
            return DEEPSEEK_CHAT_0_1_0
        return DEEPSEEK_CHAT if usage is None else DEEPSEEK_CHAT_0_1_1

    @property
    def _known(self) -> _Landmarks:
        if self._landmarks is None:
            self._landmarks = _Landmarks.of(self._session)
        return self._landmarks


@dataclass(frozen=True, slots=True)
class _Landmarks:
    """What the log says outside of a call: where whole answers are and what dialect they state, and the retries.

    ``answers`` are (seq, dialect) in order, None for chat completions.
    """

    answers: tuple[tuple[int, MessagesDialect | None], ...]
    most_retries: int | None

    @classmethod
    def of(cls, session: Foldable) -> _Landmarks:
        answers: list[tuple[int, MessagesDialect | None]] = []
        most: int | None = None
        passed_over = frozenset(event_types) - {"assistant/message", "llm/retry"}
        for event in session.events(deltas=False, without=passed_over):
            data = members.of(event)
            if event.type == "llm/retry":
                most = data.get("maxRetries", most)
            elif event.type == "assistant/message" and data.get("interrupted") is not True:
                source = members.inner(members.inner(data, "message"), "source")
                answers.append((event.seq, _named(source.get("replayState"))))
        return cls(tuple(answers), most)


def _seq(answer: tuple[int, MessagesDialect | None]) -> int:
    return answer[0]


def _stated(chunks: Sequence[Chunk]) -> MessagesDialect | None:
    finish = chunks[-1] if chunks else None
    return _named(finish.replay_state) if isinstance(finish, FinishChunk) else None


def _named(replay_state: object) -> MessagesDialect | None:
    """The dialect that a replay state is of."""
    response = members.inner(replay_state, "response") if isinstance(replay_state, dict) else {}
    return next((known for known in _MESSAGES if known.name == response.get("kind")), None)


def _shaped_as_messages(chunks: Sequence[Chunk]) -> bool:
    """Whether chat completions could not have given ``chunks``."""
    return any(_signs(chunks))


def _signs(chunks: Sequence[Chunk]) -> Iterator[bool]:
    named: set[int] = set()
    has_ended = False
    for chunk in chunks:
        match chunk:
            case ToolCallDelta(index=index, name=None):
                yield index in named
            case ToolCallDelta(index=index):
                named.add(index)
            case BlockEnd():
                has_ended = True
            case BlockStart():
                yield has_ended
            case UsageChunk(usage=usage):
                yield usage.cache_write_tokens is not None
            case _:
                pass
