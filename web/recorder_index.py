"""Which recorded conversation a request goes on with: looked up by the links of its history, the longest first.

Where several conversations are the same so far, one that waits for a request goes before one that has a call under
way, and a later one before an earlier. A client that leaves the half of an answer that it cancelled out of its history
goes on with the conversation all the same: it stands in the index with and without such halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from playhead.eventstore import members
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import surface as surfaces
from playhead.web.recorder_history import Chain, History, Link, parts_of

_RECENT = 4
"""So many conversations of one client are looked at when it may have changed the history of one."""


class Fork(NamedTuple):
    """A place to branch off at: the end of a turn of session ``row``, at ``link`` of a request."""

    row: int
    seq: int
    link: Link


@dataclass(eq=False, slots=True)
class Conversation:
    """A recorded conversation. ``row`` is the number of its session in the store, for ids may have several logs.

    ``call`` is what it is busy with, ``waiting`` are calls that may go on with it, ``opened`` is its
    session while that is open. ``summaries`` were asked for, and nothing shows yet what came of them.
    """

    session: str
    row: int
    scope: str | None
    digests: tuple[bytes, ...] = ()
    call: Any = None
    waiting: list[Any] = field(default_factory=list)
    opened: Any = None
    summaries: list[Any] = field(default_factory=list)


class Conversations:
    """The index."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, list[Conversation]] = {}
        self._turn_ends: dict[bytes, tuple[int, int]] = {}
        self._first: dict[str, str] = {}
        self._recent: dict[str, list[Conversation]] = {}

    def find(self, history: History) -> tuple[Conversation, Link] | None:
        """The conversation that ``history`` goes on with, and how much of it is in there already."""
        for link in reversed(history.links[1:]):
            found = self._by_digest.get(link.digest)
            if found:
                idle = [conversation for conversation in found if conversation.call is None]
                return (idle or found)[-1], link
        return None

    def fork(self, history: History) -> Fork | None:
        """Where ``history`` branches off from what is recorded; None where it shares no turn with anything."""
        for link in reversed(history.links[1:]):
            if link.digest in self._turn_ends:
                return Fork(*self._turn_ends[link.digest], link)
        return None

    def first_of(self, scope: str | None) -> str | None:
        """The first session of the clients that name theirs so."""
        return None if scope is None else self._first.get(scope)

    def recent(self, scope: str | None) -> list[Conversation]:
        """Conversations of the clients that name theirs so, idle ones, those first that changed last."""
        known = [] if scope is None else self._recent.get(scope, [])
        return [conversation for conversation in known if conversation.call is None]

    def with_summaries(self) -> list[Conversation]:
        """Conversations that were to be summed up, and nothing shows what came of it."""
        return [
            conversation
            for known in self._recent.values()
            for conversation in known
            if conversation.summaries
        ]

    def put(self, conversation: Conversation, digests: Iterable[bytes]) -> None:
        """``conversation`` has come to be what ``digests`` stand for, and is no longer what it was."""
        self.drop(conversation)
        conversation.digests = tuple(dict.fromkeys(digests))
        for digest in conversation.digests:
            self._by_digest.setdefault(digest, []).append(conversation)
        if conversation.scope is not None:
            self._first.setdefault(conversation.scope, conversation.session)
            recent = self._recent.setdefault(conversation.scope, [])
            recent[:] = [conversation, *(other for other in recent if other is not conversation)][:_RECENT]

    def drop(self, conversation: Conversation) -> None:
        """``conversation`` is not what it was."""
        for digest in conversation.digests:
            self._by_digest[digest].remove(conversation)
            if not self._by_digest[digest]:
                del self._by_digest[digest]
        conversation.digests = ()

    def turn_ended(self, digests: Iterable[bytes], row: int, seq: int) -> None:
        """A turn of session ``row`` ended at ``seq``; ``digests`` stand for what it had come to."""
        for digest in digests:
            self._turn_ends[digest] = (row, seq)


class Telling:
    """The digests of a session as its facts come, with and without the halves of cancelled answers."""

    def __init__(self, scope: str | None) -> None:
        self._scope = scope
        self._messages: list[tuple[Seq, bool, dict[str, Any]]] = []
        self._chains = (Chain(scope), Chain(scope))

    @property
    def surface(self) -> list[tuple[Seq, dict[str, Any]]]:
        """What the model has seen: messages, each with the seq of its event."""
        return [(seq, message) for seq, _, message in self._messages]

    @property
    def digests(self) -> tuple[bytes, ...]:
        """What the session has come to."""
        return tuple(chain.digest for chain in self._chains)

    def feed(self, facts: Iterable[Recorded]) -> Iterator[int]:
        """Take the next facts; gives the seq of each ``turn/end`` when all before it is taken."""
        for fact in facts:
            if fact.type == "turn/end":
                yield fact.seq
            elif fact.surface_op is not None:
                self._take(fact)

    def _take(self, fact: Recorded) -> None:
        message = surfaces.message_of(fact) or {}
        entry = (fact.seq, members.of(fact).get("interrupted") is True, message)
        if not isinstance(fact.surface_op, Replace):
            self._messages.append(entry)
            self._push(entry)
            return
        seqs = [seq for seq, _, _ in self._messages]
        if fact.surface_op.start in seqs and fact.surface_op.end in seqs:
            first, last = seqs.index(fact.surface_op.start), seqs.index(fact.surface_op.end)
            self._messages[first : last + 1] = [entry]
            self._chains = (Chain(self._scope), Chain(self._scope))
            for kept in self._messages:
                self._push(kept)

    def _push(self, entry: tuple[Seq, bool, dict[str, Any]]) -> None:
        _, is_half, message = entry
        for part in parts_of(message):
            self._chains[0].push(part)
            if not is_half:
                self._chains[1].push(part)
