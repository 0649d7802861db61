"""What a released dsh demands of the events of a log that it opens.

Every event must have the exact envelope: ``type``, ``seq``, ``time`` and ``data``, ``ignorable`` only as
``true``, ``surfaceOp`` on surface events and on no others, ``sourceEventSeqs`` on surface events at most. The
messages of surface events and the header of ``request/header`` must have their parts. The surface must fold:
a replacement names nodes that are on it, in their order, and cites all that it takes away; a tool result is
replaced by one that differs in the content of its block alone.

Relations between events (turns, steps, calls) are not looked at: a log that breaks them still opens.
Source: docs/formats.md, "Strict reading".
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from playhead.eventstore import admission, json_text, source_seqs
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.format_0_types import LATER_TYPES
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types

NEW_SPELLING_FROM = 3
"""The format from which a replacement says ``startSeq`` and ``endSeq`` for ``start`` and ``end``."""


class Admission:
    """Admits the events of one log in order. ``version`` is the format that it is stored in."""

    def __init__(self, version: int) -> None:
        self._range = ("startSeq", "endSeq") if version >= NEW_SPELLING_FROM else ("start", "end")
        self._unknown = LATER_TYPES if version < NEW_SPELLING_FROM else frozenset()
        self._surface: list[int] = []
        self._results: dict[int, Recorded] = {}

    def admit(self, event: Recorded, stored: dict[str, Any]) -> None:
        """Take the next event: ``event`` in the current vocabulary, ``stored`` the members of its line.

        Raises ``CorruptLog`` of kind ``bad-event``; a refused event changes nothing.
        """
        self._check_envelope(event, stored)
        if self._is_passed_over(event):
            return
        problem = admission.data_refusal(event.type, event.json)
        if problem is not None:
            _refuse(event, problem)
        if admission.is_surface(event.type):
            self._place(event, stored)

    def _is_passed_over(self, event: Recorded) -> bool:
        """True for a type that came later and is marked ignorable: to an early format it is nothing."""
        return event.ignorable and event.type in self._unknown

    def _check_envelope(self, event: Recorded, stored: dict[str, Any]) -> None:
        extra = sorted(stored.keys() - admission.MEMBERS)
        if extra:
            _refuse(event, f"unexpected member {extra[0]!r}")
        if not is_safe_integer(stored["time"]):
            _refuse(event, "time is not a whole number")
        if stored.get("ignorable", True) is not True:
            _refuse(event, "ignorable is not true")
        if admission.is_surface(event.type) and not self._is_passed_over(event):
            if "surfaceOp" not in stored:
                _refuse(event, "a surface event without surfaceOp")
        elif "surfaceOp" in stored or "sourceEventSeqs" in stored:
            _refuse(event, "surfaceOp or sourceEventSeqs on an event that has no place on the surface")

    def _place(self, event: Recorded, stored: dict[str, Any]) -> None:
        """Fold the event into the surface."""
        op = stored["surfaceOp"]
        start = end = None
        if op != "append":
            start, end = self._range_of(event, op)
        sources = _sources(event, stored)
        if start is None or end is None:
            self._surface.append(event.seq)
        else:
            shadowed = self._surface[start : end + 1]
            if not sources or not set(shadowed) <= set(sources):
                _refuse(event, "the sources of a replacement leave out what it replaces")
            if event.type == "tool/result":
                self._check_rewrite(event, shadowed)
            self._surface[start : end + 1] = [event.seq]
        if event.type == "tool/result":
            self._results[event.seq] = event

    def _range_of(self, event: Recorded, op: Any) -> tuple[int, int]:
        """The places on the surface, both inclusive, that a replacement names."""
        first, last = self._range
        if not isinstance(op, dict) or op.keys() != {"op", first, last} or op["op"] != "replace":
            _refuse(event, "surfaceOp is neither append nor a replacement")
        places = []
        for name in self._range:
            if not is_safe_integer(op[name]) or op[name] not in self._surface:
                _refuse(event, f"the {name} of a replacement is not on the surface")
            places.append(self._surface.index(op[name]))
        if places[0] > places[1]:
            _refuse(event, "a replacement ends before it starts")
        return places[0], places[1]

    def _check_rewrite(self, event: Recorded, shadowed: list[int]) -> None:
        before = self._results.get(shadowed[0])
        if len(shadowed) != 1 or before is None:
            _refuse(event, "a tool result replaces something else than one tool result")
        if _without_content(before) != _without_content(event):
            _refuse(event, "a tool result replaces another and differs in more than its content")


def _sources(event: Recorded, stored: dict[str, Any]) -> list[int] | None:
    if "sourceEventSeqs" not in stored:
        return None
    try:
        sources = source_seqs.expand(stored["sourceEventSeqs"])
    except ValueError as error:
        _refuse(event, str(error))
    if not sources and event.type != "assistant/message":
        _refuse(event, "the list of sources is empty")
    if len(set(sources)) != len(sources):
        _refuse(event, "a source is listed twice")
    if any(seq >= event.seq for seq in sources):
        _refuse(event, "a source is not an earlier event")
    return sources


def _without_content(event: Recorded) -> str:
    """The data of a tool result in one spelling, without the content of its block."""
    data = json_text.parse_ecma(event.raw)
    del data["message"]["content"][0]["content"]
    return json.dumps(data, sort_keys=True)


def _refuse(event: Recorded, message: str) -> NoReturn:
    raise CorruptLog(
        event.session, f"seq {event.seq}, {event.type}: {message}", seq=event.seq, kind="bad-event"
    )


def is_known(event: Recorded) -> bool:
    """True for an event of a type that Playhead, or a plugin, knows the meaning of."""
    return event.type in event_types
