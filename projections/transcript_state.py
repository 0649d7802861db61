"""The state of the transcript: finished sections, what is open, and how things find their place in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from playhead.eventstore import json_text
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import CallFailure
from playhead.projections.inherited import Inherited
from playhead.projections.projection import Breach
from playhead.projections.transcript_items import (
    AnyItem,
    Between,
    Compaction,
    Ending,
    FailedAttempt,
    Section,
    Step,
    Stream,
    Turn,
)

T = TypeVar("T", bound=AnyItem)


class OpenStream(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Chunks that no answer was made of yet; the last one that is no delta stands at ``seq``.

    ``finish`` is None before the ``finish`` chunk.
    """

    seq: int
    stream: Stream
    finish: str | None = None
    failure: CallFailure | None = None

    def until(self, seq: int | None) -> Stream:
        """The stream, which goes no further than the event before ``seq``; None where the log ends."""
        return self.stream if self.stream.to_seq is not None else replace(self.stream, to_seq=seq)


class Transcript(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``done`` are finished sections; ``turn``, ``step``, ``between``, ``stream`` and ``compaction`` what is open.

    ``next_step`` are the ids that wait in the inbox's list of that name, ``claimed`` those taken from it in this turn.
    ``last_ms`` is the time of the last event that counted, ``back_seq`` the seq of the last one before which the clock
    went back. The next stream begins behind ``last_seq``.
    """

    inherited: Inherited
    done: tuple[Section, ...] = ()
    turn: Turn | None = None
    step: Step | None = None
    between: tuple[AnyItem, ...] = ()
    stream: OpenStream | None = None
    compaction: Compaction | None = None
    next_step: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    calls: int = 0
    title: str | None = None
    last_seq: int = -1
    last_ms: int | None = None
    back_seq: int = -1
    breaches: tuple[Breach, ...] = ()

    def ticked(self, event: Recorded) -> Transcript:
        """The state that knows the time of ``event``."""
        back = self.last_ms is not None and event.time_ms < self.last_ms
        return replace(
            self,
            last_seq=self.last_seq if event.type == "assistant/chunk" else event.seq,
            last_ms=event.time_ms,
            back_seq=event.seq if back else self.back_seq,
        )

    def streaming(self, event: Recorded) -> Transcript:
        """The state that knows of ``event``, a chunk of the open stream."""
        held = self.stream
        back = self.last_ms is not None and event.time_ms < self.last_ms
        return replace(
            self,
            stream=None if held is None else replace(held, seq=event.seq),
            last_seq=event.seq,
            last_ms=event.time_ms,
            back_seq=event.seq if back else self.back_seq,
        )

    def took(self, seq: int, time_ms: int, event: Recorded) -> int | None:
        """Milliseconds from the event ``seq`` to ``event``; None where the clock went back between them."""
        return event.time_ms - time_ms if self.back_seq <= seq and event.time_ms >= time_ms else None

    def breach(self, kind: str, seq: int, message: str) -> Transcript:
        """The state with one more breach."""
        return replace(self, breaches=(*self.breaches, Breach(kind, seq, message)))

    def add(self, *items: AnyItem) -> Transcript:
        """The state with ``items`` at the end of what is open."""
        if not items:
            return self
        if self.step is not None:
            return replace(self, step=replace(self.step, items=(*self.step.items, *items)))
        if self.turn is not None:
            return replace(self, turn=replace(self.turn, items=(*self.turn.items, *items)))
        return replace(self, between=(*self.between, *items))

    def change(
        self, kind: type[T], wanted: Callable[[T], bool], change: Callable[[T], T]
    ) -> Transcript | None:
        """The state in which the first item that is wanted is changed; None where there is none.

        Looked at is the open step, else what lies outside of steps in the open turn, else between turns.
        """
        for name in ("step", "turn"):
            holder: Step | Turn | None = getattr(self, name)
            if holder is not None:
                for at, item in enumerate(holder.items):
                    if isinstance(item, kind) and wanted(item):
                        items = (*holder.items[:at], change(item), *holder.items[at + 1 :])
                        return replace(self, **{name: replace(holder, items=items)})
        for at, item in enumerate(self.between):
            if isinstance(item, kind) and wanted(item):
                return replace(self, between=(*self.between[:at], change(item), *self.between[at + 1 :]))
        return None

    def without_stream(self, seq: int | None) -> Transcript:
        """The state in which the open stream, if any, is an attempt that gave no answer.

        The event at ``seq`` stands behind it; None where the log ends.
        """
        held = self.stream
        if held is None:
            return self
        attempt = FailedAttempt(
            seq=held.seq,
            time_ms=held.stream.ended_ms or held.stream.started_ms or 0,
            finish=held.finish,
            failure=held.failure,
            stream=held.until(seq),
        )
        return replace(self, stream=None).add(attempt)

    def without_compaction(self) -> Transcript:
        """The state in which a compaction that did not end is an unfinished one."""
        if self.compaction is None:
            return self
        return replace(self, compaction=None).add(replace(self.compaction, outcome="unfinished"))

    def without_step(self, event: Recorded | None, *, closed: bool = True) -> Transcript:
        """The state without an open step. ``event`` ends it, None where the log does; it may not be ``closed``."""
        state = self.without_stream(None if event is None else event.seq)
        step, turn = state.step, state.turn
        if step is None or turn is None:
            return state
        if event is not None and closed:
            took = state.took(step.seq, step.time_ms, event)
            step = replace(step, ended_ms=event.time_ms, duration_ms=took)
        return replace(state, step=None, turn=replace(turn, items=(*turn.items, step)))

    def without_turn(self, event: Recorded | None, ending: Ending | None) -> Transcript:
        """The state without an open turn. ``event`` ends it, None where the log does; ``ending`` is how, if told."""
        state = self.without_step(event, closed=False).without_compaction()
        turn = state.turn
        if turn is None:
            return state
        if event is not None and ending is not None:
            took = state.took(turn.seq, turn.time_ms, event)
            turn = replace(turn, ended_seq=event.seq, ended_ms=event.time_ms, duration_ms=took, ending=ending)
        return replace(state, turn=None, claimed=(), done=(*state.done, turn))

    def without_between(self) -> Transcript:
        """The state in which what lies between turns is a finished section."""
        state = self.without_compaction() if self.turn is None else self
        if not state.between:
            return state
        first = state.between[0]
        section = Between(first.seq, first.time_ms, items=state.between)
        return replace(state, between=(), done=(*state.done, section))

    def sections(self) -> tuple[Section, ...]:
        """Every section, what is open as it stands."""
        return self.without_turn(None, None).without_between().done


Handler = Callable[[Transcript, Recorded, dict[str, Any]], Transcript]
"""The transcript after an event, whose data is given; the same object where it changes nothing."""


def as_json(value: Any) -> str:
    """A JSON value as text."""
    try:
        return json_text.dumps(value).decode("utf-8", "replace")
    except ValueError:
        return str(value)
