"""A fold does not read what its projection does not look at, and says the same as if it had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from driver_model import playing
from hypothesis import given, settings
from hypothesis import strategies as st
from native_sessions import Native, natives
from sample_projections import seen, tally
from stores import ENGINES, store_address

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore.errors import UnknownEventType
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.registry import event_types
from playhead.projections import registry
from playhead.projections.folding import advance, begin, closing_events, fold, left_out
from playhead.projections.projection import EVERY_TYPE, Projection
from playhead.projections.repaired import Repaired

PROJECTIONS = [tally(), seen, *registry.every()]
every_projection = pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda each: each.name)

UNKNOWN = NewEvent("nobody/knows", {"n": 1}, 1)
NOTE = NewEvent("feedback/record", {"text": "a"}, 1)
TITLE = NewEvent("session/title", {"title": "t"}, 1)


def delta(text: str) -> NewEvent:
    chunk = {"type": "text-delta", "index": 0, "text": text}
    return NewEvent("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk}, 1)


def appended(store: Any, events: list[NewEvent], *, seal: bool) -> Any:
    """A session of ``store`` with ``events``, half of them in a segment of their own where ``seal`` is set."""
    session = store.create(SessionHeader(SessionId("s"), 1))
    for part in (events[: len(events) // 2], events[len(events) // 2 :]):
        if part:
            session.append(part)
        if seal:
            session.seal()
    return session


@pytest.fixture(
    params=["memory", *(f"{engine}-{kind}" for engine in ENGINES for kind in ("rows", "segments"))]
)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[list[NewEvent]], Any]]:
    """Makes the session of some events, on each backend."""
    engine, _, kind = request.param.partition("-")
    with ExitStack() as stack:
        if engine == "memory":
            yield lambda events: appended(MemoryLog(lambda: 1), events, seal=False)
            return
        store = stack.enter_context(playhead.open_store(stack.enter_context(store_address(engine, tmp_path))))
        yield lambda events: appended(store, events, seal=kind == "segments")


def test_what_is_left_out_is_known_and_not_handled() -> None:
    for projection in PROJECTIONS:
        assert left_out(projection) <= set(event_types) - projection.handles
        assert projection.handles is EVERY_TYPE or left_out(projection) | projection.handles >= set(
            event_types
        )


def test_unknown_events_are_reported_whatever_the_projection_handles(stored: Any) -> None:
    session = stored([NOTE, UNKNOWN, TITLE, NewEvent("nobody/cares", {}, 1, ignorable=True), UNKNOWN, TITLE])
    folded = fold(session, tally())
    assert (folded.state.said, folded.unknown) == (((0, "a", 1),), (("nobody/knows", 1),))
    assert fold(session, tally(), ignorable=["nobody/knows"]).complete
    with pytest.raises(UnknownEventType) as raised:
        fold(session, tally(), strict=True)
    assert raised.value.seq == 1


def test_next_seq_is_behind_events_that_were_left_out(stored: Any) -> None:
    session = stored([NOTE, TITLE, NOTE, delta("x"), delta("y"), delta("z"), TITLE])
    assert fold(session, tally()).next_seq == session.next_seq == 7
    assert [fold(session, tally(), at=at).next_seq for at in (-1, 0, 1, 5, 6, 99)] == [0, 1, 2, 6, 7, 7]
    before = fold(session, tally(), at=4)
    assert fold(session, tally(), at=1, since=before) == before


def test_a_fold_goes_on_where_it_stopped_once_more_was_written(stored: Any) -> None:
    session = stored([NOTE, TITLE, delta("x")])
    before = fold(session, tally())
    session.append([TITLE, NOTE, TITLE])
    assert fold(session, tally(), since=before) == fold(session, tally())
    assert fold(session, tally()).state.said == ((0, "a", 2),)


def test_closing_events_go_on_from_the_last_event_even_if_it_is_a_delta(stored: Any) -> None:
    turn, step = NewEvent("turn/start", {"turn": 1}, 1), NewEvent("step/start", {"turn": 1, "step": 1}, 2)
    session = stored([turn, step, TITLE, UNKNOWN, delta("x"), delta("y")])
    assert [(event.seq, event.type) for event in closing_events(session, 6)] == [
        (6, "step/end"),
        (7, "turn/end"),
    ]
    assert [event.seq for event in closing_events(session, 1)] == [1]
    assert closing_events(session, 0) == []
    view = Repaired(session)
    assert view.next_seq == 8
    assert [event.seq for event in view.events()] == list(range(8))
    assert [event.seq for event in view.events(3, 7, deltas=False, without=["turn/end"])] == [3, 6]
    assert [event.seq for event in view.events(without=["turn/end", "turn/start"])] == list(range(1, 7))


@every_projection
@settings(max_examples=20)
@given(native=natives(), data=st.data())
def test_a_fold_equals_one_that_sees_every_event(
    projection: Projection[Any], native: Native, data: st.DataObject
) -> None:
    news = [_new(event) for event in native.events]
    for _ in range(data.draw(st.integers(0, 3))):
        news.insert(
            data.draw(st.integers(0, len(news))), data.draw(st.sampled_from([UNKNOWN, TITLE, delta("d")]))
        )
    with playhead.open_store("sqlite://") as store:
        session = appended(store, news, seal=data.draw(st.booleans())) if news else None
        if session is None:
            return
        whole = advance(
            projection, begin(projection, session.header), session.events(deltas=projection.deltas)
        )
        folded = fold(session, projection)
        assert (folded.state, folded.unknown, folded.next_seq) == (whole.state, whole.unknown, len(news))
        cut = data.draw(st.integers(-1, len(news)))
        assert fold(session, projection, since=fold(session, projection, at=cut)) == folded


def _new(event: Recorded) -> NewEvent:
    return NewEvent(
        event.type, event.json, event.time_ms, event.surface_op, event.source_seqs, event.ignorable
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=10)
@given(played=playing(), data=st.data())
def test_events_of_every_format_come_without_the_types_that_are_not_wanted(
    layout: str, played: Any, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder, playhead.open_store("sqlite://") as store:
        file = Path(folder) / "session.jsonl"
        file.write_bytes(write_log(LAYOUTS[layout], played.header, [played.facts]))
        import_paths(store, [file])
        (info,) = store.sessions()
        session = store.session(info.id)
        events = list(session.events(deltas=False))
        some = st.sets(st.sampled_from(sorted({event.type for event in events} | {"nobody/knows"})))
        without, ends = data.draw(some), data.draw(st.tuples(*[st.integers(0, info.next_seq)] * 2))
        assert list(session.events(*ends, deltas=False, without=without)) == [
            event for event in events if ends[0] <= event.seq < ends[1] and event.type not in without
        ]
