"""A replay as server-sent events: what each model call sent over the wire, one call after the other.

The bytes that were kept of a call are given as they came. Else its chunks are encoded in the dialect in which they were
recorded, or in the one that was asked for. Comments, which readers of events pass over, tell the rest::

    : turn 2 step 1 call 1          which call follows
    : HTTP 429                      an answer that was no stream of events: status, headers and body
    : the connection broke here     how it ended, where neither events nor the end of the body tell
    : nothing more came

Source: docs/cli.md, "playhead replay".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from playhead.adapters.providers.dialects import Recordings
from playhead.cli.replay_bytes import TimedBytes
from playhead.replay.attempt import Attempt, attempts_from
from playhead.replay.turn_calls import first_entry
from playhead.web import answers
from playhead.web.recording import RecordedCall

if TYPE_CHECKING:
    from playhead.adapters.providers.dialect import ProviderDialect
    from playhead.eventstore.exchange import Exchange
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.replay.part import Part

_ENDS: dict[answers.End, str | None] = {
    "complete": None,
    "reset": "the connection broke here",
    "silence": "nothing more came",
}
_LINE_END = re.compile(rb"\r\n|\r|\n")
_EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")


def timed_events(log: SqlSession, part: Part, dialect: ProviderDialect | None) -> Iterator[TimedBytes]:
    """The calls of ``part`` as they went over the wire, in pieces; ``dialect`` is the one that was asked for."""
    recordings = Recordings(log)
    for attempt in attempts_from(part, part.entry or first_entry(part)):
        call = RecordedCall(log, 0, attempt, recordings)
        yield TimedBytes(attempt.call.asked_ms, _comment(_title(call).encode()), idle=True)
        yield from _answered(_answer(call, part, dialect))


def _title(call: RecordedCall) -> str:
    """Which call it is."""
    attempt = call.attempt
    named = [("turn", attempt.turn), ("step", attempt.step)]
    words = [f"{word} {number}" for word, number in named if number is not None]
    what = f"summary at seq {attempt.seq}, made up of its result"
    return " ".join([*words, what if call.is_synthesised else f"call {attempt.number}"])


def _answer(call: RecordedCall, part: Part, dialect: ProviderDialect | None) -> answers.Answer:
    kept = call.exchange() if _is_whole(call.attempt, part) else None
    if kept is not None and _is_wanted(kept, dialect):
        return answers.of_exchange(kept)
    wanted = answers.Wanted(dialect or call.dialect, model=call.model)
    return answers.of_chunks(call.chunks(), wanted, synthesised=call.is_synthesised)


def _is_whole(attempt: Attempt, part: Part) -> bool:
    """Whether the part does not end in the middle of the call."""
    return part.to_seq is None or attempt.outcome != "open"


def _is_wanted(kept: Exchange, dialect: ProviderDialect | None) -> bool:
    """Whether a stream was asked for, and no other dialect now."""
    is_stream = answers.serves(kept, "", stream=True)
    return is_stream and (dialect is None or dialect.name == kept.dialect)


def _answered(answer: answers.Answer) -> Iterator[TimedBytes]:
    """The body of an answer as it came, and what else there is to tell of it."""
    time_ms, last = None, b""
    if answer.status is None or 200 <= answer.status <= 299:
        for time_ms, data in answer.body:
            if data:
                yield TimedBytes(time_ms, data, idle=not last)
                last = last[-3:] + data
        if last and not last.endswith(_EVENT_ENDS):
            yield TimedBytes(None, b"\n\n", idle=False)
    else:
        pieces = list(answer.body)
        time_ms = pieces[-1].time_ms if pieces else None
        lines = [f"HTTP {answer.status}".encode()]
        lines += (f"{name}: {value}".encode() for name, value in answer.headers)
        lines += _LINE_END.split(b"".join(piece.data for piece in pieces))
        yield TimedBytes(time_ms, _comment(*lines), idle=True)
    ending = _ENDS[answer.body.end]
    if ending is not None:
        yield TimedBytes(time_ms, _comment(ending.encode()), idle=not last)


def _comment(*lines: bytes) -> bytes:
    """The lines as comments, and a blank line behind them."""
    return b"".join(b": " + line + b"\n" for line in lines) + b"\n"
