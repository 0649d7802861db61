"""Small projections for tests of the frame around projections: one with rows of its state, one with rows of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.projection import EVERY_TYPE, Column, Projection, ReadTable, Row


class Tally(msgspec.Struct, frozen=True):
    """How often each text was said, and where first: (seq, text, count)."""

    header: str
    said: tuple[tuple[int, str, int], ...] = ()
    events: int = 0


def _say(state: Tally, event: Recorded) -> Tally:
    text = members.text(members.of(event), "text")
    if text is None:
        return state
    said = {old: (seq, count) for seq, old, count in state.said}
    seq, count = said.get(text, (event.seq, 0))
    said[text] = (seq, count + 1)
    rows = tuple((seq, text, count) for text, (seq, count) in said.items())
    return Tally(state.header, rows, state.events + 1)


def _tally_rows(state: Tally) -> Iterator[Row]:
    for seq, text, count in state.said:
        yield Row("read_tally", seq, (text, count, count / 2, count > 1, {"text": text}, None))


TALLY = ReadTable(
    "read_tally",
    "Every text that was said in a session.",
    (
        Column("text", "text", "what was said"),
        Column("times", "int", "how often"),
        Column("half", "real", "half as often"),
        Column("again", "bool", "more than once"),
        Column("detail", "json", "the same as an object"),
        Column("nothing", "text", "always absent", optional=True),
    ),
    key=("text",),
)


def tally(version: int = 1, **changes: Any) -> Projection[Tally]:
    """A projection of feedback: rows of its state, one a text."""
    members: dict[str, Any] = {
        "name": "tally",
        "version": version,
        "state": Tally,
        "handles": frozenset({"feedback/record"}),
        "initial": _tally_begin,
        "apply": _say,
        "view": _tally_view,
        "tables": (TALLY,),
        "rows": _tally_rows,
    }
    return Projection(**(members | changes))


def _tally_begin(header: SessionHeader) -> Tally:
    return Tally(header.id)


def _tally_view(state: Tally) -> dict[str, int]:
    return {text: count for _, text, count in state.said}


class Seen(msgspec.Struct, frozen=True):
    """How many events went by."""

    events: int = 0


def _line(state: Seen, event: Recorded) -> Iterator[Row]:
    yield Row("read_seen", event.seq, (event.type, state.events, event.time_ms, event.json))


seen: Projection[Seen] = Projection(
    name="seen",
    version=1,
    state=Seen,
    handles=EVERY_TYPE,
    initial=lambda _header: Seen(),
    apply=lambda state, _event: Seen(state.events + 1),
    view=lambda state: {"events": state.events},
    tables=(
        ReadTable(
            "read_seen",
            "Every event.",
            (
                Column("type", "text", "its type"),
                Column("number", "int", "how many with it"),
                Column("time_ms", "int", "when"),
                Column("data", "json", "what it says"),
            ),
            key=("seq",),
            appended=True,
        ),
    ),
    emit=_line,
    on_request=True,
)
