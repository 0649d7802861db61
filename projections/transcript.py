"""The transcript: what a person saw of a session, turn by turn.

Every message that was appended stands in it once, in the order of the log. A replacement is a copy for the model and
never shows; a compaction is a mark. The state holds the sections that are finished, and apart from them the open turn
and step, so that an event costs what the open step weighs, not the session. What it is made of: ``transcript_items``;
how events change it: ``transcript_turns``, ``_messages``, ``_tools``, ``_compactions`` and ``_marks``.

Breaches: ``turn-not-closed``, ``turn-not-open``, ``step-not-closed``, ``step-not-open``, ``step-without-turn``,
``result-without-call``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections import (
    transcript_compactions,
    transcript_marks,
    transcript_messages,
    transcript_tools,
    transcript_turns,
)
from playhead.projections.inherited import Inherited
from playhead.projections.projection import Projection
from playhead.projections.transcript_items import Section
from playhead.projections.transcript_state import Handler, Transcript
from playhead.projections.transcript_tables import TABLES, rows

_HANDLERS: dict[str, Handler] = {
    **transcript_turns.HANDLERS,
    **transcript_messages.HANDLERS,
    **transcript_tools.HANDLERS,
    **transcript_compactions.HANDLERS,
    **transcript_marks.HANDLERS,
}


def apply(state: Transcript, event: Recorded) -> Transcript:
    """The transcript after ``event``."""
    if event.type == "assistant/chunk" and transcript_messages.goes_on(state, event):
        return state.streaming(event)
    ticked = state.ticked(event)
    after = _HANDLERS[event.type](ticked, event, members.of(event))
    return state if after is ticked else after


def _initial(header: SessionHeader) -> Transcript:
    return Transcript(Inherited.of(header))


def document(state: Transcript, sections: Iterable[Section]) -> dict[str, Any]:
    """Some sections of the transcript as a JSON value; what is unknown, empty or false is left out of them."""
    return {
        "title": state.title,
        "inheritedTo": state.inherited.to_seq,
        "sections": [_known(msgspec.to_builtins(section)) for section in sections],
    }


def view(state: Transcript) -> dict[str, Any]:
    """The whole transcript as a JSON value, see ``document``, and which rules the log breaks."""
    breaches = [msgspec.to_builtins(breach) for breach in state.breaches]
    return document(state, state.sections()) | {"breaches": breaches}


def _known(value: Any) -> Any:
    """``value`` without members that are null."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if item is not None}
    return [_known(item) for item in value] if isinstance(value, list | tuple) else value


transcript: Projection[Transcript] = Projection(
    name="transcript",
    version=1,
    state=Transcript,
    handles=frozenset(_HANDLERS),
    initial=_initial,
    apply=apply,
    view=view,
    tables=TABLES,
    rows=rows,
)
