"""Writes what passes through a proxy into a store, beside the proxy and never in its way.

A thread of its own takes what the proxy saw, in the order in which it saw it: decoding, looking up, writing. The
proxy only puts things into its queue. What fails here fails here alone: the call at hand is lost to the log, which is
said once, and the calls themselves go on.

A conversation has one call at a time in the log. A request that may go on with one whose call is still under way (the
same again: the client may have given up on the first, or have asked several times at once) waits, what is seen of it
with it, and is looked up again when that call is over. Source: docs/recording.md.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from playhead.eventstore.exchange import ExchangeEnd
from playhead.eventstore.log import Clock
from playhead.eventstore.sql.store import SqlStore, now_ms
from playhead.eventstore.sql.writer import Writer
from playhead.web.recorder_call import (
    Asked,
    Call,
    Ended,
    Head,
    Headers,
    Opening,
    Piece,
    Question,
    Rules,
    Seen,
)
from playhead.web.recorder_history import History, is_answer
from playhead.web.recorder_index import Conversation, Conversations
from playhead.web.recorder_rewrites import CutShort, Summary, covers, cut_short, summed_up
from playhead.web.recorder_session import RecordedSession
from playhead.web.recorder_sessions import RecordedSessions

OPEN_SESSIONS = 64
"""So many idle sessions stay open, so that going on with one need not read it again."""


_REASON_CHARACTERS = 300
"""So much is told of an error: some quote what could not be stored."""


def random_id() -> str:
    """An id that nobody else has."""
    return str(uuid.uuid4())


class Tape:
    """What the proxy tells of one call, from any thread; no method waits for anything."""

    def __init__(self, opening: Opening, put: Callable[[Call, Seen], None], clock: Clock) -> None:
        self._call = Call(opening)
        self._keeps_body = opening.may_be_a_model_call
        self._put = put
        self._clock = clock
        self._body = bytearray()

    def now(self) -> int:
        """The time, for ``head`` and ``piece``: they came before they were passed on."""
        return self._clock()

    def request_piece(self, piece: bytes) -> None:
        """A piece of the request's body was passed on."""
        if self._keeps_body:
            self._body += piece

    def asked(self) -> None:
        """The request is complete."""
        self._put(self._call, Asked(bytes(self._body), self._clock()))

    def head(self, status: int, headers: Headers, time_ms: int) -> None:
        """The head of the answer came."""
        self._put(self._call, Head(status, headers, time_ms))

    def piece(self, piece: bytes, time_ms: int) -> None:
        """A piece of the answer came."""
        self._put(self._call, Piece(piece, time_ms))

    def ended(self, end: ExchangeEnd, reason: str = "") -> None:
        """The exchange is over."""
        self._put(self._call, Ended(end, reason, self._clock()))


