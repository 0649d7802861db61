"""A session as moments: every call with exactly its chunks, and what happened meanwhile in its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from session_logs import recorded
from streams import Session, sessions_of_calls
from twins import Log, read_log, recorded_logs

from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.replay.attempt import Attempt, attempts
from playhead.replay.moments import Began, Came, Ended, Happened, Moment, call_moments, moments
from playhead.replay.part import Part, part
from playhead.replay.timed_chunk import TimedChunk

Json = dict[str, Any]
PLACE = {"turn": 1, "step": 1}


def of(log: Log | Part, *types: str) -> list[Moment]:
    whole = log if isinstance(log, Part) else part(log)
    return list(moments(whole, lambda event: event.type in types))


def chunks_by_call(found: list[Moment]) -> dict[int, list[TimedChunk]]:
    """The chunks of each call between its one beginning and its one end."""
    running: dict[int, list[TimedChunk]] = {}
    over: dict[int, list[TimedChunk]] = {}
    for moment in found:
        match moment:
            case Began(attempt=attempt):
                assert attempt.seq not in running | over
                running[attempt.seq] = []
            case Came(attempt=attempt, time_ms=time_ms, chunk=chunk):
                running[attempt.seq].append(TimedChunk(time_ms, chunk))
            case Ended(attempt=attempt, chunks=chunks):
                over[attempt.seq] = running.pop(attempt.seq)
                assert len(over[attempt.seq]) == chunks
            case Happened():
                pass
    assert not running
    return over


def told(found: list[Moment]) -> list[str]:
    """The moments in a few words each."""
    words = []
    for moment in found:
        match moment:
            case Began():
                words.append("begins")
            case Came(chunk=chunk):
                words.append(getattr(chunk, "text", chunk.tag))
            case Ended(attempt=attempt):
                words.append(f"ends {attempt.outcome}")
            case Happened(event=event):
                words.append(event.type)
    return words


def event(type: str, time: int, data: Json) -> Json:
    return {"type": type, "time": time, "data": data}


def log(*events: Json, version: int = 0) -> Log:
    header = SessionHeader(SessionId("s1"), 1, version=version, is_seeded=False if version > 1 else None)
    return Log(header, tuple(recorded([{**event, "seq": seq} for seq, event in enumerate(events)])))


def delta(text: str) -> Json:
    return {"type": "text-delta", "index": 0, "text": text}


START = {"type": "block-start", "index": 0, "blockType": "text"}
FINISH = {"type": "finish", "reason": {"kind": "stop"}}


def streamed(*timed: tuple[int, Json], time: int) -> Json:
    """A message of format 2 that holds its stream."""
    stream = [{"type": "chunk", "time": at, "chunk": chunk} for at, chunk in timed]
    return event("assistant/attempt", time, {**PLACE, "stream": stream})


def opened(at: int = 100) -> list[Json]:
    prompt = {"id": "u", "role": "user", "content": [], "source": {"kind": "user"}}
    return [
        event("turn/start", at, {"turn": 1}),
        event("step/start", at, PLACE),
        event("user/message", at + 1, prompt),
    ]


STREAM = ((200, START), (300, delta("a")), (400, delta("b")), (500, FINISH))


# Calls


@settings(max_examples=80)
@given(sessions_of_calls())
def test_one_pass_gives_every_call_the_chunks_that_it_gives_itself_in_both_layouts(session: Session) -> None:
    for written in (
        session.as_chunk_events(),
        session.as_chunk_events(packed=True),
        session.as_embedded_streams(),
    ):
        expected = {attempt.seq: list(attempt.chunks()) for attempt in attempts(written)}
        assert chunks_by_call(of(written)) == expected
        assert list(call_moments(part(written))) == of(written)


@pytest.mark.heavy
@pytest.mark.parametrize("path", recorded_logs())
def test_recorded_logs_give_every_call_its_chunks_in_one_pass(path: Any) -> None:
    written = read_log(path)
    expected = {attempt.seq: list(attempt.chunks()) for attempt in attempts(written)}
    assert chunks_by_call(of(written)) == expected
    assert list(call_moments(part(written))) == of(written)


@settings(max_examples=40)
@given(sessions_of_calls())
def test_a_part_from_a_turn_on_plays_the_calls_of_that_turn_and_later(session: Session) -> None:
    written = session.as_chunk_events()
    last = max(call.turn for call in attempts_of(written))
    for turn in range(1, last + 1):
        played = chunks_by_call(of(part(written, from_turn=turn)))
        assert played == {a.seq: list(a.chunks()) for a in attempts(written) if (a.turn or 0) >= turn}
        alone = chunks_by_call(of(part(written, turn=turn)))
        assert alone == {a.seq: list(a.chunks()) for a in attempts(written) if a.turn == turn}


def attempts_of(written: Log) -> list[Any]:
    return [attempt.call for attempt in attempts(written)]


def test_a_call_that_has_no_chunks_begins_and_ends_in_its_place() -> None:
    written = log(*opened(), event("step/end", 900, PLACE), event("turn/end", 901, {"turn": 1, "reason": {}}))
    assert told(of(written, "user/message", "step/end")) == [
        "begins",
        "user/message",
        "ends unanswered",
        "step/end",
    ]


def test_the_request_goes_out_after_what_is_logged_before_the_first_chunk() -> None:
    chunks = [event("assistant/chunk", time, {**PLACE, "chunk": chunk}) for time, chunk in STREAM]
    written = log(*opened(), event("request/context", 150, {}), *chunks)
    begun = next(moment for moment in of(written) if isinstance(moment, Began))
    assert begun.time_ms == 150
    assert [moment.time_ms for moment in of(log(*opened(), streamed(*STREAM, time=501), version=2))] == [
        101,
        200,
        300,
        400,
        500,
        500,
    ]


def test_only_the_gaps_within_a_stream_are_no_idle_time() -> None:
    chunks = [event("assistant/chunk", time, {**PLACE, "chunk": chunk}) for time, chunk in STREAM]
    command = event("command/run", 350, {"name": "x"})
    written = log(*opened(), *chunks[:2], command, *chunks[2:], event("step/end", 600, PLACE))
    found = of(written, "command/run", "step/end")
    assert [(word, moment.idle) for word, moment in zip(told(found), found, strict=True)] == [
        ("begins", True),
        ("block-start", True),
        ("a", False),
        ("command/run", False),
        ("b", False),
        ("finish", False),
        ("ends finished", False),
        ("step/end", True),
    ]


# What happens while an answer streams, where the stream lies inside an event


def test_what_happened_while_an_embedded_stream_came_stands_between_its_chunks() -> None:
    command, title = event("command/run", 350, {"name": "x"}), event("session/title", 150, {"title": "t"})
    written = log(*opened(), title, command, streamed(*STREAM, time=501), version=2)
    found = told(of(written, "command/run", "session/title", "user/message"))
    assert found == [
        "user/message",
        "session/title",
        "begins",
        "block-start",
        "a",
        "command/run",
        "b",
        "finish",
        "ends finished",
    ]


def test_a_clock_that_went_back_moves_nothing_into_a_stream() -> None:
    late = event("command/run", 5_000, {"name": "x"})
    prompt = log(*opened(5_000), late, streamed(*STREAM, time=501), version=2)
    assert told(of(prompt, "command/run", "user/message"))[:3] == ["user/message", "command/run", "begins"]


@pytest.mark.parametrize("type", ["user/message", "tool/result", "step/start", "llm/retry", "compaction/end"])
def test_what_a_call_follows_from_stays_in_front_of_it(type: str) -> None:
    before = event(type, 350, {"turn": 1, "step": 1, "id": "u", "content": []})
    written = log(*opened(), before, streamed(*STREAM, time=501), version=2)
    words = told(of(written, type))
    assert words.index("a") > max(at for at, word in enumerate(words) if word == type)


def test_events_that_wait_for_a_stream_which_never_comes_are_given_all_the_same() -> None:
    written = log(*opened(), event("command/run", 350, {"name": "x"}), version=2)
    assert told(of(written, "command/run")) == ["begins", "command/run", "ends unanswered"]
    many = [event("command/run", 350, {"name": str(number)}) for number in range(2_500)]
    found = of(log(*opened(), *many, streamed(*STREAM, time=501), version=2), "command/run")
    names = [moment.event.json["name"] for moment in found if isinstance(moment, Happened)]
    assert names == [str(number) for number in range(2_500)]


# Parts


def three_turns() -> Log:
    events = []
    for turn in (1, 2, 4):
        place = {"turn": turn, "step": 1}
        events += [
            event("turn/start", 10, {"turn": turn}),
            event("step/start", 11, place),
            event("assistant/chunk", 12, {**place, "chunk": START}),
            event("assistant/chunk", 13, {**place, "chunk": FINISH}),
            event("step/end", 14, place),
            event("turn/end", 15, {"turn": turn, "reason": {"kind": "completed"}}),
            event("session/title", 16, {"title": "t"}),
        ]
    return log(*events)


def test_a_part_begins_with_the_turn_and_ends_before_the_next_one() -> None:
    written = three_turns()
    assert (part(written, turn=2).from_seq, part(written, turn=2).to_seq) == (7, 14)
    assert (part(written, from_turn=3).from_seq, part(written, from_turn=3).to_seq) == (14, None)
    assert (part(written, turn=4).from_seq, part(written, turn=4).to_seq) == (14, None)
    assert [event.seq for event in part(written, turn=2).events(7)] == list(range(7, 14))


@pytest.mark.parametrize(
    ("first", "last", "seqs"),
    [
        (1, 2, (0, 14)),
        (2, 3, (7, 14)),
        (2, 4, (7, None)),
        (None, 1, (0, 7)),
        (3, 9, (14, None)),
        (0, 0, None),
    ],
)
def test_a_part_can_be_a_range_of_turns(
    first: int | None, last: int, seqs: tuple[int, int | None] | None
) -> None:
    if seqs is None:
        with pytest.raises(UsageError, match="no turn 0: its turns are 1 to 4"):
            part(three_turns(), from_turn=first, to_turn=last)
        return
    found = part(three_turns(), from_turn=first, to_turn=last)
    assert (found.from_seq, found.to_seq) == seqs


def test_a_range_of_turns_ends_where_the_session_is_cut() -> None:
    found = part(three_turns(), from_turn=2, to_turn=4, at=9)
    assert (found.from_seq, found.to_seq) == (7, 10)
    with pytest.raises(UsageError, match="no turn from 2 to 4 up to seq 5: its only turn is 1"):
        part(three_turns(), from_turn=2, to_turn=4, at=5)


def test_a_call_that_streams_at_the_end_of_a_part_is_open() -> None:
    cut = part(three_turns(), at=9)
    assert told(of(cut))[-2:] == ["block-start", "ends open"]
    assert cut.next_seq == 10


@pytest.mark.parametrize(("wanted", "there"), [({"turn": 3}, "1 to 4"), ({"from_turn": 5}, "1 to 4")])
def test_a_turn_that_is_not_there_is_refused_with_those_that_are(wanted: Json, there: str) -> None:
    with pytest.raises(UsageError, match=there):
        part(three_turns(), **wanted)


def test_a_session_without_turns_has_no_turn() -> None:
    with pytest.raises(UsageError, match="it has no turns"):
        part(log(), turn=1)


class Counting:
    """A session that counts the events which are read."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.header, self.next_seq = log.header, log.next_seq
        self.read = 0

    def events(self, *range: Any, **options: Any) -> Any:
        for event in self._log.events(*range, **options):
            self.read += 1
            yield event


def test_moments_come_before_the_rest_of_the_session_is_read() -> None:
    session = Counting(three_turns())
    run = moments(part(session), lambda _event: False)
    assert isinstance(next(run), Began)
    assert session.read <= 7 + 3  # the first turn without deltas, and up to the first chunk
    assert isinstance(next(run), Came)
    assert isinstance(list(run)[-1], Ended)


def test_calls_of_an_attempt_are_those_that_the_moments_carry() -> None:
    found = [moment for moment in of(three_turns()) if not isinstance(moment, Happened)]
    assert [moment.attempt.turn for moment in found[::4]] == [1, 2, 4]
    assert all(isinstance(moment.attempt, Attempt) for moment in found)
