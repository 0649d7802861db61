"""A session as a row of entries: each event with its place, its form and its marks.

The place is turn and step. Step 0 of a turn is what comes before its first step; ``END`` is the end of the turn and
what comes behind it; turn 0 is what comes before the first turn. What comes behind a step still belongs to it. The
header of the session is the first entry, at turn -1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Replace
from playhead.projections.folding import Foldable
from playhead.projections.provenance import is_prompt
from playhead.replay.diff_drafts import Draft, drafts
from playhead.replay.diff_form import Cited, Marks, form_of, marks_of
from playhead.replay.diff_rules import SESSION

END = math.inf
"""The step of the end of a turn."""

_BY_MODELS_AND_PERSONS = frozenset(
    {"assistant/message", "assistant/attempt", "tool/call", "goal/change", "session/title", "command/run"}
)


class Place(NamedTuple):
    """Where an entry is compared. Numbers are those of the log, which may hold any."""

    turn: float
    step: float


@dataclass(frozen=True, slots=True)
class Entry:
    """An event as it is compared.

    ``seq`` is the event in which it stands, None for the header. ``form`` has ``data`` and, where there is something
    to compare in the envelope, ``surfaceOp``, ``sourceEventSeqs``, ``ignorable`` and ``unreadable``. ``kin`` is what
    entries have in common that are likely to be each other's counterpart. ``is_event`` is False for what nothing can
    cite.
    """

    seq: int | None
    type: str
    place: Place
    form: dict[str, Any]
    marks: Marks
    kin: tuple[Any, ...]
    is_event: bool

    @property
    def is_authored(self) -> bool:
        """Whether a model or a person wrote the texts in it."""
        if self.type in _BY_MODELS_AND_PERSONS:
            return True
        data = self.form["data"]
        if self.type == "user/message":
            return isinstance(data, dict) and is_prompt(data.get("source"))
        if self.type == "agent/inbox/spliced" and isinstance(data, dict):
            return any(is_prompt(message.get("source")) for message in members.objects(data, "inserted"))
        return False


def entries(session: Foldable, *, as_chunks: bool = False) -> Iterator[Entry]:
    """The entries of ``session`` in order. ``as_chunks`` keeps the cuts of streams."""
    header = session.header
    yield _entry(Draft(0, SESSION, _header_data(header), is_event=False), Place(-1, 0))
    place = Place(0, 0)
    for draft in drafts(header, session.events(), as_chunks=as_chunks):
        place = _moved(place, draft)
        yield _entry(draft, place)


def _header_data(header: SessionHeader) -> dict[str, Any]:
    """What a header says of the session; its id, its time and the format of the log are nobody's difference."""
    data = {
        "cwd": header.cwd,
        "parentSession": header.parent,
        "origin": header.origin,
        "delegationDepth": header.delegation_depth,
        "agentPreset": header.agent_preset,
    }
    return {member: value for member, value in data.items() if value is not None}


def _moved(place: Place, draft: Draft) -> Place:
    """The place of ``draft``, which comes behind what is at ``place``."""
    data = draft.data if isinstance(draft.data, dict) else members.NOTHING
    match draft.type:
        case "turn/start":
            turn = members.number(data, "turn")
            return Place(max(place.turn, 0) + 1 if turn is None else turn, 0)
        case "step/start":
            step = members.number(data, "step")
            return Place(place.turn, (0 if place.step == END else place.step) + 1 if step is None else step)
        case "turn/end":
            return Place(place.turn, END)
    return place


def _entry(draft: Draft, place: Place) -> Entry:
    form: dict[str, Any] = {"data": form_of(draft.type, draft.data)}
    op = draft.surface_op
    if isinstance(op, Replace):
        form["surfaceOp"] = {"op": "replace", "start": Cited(op.start), "end": Cited(op.end)}
    elif op is not None:
        form["surfaceOp"] = op
    if draft.source_seqs is not None:
        form["sourceEventSeqs"] = [Cited(seq) for seq in draft.source_seqs]
    if draft.ignorable:
        form["ignorable"] = True
    if draft.unreadable:
        form["unreadable"] = list(draft.unreadable)
    marks = marks_of((draft.type, form))
    seq = None if draft.type == SESSION else draft.seq
    return Entry(seq, draft.type, place, form, marks, _kin(draft), draft.is_event)


def _kin(draft: Draft) -> tuple[Any, ...]:
    """Type, and what else entries share that tell of the same thing."""
    data = draft.data if isinstance(draft.data, dict) else members.NOTHING
    match draft.type:
        case "tool/call":
            return draft.type, members.text(data, "name")
        case "user/message":
            return draft.type, members.text(members.inner(data, "source"), "kind")
        case "agent/inbox/spliced":
            return (
                draft.type,
                members.text(data, "target"),
                bool(data.get("inserted")),
                "removedCount" in data,
            )
        case "goal/change":
            return draft.type, members.text(data, "operation")
    return (draft.type,)