class Recorder:
    """Records into ``store``. ``tell`` gets one line for each call that is over, and one for the first failure.

    Use it in ``with``, or ``close`` it: that writes what is still to be written. ``failed`` says that something could
    not be recorded.
    """

    def __init__(
        self,
        store: SqlStore,
        rules: Rules,
        tell: Callable[[str], None] = lambda _: None,
        *,
        clock: Clock = now_ms,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.failed = False
        self._clock = clock
        self._rules = rules
        self._tell = tell
        self._queue: SimpleQueue[tuple[Call, Seen] | threading.Event | None] = SimpleQueue()
        self._writer = Writer(store)
        self._sessions = RecordedSessions(store, self._writer, new_id)
        self._index = Conversations()
        self._again: deque[tuple[Call, int]] = deque()
        self._idle: OrderedDict[Conversation, None] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="playhead-recorder", daemon=True)
        self._thread.start()

    def tape(self, method: str, target: str, headers: Headers) -> Tape:
        """For a call that begins now."""
        opening = Opening(method, target, headers, self._clock())
        return Tape(opening, lambda call, seen: self._queue.put((call, seen)), self._clock)

    def settle(self) -> None:
        """Returns once all that was seen so far is written, as far as it can be."""
        settled = threading.Event()
        self._queue.put(settled)
        settled.wait()

    def close(self) -> None:
        """Write what is still to be written, and end. Raises nothing; see ``failed``."""
        self._queue.put(None)
        self._thread.join()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The thread

    def _run(self) -> None:
        self._contained(None, lambda: self._sessions.load(self._index))
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            self._see(*item)
            while self._again:
                self._look_again(self._again.popleft())
            while len(self._idle) > OPEN_SESSIONS:
                self._close(self._idle.popitem(last=False)[0])
        for conversation in self._index.with_summaries():
            self._contained(None, lambda asking=conversation: self._keep_bytes(asking))  # type: ignore[misc]
        self._contained(None, self._writer.close)

    def _see(self, call: Call, seen: Seen) -> None:
        self._contained(call, lambda: self._take(call, seen))

    def _contained(self, call: Call | None, work: Callable[[], None]) -> None:
        """Do ``work``; when it fails, the call is lost to the log, and its conversation is as the log has it."""
        try:
            work()
        except Exception as error:
            if not self.failed:
                reason = str(error).partition("\n")[0][:_REASON_CHARACTERS] or type(error).__name__
                self._tell(f"recording failed, and calls go on without it: {reason}")
            self.failed = True
            if call is not None:
                self._lose(call)

    def _take(self, call: Call, seen: Seen) -> None:
        if call.is_lost:
            return
        if call.waits:
            call.backlog.append(seen)
        elif isinstance(seen, Asked):
            call.ask(seen, self._rules)
            if call.question is not None:
                self._place(call, call.question, seen.time_ms)
        elif isinstance(seen, Ended):
            self._over(call, seen)
        else:
            call.answer(seen)

    def _place(self, call: Call, question: Question, time_ms: int) -> None:
        """Begin ``call`` in the session that it belongs to, or let it wait for that."""
        history, scope = question.history, question.started.group
        for before in self._index.recent(scope):
            if before.summaries:
                self._sum_up(before, question, time_ms)
        if question.is_summary:
            return
        found = self._index.find(history)
        if found is not None and found[0].call is not None:
            found[0].waiting.append((call, time_ms))
            call.waits = True
            return
        changed: Sequence[CutShort] = ()
        if found is not None and not any(map(is_answer, history.behind(found[1]))):
            conversation, added = found[0], history.behind(found[1])
        elif (cut := self._cut_short(scope, history, time_ms)) is not None:
            conversation, added, changed = cut
        else:
            conversation, added = self._sessions.create(self._index, history, question.started, time_ms)
        conversation.call, call.conversation = call, conversation
        self._idle.pop(conversation, None)
        opened = self._open(conversation, time_ms)
        call.begin(opened, added, time_ms, changed)
        self._reindex(conversation, opened)

    def _sum_up(self, conversation: Conversation, question: Question, time_ms: int) -> None:
        """Write down what came of the summaries that were asked for, now that ``question`` shows it."""
        opened = self._open(conversation, time_ms)
        for summary in conversation.summaries:
            done = summed_up(opened.surface, summary, question.history, for_summary=question.is_summary)
            place: dict[str, int | None] = {}
            if done is not None:
                place = opened.sum_up(summary, done, time_ms)
                opened.committed()
            if summary.exchange is not None:
                opened.keep(summary.exchange.placed(**place))
        conversation.summaries.clear()
        self._reindex(conversation, opened)

    def _keep_bytes(self, conversation: Conversation) -> None:
        """Keep the bytes of summaries of which nothing more was seen."""
        opened = self._open(conversation, self._clock())
        for summary in conversation.summaries:
            if summary.exchange is not None:
                opened.keep(summary.exchange)

    def _cut_short(
        self, scope: str | None, history: History, time_ms: int
    ) -> tuple[Conversation, list[dict[str, Any]], list[CutShort]] | None:
        """The conversation that ``history`` goes on with, having cut results short, and what it adds."""
        for conversation in self._index.recent(scope):
            found = cut_short(self._open(conversation, time_ms).surface, history)
            if found is not None and not any(map(is_answer, history.behind(found[0]))):
                return conversation, history.behind(found[0]), found[1]
        return None

    def _remember(self, summary: Summary, scope: str | None) -> None:
        """Keep ``summary`` with the conversation that it is of, until a request shows what came of it."""
        recent = self._index.recent(scope)
        for conversation in recent:
            if covers(self._open(conversation, summary.time_ms).surface, summary):
                conversation.summaries.append(summary)
                return
        for conversation in recent[:1]:
            conversation.summaries.append(summary)

    def _open(self, conversation: Conversation, time_ms: int) -> RecordedSession:
        if conversation.opened is None:
            conversation.opened = self._sessions.open(conversation, time_ms)
            if conversation.call is None:
                self._idle[conversation] = None
        opened: RecordedSession = conversation.opened
        return opened

    def _over(self, call: Call, seen: Ended) -> None:
        how = call.end(seen)
        if seen.reason:
            how = f"{how}: {call.opening.secrets.hidden_text(seen.reason)}"
        conversation = call.conversation
        answered = seen.end.replace("-", " ") if call.status is None else str(call.status)
        if call.summary is not None and call.question is not None:
            self._remember(call.summary, call.question.started.group)
        if conversation is None or conversation.opened is None:
            self._tell(f"{call.opening.method} {call.opening.path}: {answered}, {how}")
            return
        opened = conversation.opened
        self._reindex(conversation, opened)
        chunks = f"{call.chunks} chunk{'' if call.chunks == 1 else 's'}"
        self._tell(f"{conversation.session} turn {opened.last_turn}: {answered}, {chunks}, {how}")
        self._release(conversation)

    def _reindex(self, conversation: Conversation, opened: RecordedSession) -> None:
        self._index.put(conversation, opened.digests)
        for digests, seq in opened.turn_ends:
            self._index.turn_ended(digests, conversation.row, seq)
        opened.turn_ends.clear()

    def _release(self, conversation: Conversation) -> None:
        """The call of ``conversation`` is over: calls that waited for it are to be looked up again."""
        conversation.call = None
        self._again += conversation.waiting
        conversation.waiting.clear()
        if conversation.opened is not None:
            self._idle[conversation] = None

    def _close(self, conversation: Conversation) -> None:
        """Let go of the session of ``conversation``; who goes on with it opens it again."""
        opened, conversation.opened = conversation.opened, None
        if opened is not None:
            self._contained(None, opened.close)

    def _look_again(self, waiting: tuple[Call, int]) -> None:
        call, time_ms = waiting
        call.waits = False
        question = call.question
        if question is not None:
            self._contained(call, lambda: self._place(call, question, time_ms))
        if not call.waits:
            backlog, call.backlog = call.backlog, []
            for seen in backlog:
                self._see(call, seen)

    def _lose(self, call: Call) -> None:
        """Forget ``call``. Its conversation is what the log has of it."""
        call.is_lost = True
        conversation = call.conversation
        if conversation is not None and conversation.call is call:
            self._close(conversation)
            self._contained(None, lambda: self._sessions.look_up(self._index, conversation))
            self._release(conversation)
