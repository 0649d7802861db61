"""What every projection promises. Each one that is registered runs through all of this by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_sessions import natives
from sample_projections import seen, tally
from session_logs import sessions

from playhead.eventstore import json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded, Replace
from playhead.eventstore.registry import event_types
from playhead.projections import registry
from playhead.projections.folding import Folded, advance, begin
from playhead.projections.projection import Projection, ReadTable, Row

PROJECTIONS = [tally(), seen, *registry.every()]
TYPES = [*event_types, "nobody/knows", ""]

every_projection = pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)

_texts = st.text(st.characters(exclude_categories=()), max_size=4)
# fmt: off
_NAMES = [
    "turn", "step", "id", "kind", "text", "message", "content", "source", "callId", "target", "start", "inserted",
    "removedCount", "goal", "reason", "usage", "chunk", "stream", "header", "role", "type", "name", "operation",
]
# fmt: on
_names = st.sampled_from(_NAMES)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts | _names
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names | _texts, inner, max_size=4)
)
_ops = st.none() | st.just("append") | st.builds(Replace, st.integers(0, 30), st.integers(0, 30))


class Log:
    """A header and events of a session that may be nonsense in parts."""

    def __init__(self, header: SessionHeader, events: list[Recorded]) -> None:
        self.header = header
        self.events = events

    def __repr__(self) -> str:
        return f"{self.header}\n" + "\n".join(f"{event.envelope()}" for event in self.events)


def _placed(events: list[dict[str, Any]], finite: bool) -> list[Recorded]:
    return [
        Recorded(
            SessionId("s1"),
            Seq(seq),
            event["time"],
            event["type"],
            _raw(event["data"], finite),
            _operation(event.get("surfaceOp")),
            None if event.get("sourceEventSeqs") is None else tuple(event["sourceEventSeqs"]),
            bool(event.get("ignorable")),
        )
        for seq, event in enumerate(events)
    ]


def _raw(value: Any, finite: bool) -> bytes:
    try:
        return json_text.dumps(value)
    except ValueError:  # an infinite number, which a log spells 1e999
        return (
            b'{"turn":1,"text":"1e999"}'
            if finite
            else b'{"turn":1e999,"step":-1e999,"usage":{"outputTokens":1e999}}'
        )


def _operation(value: Any) -> Any:
    return Replace(value["start"], value["end"]) if isinstance(value, dict) else value


@st.composite
def logs(draw: st.DrawFn, finite: bool = False) -> Log:
    """A valid session with nonsense put between its events, and some of them taken out or said twice."""
    if draw(st.booleans()):
        native = draw(natives())
        header, events = native.header, [event.envelope() for event in native.events]
    else:
        header, events = SessionHeader(SessionId("s1"), 1), draw(sessions())
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(events)))
        match draw(st.sampled_from(["add", "drop", "repeat", "bend"])):
            case "add":
                events.insert(
                    at,
                    {
                        "type": draw(st.sampled_from(TYPES)),
                        "time": draw(st.integers(-5, 10)),
                        "data": draw(_values),
                        "surfaceOp": draw(_ops),
                        "ignorable": draw(st.booleans()),
                    },
                )
            case "drop" if at < len(events):
                del events[at]
            case "repeat" if at < len(events):
                events.insert(draw(st.integers(0, len(events))), events[at])
            case "bend" if at < len(events) and isinstance(events[at]["data"], dict):
                data = events[at]["data"]
                if data:
                    key = draw(st.sampled_from(sorted(data)))
                    events[at] = events[at] | {"data": data | {key: draw(_values)}}
            case _:
                pass
    for event in events:
        if isinstance(event.get("surfaceOp"), Replace):
            event["surfaceOp"] = {"start": event["surfaceOp"].start, "end": event["surfaceOp"].end}
    return Log(header, _placed(events, finite))


def whole(projection: Projection[Any], log: Log) -> tuple[Folded[Any], list[Row]]:
    """The state after the log, and its rows."""
    emitted: list[Row] = []
    folded = advance(projection, begin(projection, log.header), log.events, emitted=emitted)
    return folded, [*emitted, *projection.rows(folded.state)]


@every_projection
@settings(max_examples=60)
@given(log=logs(), data=st.data())
def test_a_fold_that_was_cut_anywhere_and_kept_as_a_checkpoint_gives_the_same(
    projection: Projection[Any], log: Log, data: st.DataObject
) -> None:
    folded, rows = whole(projection, log)
    cut = data.draw(st.integers(0, len(log.events)))
    emitted: list[Row] = []
    before = advance(projection, begin(projection, log.header), log.events[:cut], emitted=emitted)
    kept = projection.dump(before.state)
    for state in (before.state, projection.load(kept)):
        assert state == before.state
        again: list[Row] = []
        after = advance(
            projection, Folded(state, before.next_seq, before.unknown), log.events[cut:], emitted=again
        )
        assert after == folded
        assert [*emitted, *again, *projection.rows(after.state)] == rows


@every_projection
@settings(max_examples=40)
@given(log=logs())
def test_every_cut_of_a_log_gives_the_state_that_a_fold_of_its_beginning_gives(
    projection: Projection[Any], log: Log
) -> None:
    step = begin(projection, log.header)
    for at, event in enumerate(log.events):
        step = advance(projection, step, [event])
        assert step == advance(projection, begin(projection, log.header), log.events[: at + 1])


@every_projection
@settings(max_examples=60)
@given(log=logs())
def test_an_event_that_changes_nothing_returns_the_same_object(projection: Projection[Any], log: Log) -> None:
    state = projection.initial(log.header)
    for event in log.events:
        if event.type in projection.handles:
            after = projection.apply(state, event)
            assert after is state or after != state, event
            state = after
        else:
            assert advance(projection, Folded(state, event.seq), [event]).state is state


@every_projection
@settings(max_examples=60)
@given(log=logs(finite=True))
def test_the_view_is_json(projection: Projection[Any], log: Log) -> None:
    folded, _ = whole(projection, log)
    view = projection.view(folded.state)
    assert json_text.stringify(json_text.parse(json_text.dumps(view))) == json_text.stringify(view)


@every_projection
@settings(max_examples=100)
@given(log=logs())
def test_rows_fit_their_tables(projection: Projection[Any], log: Log) -> None:
    tables = {table.name: table for table in projection.tables}
    emitted: list[Row] = []
    folded = advance(projection, begin(projection, log.header), log.events, emitted=emitted)
    made = list(projection.rows(folded.state))
    assert all(tables[row.table].appended for row in emitted)
    assert not any(tables[row.table].appended for row in made)
    keys = set()
    for row in (*emitted, *made):
        table = tables[row.table]
        assert len(row.values) == len(table.columns), row
        assert type(row.seq) is int, row
        assert 0 <= row.seq <= max(0, len(log.events) - 1), row
        for column, value in zip(table.columns, row.values, strict=True):
            assert _fits(column.kind, value) or (value is None and column.optional), (row, column)
        key = (table.name, *_key_of(table, row))
        assert key not in keys, row
        keys.add(key)


def _key_of(table: ReadTable, row: Row) -> list[Any]:
    named = {"seq": row.seq} | dict(zip((column.name for column in table.columns), row.values, strict=True))
    return [json_text.dumps(named[name]) for name in table.key]


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "int":
            return type(value) is int
        case "real":
            return type(value) in (int, float)
        case "text":
            return isinstance(value, str)
        case "bool":
            return type(value) is bool
    return True
