"""Sessions that are made with their first events: whole, or not at all, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from session_logs import recorded, sessions
from stores import ENGINES, store_address

from playhead.eventstore import json_text
from playhead.eventstore.errors import SessionExists, UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import open_store

HEADER = SessionHeader(SessionId("s1"), 1, parent=SessionId("p"), seed_length=2)


@pytest.fixture(params=("memory", *ENGINES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryLog(lambda: 5)
        return
    with store_address(request.param, tmp_path) as address, open_store(address, clock=lambda: 5) as opened:
        yield opened


def line(seq: int) -> bytes:
    return b'{"type":"feedback/record","seq":%d,"time":7,"data":{"text" : "\xc3\xbc", "n": 1e400}}\n' % seq


def test_a_session_begins_with_the_lines_byte_for_byte_and_goes_on(store: Any) -> None:
    session = store.create_from(HEADER, [line(0) + line(1), line(2)])
    assert b"".join(text + b"\n" for text in session.lines()) == line(0) + line(1) + line(2)
    assert (session.header, session.next_seq, store.position) == (HEADER, 3, 3)
    assert session.info.events == 3
    done = session.append([NewEvent("feedback/record", {"text": "more"})], expected_seq=3)
    assert (done.from_seq, done.position) == (3, 4)
    assert [fact.position for fact in store.session("s1").read()] == [1, 2, 3, 4]


def test_the_head_is_that_of_a_session_that_was_made_and_appended_to(store: Any) -> None:
    session = store.create_from(HEADER, [json_text.dumps(EVENT) + b"\n"])
    other = MemoryLog(lambda: 5).create(HEADER)
    other.append([NewEvent(EVENT["type"], EVENT["data"], EVENT["time"])])
    assert session.info.head == other.info.head


EVENT = {"type": "feedback/record", "seq": 0, "time": 7, "data": {"text": "x"}}


def test_a_session_may_begin_with_nothing(store: Any) -> None:
    assert store.create_from(HEADER, []).next_seq == 0
    assert [info.id for info in store.sessions()] == ["s1"]


def test_an_id_that_is_taken_is_refused_and_the_session_is_as_it_was(store: Any) -> None:
    store.create_from(HEADER, [line(0)])
    with pytest.raises(SessionExists):
        store.create_from(HEADER, [line(0), line(1)])
    assert store.session("s1").next_seq == 1


PACKED = (
    b'{"type":"text-chunks","seq0":0,"time0":1,'
    b'"data":{"turn":1,"step":1,"index":0,"dt":[0,0],"texts":["a","b","c"]}}\n'
)


@pytest.mark.parametrize(
    "blocks",
    [[line(0), line(2)], [line(1)], [line(0), line(0)], [line(0), b"{\n"], [line(0), b"\n"], [PACKED]],
    ids=["gap", "late-start", "repeat", "no-json", "blank", "packed"],
)
def test_lines_that_are_no_sound_events_leave_no_session(store: Any, blocks: list[bytes]) -> None:
    with pytest.raises(UsageError, match="'s1'"):
        store.create_from(HEADER, blocks)
    assert store.sessions() == []
    assert store.position == 0


def test_an_error_on_the_way_leaves_no_session(store: Any) -> None:
    def breaking() -> Iterator[bytes]:
        yield line(0)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        store.create_from(HEADER, breaking())
    assert store.sessions() == []
    assert store.create_from(HEADER, [line(0)]).next_seq == 1


@settings(max_examples=50)
@given(events=sessions())
def test_the_line_of_a_fact_is_the_line_that_an_append_writes(events: list[dict[str, Any]]) -> None:
    """``Recorded.line`` and ``NewEvent.line`` agree, so that copied and written sessions look alike."""
    for fact in recorded(events):
        event = NewEvent(
            fact.type, fact.json, fact.time_ms, fact.surface_op, fact.source_seqs, ignorable=fact.ignorable
        )
        copied = Recorded(
            fact.session, fact.seq, fact.time_ms, fact.type, fact.raw, fact.surface_op, fact.source_seqs
        )
        assert copied.with_json(fact.json).line() == event.line(fact.seq, 0)
