"""What events other than a stream add to what a person saw: items of the transcript, as soon as each is whole.

The fold of the transcript makes them (``projections/transcript.py``). It is shown every event but those of model calls
and steps, and what is whole is taken out of its state at once. So the state holds what is still missing something: tool
calls without a result, a compaction without an end, prompts that wait for the next step.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.transcript import transcript
from playhead.projections.transcript_items import AnyItem, Section, Step, ToolCall, Turn

_OF_CALLS = frozenset(
    {
        "assistant/chunk",
        "assistant/attempt",
        "llm/retry",
        "llm/retry-started",
        "step/start",
        "step/end",
    }
)

TYPES = frozenset(transcript.handles) - _OF_CALLS
"""The types of events to hand to ``Items.after``."""


class Items:
    """The items of one session, one event after the other."""

    def __init__(self, header: SessionHeader) -> None:
        self._state = transcript.initial(header)

    @property
    def turn(self) -> Turn | None:
        """The turn that is open."""
        return self._state.turn

    @property
    def inherited_to(self) -> int:
        """The seq up to which all is the parent's, as far as it is known."""
        return self._state.inherited.to_seq

    @property
    def pending(self) -> list[ToolCall]:
        """Tool calls that have no result yet, in the order in which they were asked for."""
        return [item for item in self._open() if isinstance(item, ToolCall)]

    def after(self, event: Recorded) -> list[AnyItem | Turn]:
        """What is whole now. A turn comes when it is over; the items in it are those that never became whole."""
        state = transcript.apply(self._state, event)
        self._state = state
        found = _flat(state.done)
        found += (item for item in self._open() if _is_whole(item))
        rest = tuple(item for item in self._open() if not _is_whole(item))
        if state.turn is not None:
            state = replace(state, turn=replace(state.turn, items=rest))
        else:
            state = replace(state, between=rest)
        self._state = replace(state, done=(), breaches=())
        return found

    def rest(self) -> list[AnyItem | Turn]:
        """What is not whole where the log ends."""
        return _flat(self._state.sections())

    def _open(self) -> list[AnyItem]:
        turn = self._state.turn
        items = self._state.between if turn is None else turn.items
        return [item for item in items if not isinstance(item, Step)]


def _flat(sections: Iterable[Section]) -> list[AnyItem | Turn]:
    """Turns, and the items between them."""
    found: list[AnyItem | Turn] = []
    for section in sections:
        if isinstance(section, Turn):
            found.append(section)
        else:
            found += section.items
    return found


def _is_whole(item: AnyItem) -> bool:
    return not isinstance(item, ToolCall) or item.result_seq is not None
