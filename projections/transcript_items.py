"""What a transcript is made of.

A transcript is a list of sections: turns, and what lies between them. A turn holds its steps, and items that are in
none; a step holds items. An item is a message, an answer, a tool call with its result, an attempt that gave no answer,
a compaction, or a mark. Everything is plain data and can be kept as JSON: names in camel case, ``type`` says what an
object is, and a member that is unknown, empty or false is left out.

Times are epoch milliseconds. A duration is None where the clock went back meanwhile: it is unknown, never negative.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from playhead.projections.attempt import CallFailure, Retry


class _Plain(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A value without a tag."""


class Part(_Plain, frozen=True):
    """A piece of an answer: ``kind`` is ``text``, ``reasoning``, ``tool-call`` (``text`` is the id of the call), or
    ``other`` (``text`` says what it is)."""

    kind: str
    text: str


class Stream(_Plain, frozen=True):
    """What a model call streamed.

    Where chunks are events of their own, they are the ``assistant/chunk`` events with ``from_seq <= seq < to_seq``, or
    all from ``from_seq`` on where ``to_seq`` is None; then ``chars`` and ``first_token_ms`` are None, because only the
    deltas tell. Otherwise the range is the event that holds the stream. ``started_ms`` is the first chunk that is no
    delta, ``ended_ms`` the finish. ``chars`` counts text, reasoning and arguments of tool calls.
    """

    from_seq: int
    to_seq: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    first_token_ms: int | None = None
    chars: int | None = None


class Item(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that happened at ``seq``."""

    seq: int
    time_ms: int


class Message(Item, frozen=True, tag="message"):
    """What a person or a program put before the model.

    ``provenance`` and ``label`` say who, see ``provenance.py``; ``by`` is the program or session where one is named.
    ``steering`` marks a prompt that joined a running turn. ``other`` names what is no text. ``summary`` is the line
    by which a notice announces itself.
    """

    role: str
    provenance: str
    label: str
    id: str | None = None
    source_kind: str | None = None
    by: str | None = None
    text: str = ""
    other: tuple[str, ...] = ()
    summary: str | None = None
    steering: bool = False


class Answer(Item, frozen=True, tag="answer"):
    """What the model said. ``interrupted`` marks what was kept of a cancelled answer.

    ``finish`` is how the stream ended, where that is known. The calls of an answer follow it as items of their own.
    """

    id: str | None = None
    provider: str | None = None
    model: str | None = None
    parts: tuple[Part, ...] = ()
    interrupted: bool = False
    finish: str | None = None
    stream: Stream | None = None


class ToolCall(Item, frozen=True, tag="tool-call"):
    """A call and what came of it.

    ``number`` counts the calls of the session from 1. ``seq`` is that of the answer that asked, or of the call where
    none did. ``started_seq`` is that of ``tool/call``, ``result_seq`` that of the result. ``is_error`` is None without
    a result. ``parent`` is the call from whose code this one came.
    """

    number: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""
    parent: str | None = None
    started_seq: int | None = None
    started_ms: int | None = None
    result_seq: int | None = None
    result_id: str | None = None
    ended_ms: int | None = None
    duration_ms: int | None = None
    is_error: bool | None = None
    error_name: str | None = None
    error_code: str | None = None
    result: str | None = None
    result_other: tuple[str, ...] = ()


class FailedAttempt(Item, frozen=True, tag="attempt"):
    """A model call that gave no answer.

    ``finish`` is how its stream ended: ``error``, ``aborted``, another word where the answer was never written down,
    or None when it just stops: cancelled, or a crash. ``retry`` is what was decided after a failure.
    """

    finish: str | None = None
    failure: CallFailure | None = None
    stream: Stream | None = None
    retry: Retry | None = None


class Compaction(Item, frozen=True, tag="compaction"):
    """A part of what the model sees gave way to something shorter. What a person sees stays.

    ``kind`` is ``summary`` or ``prune`` (a tool result was cut). ``outcome`` is ``done``, ``failed``, or ``unfinished``
    for one without an end. ``shadowed`` counts what gave way, ``tokens`` is its estimated size.
    """

    kind: str
    outcome: str = "done"
    id: str | None = None
    ended_ms: int | None = None
    error: str | None = None
    summary: str | None = None
    shadowed: int | None = None
    tokens: int | None = None
    provider: str | None = None
    model: str | None = None
    message_seq: int | None = None


class Mark(Item, frozen=True, tag="mark"):
    """Something worth a line. ``kind``: ``title``, ``resumed`` (a process took the session up again), ``inherited``
    (what stands before came from the parent), ``command``, ``command-result``, ``approval``, ``goal``, ``todo``."""

    kind: str
    text: str = ""
    is_error: bool = False


AnyItem: TypeAlias = Message | Answer | ToolCall | FailedAttempt | Compaction | Mark


class Step(Item, frozen=True, tag="step"):
    """One model call with its retries and tools. ``ended_ms`` is None for a step that was not closed."""

    number: int | None = None
    items: tuple[AnyItem, ...] = ()
    ended_ms: int | None = None
    duration_ms: int | None = None


class Ending(_Plain, frozen=True):
    """How a turn ended. ``reason`` is ``completed``, ``aborted`` (``cause`` says by whom), ``error``, ``max-tokens``,
    ``blocked``, ``interrupted`` (closed by a repair), another word, or ``unknown``."""

    reason: str
    cause: str | None = None
    failure: CallFailure | None = None


class Turn(Item, frozen=True, tag="turn"):
    """A turn. ``ending`` is None where the log stops inside it, or goes on without closing it."""

    number: int | None = None
    items: tuple[Step | AnyItem, ...] = ()
    ended_seq: int | None = None
    ended_ms: int | None = None
    duration_ms: int | None = None
    ending: Ending | None = None

    @property
    def steps(self) -> int:
        """How many steps were entered."""
        return sum(isinstance(item, Step) for item in self.items)


class Between(Item, frozen=True, tag="between"):
    """What lies before, between and behind turns."""

    items: tuple[AnyItem, ...] = ()


Section: TypeAlias = Turn | Between


def items_of(section: Section) -> list[tuple[Step | None, AnyItem]]:
    """The items of a section in order, each with the step it is in."""
    found: list[tuple[Step | None, AnyItem]] = []
    for item in section.items:
        if isinstance(item, Step):
            found += ((item, inner) for inner in item.items)
        else:
            found.append((None, item))
    return found
