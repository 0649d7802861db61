"""Model calls with their chunks: what went in comes out, in both layouts; how each ended; found without reading all."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_logs import recorded
from streams import FAILURE, Session, assert_same_up_to_the_cut, log_of, sessions_of_calls
from twins import Log

from playhead.eventstore import json_text
from playhead.eventstore.assembler import BlockAssembler, OpenUnknownBlock
from playhead.eventstore.chunks import Chunk, TextDelta
from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import Foldable
from playhead.replay.attempt import Attempt, attempt_at, attempt_of, attempts

Json = dict[str, Any]
PLACE = {"turn": 1, "step": 1}
TURN = ("turn/start", {"turn": 1})
STEP = ("step/start", PLACE)
STEP_END = ("step/end", PLACE)


def chunk(**chunk: Any) -> tuple[str, Json]:
    return "assistant/chunk", {**PLACE, "chunk": chunk}


def text(piece: str, index: Any = 0) -> tuple[str, Json]:
    return chunk(type="text-delta", index=index, text=piece)


def finish(kind: str, **more: Any) -> tuple[str, Json]:
    return chunk(type="finish", reason={"kind": kind, **more})


def turn_end(kind: str, **more: Any) -> tuple[str, Json]:
    return "turn/end", {"turn": 1, "reason": {"kind": kind, **more}}


START = chunk(type="block-start", index=0, blockType="text")
RETRY = ("llm/retry", {"retryId": "r", **PLACE, "retry": 1, "delayMs": 5, "failure": FAILURE})
RETRY_STARTED = ("llm/retry-started", {"retryId": "r", **PLACE, "retry": 1})
ERROR = finish("error", failure=FAILURE)


def written(*events: tuple[Any, ...], header: SessionHeader | None = None) -> Log:
    """The log of (type, data, further members of the envelope), one event every 10 ms."""
    objects = [
        {"type": event[0], "seq": seq, "time": 10 * seq, "data": event[1], **(event[2] if event[2:] else {})}
        for seq, event in enumerate(events)
    ]
    return Log.of(recorded(objects), header)


def embedded(stream: Any, type: str = "assistant/attempt") -> Log:
    return written(TURN, STEP, (type, {**PLACE, "stream": stream}), STEP_END)


def only(log: Log) -> Attempt:
    (attempt,) = attempts(log)
    return attempt


def pieces(attempt: Attempt) -> list[tuple[int, Json]]:
    return [(piece.time_ms, piece.chunk.to_json()) for piece in attempt.chunks()]


# Chunks


@settings(max_examples=80)
@given(sessions_of_calls())
def test_chunks_come_back_as_they_went_in_from_every_layout(session: Session) -> None:
    for log in (
        session.as_chunk_events(),
        session.as_chunk_events(packed=True),
        session.as_embedded_streams(),
    ):
        found = [attempt for attempt in attempts(log) if attempt.has_chunks]
        assert [
            (one.turn, one.step, one.number, tuple(one.chunks(strict=True)), one.call.finish) for one in found
        ] == [(call.turn, call.step, call.number, call.chunks, call.finish) for call in session.calls]
        assert [one.call.message_seq is not None for one in found] == [
            one.has_message for one in session.calls
        ]
        assert not any(problem for one in found for problem in one.problems())


@settings(max_examples=60)
@given(sessions_of_calls())
def test_the_sources_of_a_call_are_its_chunk_events_or_the_one_event_that_holds_its_stream(
    session: Session,
) -> None:
    log = session.as_chunk_events()
    for attempt in attempts(log):
        for seq, piece in zip(attempt.source_seqs(), attempt.chunks(), strict=True):
            fact = log.facts[seq]
            assert (fact.seq, fact.time_ms, fact.type) == (seq, piece.time_ms, "assistant/chunk")
    for attempt in attempts(session.as_embedded_streams()):
        assert attempt.source_seqs() == ((attempt.seq,) if [*attempt.chunks()] else ())


@settings(max_examples=60)
@given(sessions_of_calls(), st.data())
def test_cutting_the_deltas_anew_leaves_the_blocks_of_every_call_unchanged(
    session: Session, data: st.DataObject
) -> None:
    again = Session(list(_recut(session.events, data)))
    for one, other in zip(
        _blocks(session.as_chunk_events()), _blocks(again.as_chunk_events(packed=True)), strict=True
    ):
        assert one == other


def _recut(events: list[Json], data: st.DataObject) -> Iterator[Json]:
    """The events with each text in one or two deltas; sources, which would have to follow, are left out."""
    at = 0
    for event in events:
        told = {name: value for name, value in event.items() if name != "sourceEventSeqs"}
        chunk = event["data"].get("chunk", {})
        key = {"text-delta": "text", "reasoning-delta": "text", "tool-call-delta": "argumentsDelta"}.get(
            chunk.get("type")
        )
        texts = [None]
        if key is not None:
            cut = data.draw(st.integers(0, len(chunk[key])))
            texts = [chunk[key][:cut], chunk[key][cut:]]
        for piece in texts:
            more = {} if key is None else {"data": {**event["data"], "chunk": {**chunk, key: piece}}}
            yield {**told, **more, "seq": at}
            at += 1


def _blocks(log: Log) -> list[Any]:
    return [_assembled([piece.chunk for piece in attempt.chunks()]) for attempt in attempts(log)]


def _assembled(chunks: list[Chunk]) -> Any:
    assembler = BlockAssembler(chunks)
    try:
        return assembler.blocks(), assembler.replay_state, assembler.usage
    except OpenUnknownBlock as error:
        return str(error)


def test_a_stream_that_begins_with_a_delta_begins_there() -> None:
    log = written(
        TURN,
        STEP,
        ("request/context", {}),
        text("a"),
        text("b"),
        ERROR,
        RETRY,
        RETRY_STARTED,
        text("c"),
        ERROR,
    )
    first, second = attempts(log)
    assert [piece.chunk for piece in first.chunks()][:2] == [TextDelta(0, "a"), TextDelta(0, "b")]
    assert first.source_seqs() == (3, 4, 5)
    assert second.source_seqs() == (8, 9)


def test_what_is_no_chunk_is_left_out_and_told_and_refused_when_strict() -> None:
    log = written(
        TURN,
        STEP,
        START,
        ("assistant/chunk", {**PLACE, "chunk": {"type": "laughter", "index": 0}}),
        text("a", index="first"),
        ("assistant/chunk", {**PLACE, "step": 2, "chunk": {"type": "text-delta", "index": 0, "text": "x"}}),
        ("assistant/chunk", {**PLACE, "chunk": None}),
        text("b"),
        finish("stop"),
    )
    attempt = only(log)
    assert [piece.chunk for piece in attempt.chunks()][1] == TextDelta(0, "b")
    assert attempt.source_seqs() == (2, 7, 8)
    assert [(problem.seq, problem.message) for problem in attempt.problems()] == [
        (3, "unknown chunk type 'laughter': its meaning cannot be guessed; a newer release may know it"),
        (4, "the index of a text-delta chunk is not a whole number"),
        (5, "a chunk of turn 1, step 2 lies among those of turn 1, step 1"),
        (6, "a chunk is an object"),
    ]
    with pytest.raises(CorruptLog, match="'s1': seq 3: unknown chunk type") as caught:
        list(attempt.chunks(strict=True))
    assert caught.value.seq == 3


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (7, "None is no type of an entry"),
        ({"type": "song"}, "'song' is no type of an entry"),
        ({"type": ["chunk"]}, "['chunk'] is no type of an entry"),
        ({"type": "chunk", "chunk": {"type": "usage", "usage": {}}}, "its time is not a whole number"),
        ({"type": "chunk", "time": 5, "chunk": {"type": "song"}}, "unknown chunk type 'song'"),
        (
            {"type": "text-chunks", "time0": 5, "index": 0, "dt": [1, 2], "texts": ["a"]},
            "dt does not hold one gap",
        ),
        (
            {"type": "text-chunks", "time0": 5, "index": 0.5, "dt": [], "texts": ["a"]},
            "its index is not a whole",
        ),
        (
            {"type": "text-chunks", "time0": "5", "index": 0, "dt": [], "texts": ["a"]},
            "time0 is not a whole number",
        ),
        (
            {"type": "text-chunks", "time0": 5, "index": 0, "dt": [], "texts": "a"},
            "texts is not a list of texts",
        ),
        (
            {"type": "tool-call-chunks", "time0": 5, "index": 0, "dt": [], "args": [""]},
            "does not have exactly",
        ),
        (
            {"type": "text-chunks", "time0": 5, "index": 0, "dt": [], "texts": ["a"], "seq0": 3},
            "not have exactly",
        ),
    ],
)
def test_an_entry_of_an_embedded_stream_that_says_nothing_is_told_with_its_place(
    entry: Any, message: str
) -> None:
    sound = {"type": "text-chunks", "time0": 5, "index": 0, "dt": [], "texts": ["a"]}
    attempt = only(embedded([sound, entry, sound]))
    assert pieces(attempt) == [(5, {"type": "text-delta", "index": 0, "text": "a"})] * 2
    (problem,) = attempt.problems()
    assert problem.seq == 2
    assert problem.message.startswith("entry 1 of the stream: ")
    assert message in problem.message


def test_a_run_in_an_embedded_stream_is_one_delta_a_text_each_with_its_time() -> None:
    runs = [
        {"type": "tool-call-chunks", "time0": 10, "index": 1, "dt": [], "id": "c", "name": "", "args": [""]},
        {
            "type": "tool-call-chunks",
            "time0": 9,
            "index": 1,
            "dt": [5, -7],
            "id": "c",
            "args": ["{", "", "}"],
        },
        {"type": "reasoning-chunks", "time0": 8, "index": 2, "dt": [1], "texts": ["\ud83d", "\ude00"]},
    ]
    call = {"type": "tool-call-delta", "index": 1, "id": "c"}
    thought = {"type": "reasoning-delta", "index": 2}
    assert pieces(only(embedded(runs))) == [
        (10, {**call, "name": "", "argumentsDelta": ""}),
        (9, {**call, "argumentsDelta": "{"}),
        (14, {**call, "argumentsDelta": ""}),
        (7, {**call, "argumentsDelta": "}"}),
        (8, {**thought, "text": "\ud83d"}),
        (9, {**thought, "text": "\ude00"}),
    ]


def test_chunk_events_beside_an_embedded_stream_are_not_part_of_it() -> None:
    stream = [{"type": "chunk", "time": 5, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}]
    log = written(TURN, STEP, text("a"), ("assistant/message", {**PLACE, "message": {}, "stream": stream}))
    assert [piece.time_ms for piece in only(log).chunks()] == [5]


@given(st.binary(max_size=80))
def test_any_data_of_a_chunk_or_a_stream_can_be_read(noise: bytes) -> None:
    facts = list(written(TURN, STEP, START, STEP_END).facts)
    for type in ("assistant/chunk", "assistant/message", "assistant/attempt", "compaction/summary"):
        facts[3] = Recorded(facts[3].session, Seq(3), 30, type, noise)
        for attempt in attempts(Log.of(facts)):
            assert isinstance([*attempt.chunks(), *attempt.problems(), *attempt.synthesised_chunks()], list)


# Endings and retries


MESSAGE = ("assistant/message", {**PLACE, "message": {"id": "a"}}, {"surfaceOp": "append"})
INTERRUPTED = (
    "assistant/message",
    {**PLACE, "message": {"id": "a"}, "interrupted": True},
    {"surfaceOp": "append"},
)
CUT = finish("error", failure={"message": "gone", "code": "TRANSPORT"})


@pytest.mark.parametrize(
    ("behind", "outcome", "ending"),
    [
        ([START, finish("stop"), MESSAGE], "finished", "finish"),
        ([START, ERROR, STEP_END, turn_end("error", error=FAILURE)], "failed", "error"),
        ([START, CUT], "failed", "cut"),
        ([finish("error", failure={"message": "early", "code": "STREAM_CLOSED"})], "failed", "cut"),
        ([START, STEP_END, turn_end("error", error={"message": "slow", "code": "TIMEOUT"})], "failed", "cut"),
        ([START, INTERRUPTED], "cancelled", "cancelled"),
        ([START, STEP_END, turn_end("aborted", reason={"kind": "user"})], "cancelled", "cancelled"),
        ([START, STEP_END, turn_end("interrupted")], "crashed", "crashed"),
        ([START], "open", "open"),
        ([STEP_END, turn_end("interrupted")], "unanswered", "silence"),
        ([STEP_END, turn_end("error", error={"message": "gone", "code": "TRANSPORT"})], "unanswered", "cut"),
    ],
)
def test_how_a_call_ended_is_told(behind: list[Any], outcome: str, ending: str) -> None:
    attempt = only(written(TURN, STEP, *behind))
    assert (attempt.outcome, attempt.ending) == (outcome, ending)
    assert attempt.has_chunks == (outcome != "unanswered")


def test_a_failure_comes_with_what_the_provider_said() -> None:
    failure = only(written(TURN, STEP, ERROR)).failure
    assert failure is not None
    assert (failure.code, failure.message, failure.status) == ("SERVER", "busy", 503)


def test_the_calls_of_a_step_know_which_was_made_again_for_which() -> None:
    log = written(
        TURN,
        STEP,
        ERROR,
        RETRY,
        RETRY_STARTED,
        START,
        CUT,
        RETRY,
        RETRY_STARTED,
        START,
        finish("stop"),
        MESSAGE,
    )
    first, second, third = attempts(log)
    assert first.retries == second.retries == third.retries == (first, second, third)
    assert (first.retry_of, first.retried_by) == (None, second)
    assert (second.retry_of, second.retried_by) == (first, third)
    assert (third.retry_of, third.retried_by) == (second, None)


def test_a_step_of_the_same_number_is_no_retry() -> None:
    again = [("step/start", {**PLACE, "step": 2}), ("step/end", {**PLACE, "step": 2})]
    first, other, second = attempts(written(TURN, STEP, ERROR, STEP_END, *again, STEP, START))
    assert (first.retries, other.retries, second.retries) == ((first,), (other,), (second,))


# Summaries, forks


SUMMARY = {
    "llmStreamCall": True,
    "provider": "p",
    "rawOutput": [{"type": "text", "text": "sum"}, {"type": "picture", "of": "a cat"}],
    "usage": {"inputTokens": 3, "outputTokens": 2},
}


def test_the_stream_of_a_summary_is_made_up_on_request_and_never_passed_off_as_recorded() -> None:
    attempt = only(written(("compaction/summary", SUMMARY)))
    assert (attempt.is_summary, attempt.has_chunks, list(attempt.chunks())) == (True, False, [])
    assert [(piece.time_ms, piece.chunk.to_json()) for piece in attempt.synthesised_chunks(strict=True)] == [
        (0, {"type": "block-start", "index": 0, "blockType": "text"}),
        (0, {"type": "block-end", "index": 0, "block": {"type": "text", "text": "sum"}}),
        (0, {"type": "block-start", "index": 1, "blockType": "picture"}),
        (0, {"type": "block-end", "index": 1, "block": {"type": "picture", "of": "a cat"}}),
        (0, {"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 2}}),
        (0, {"type": "finish", "reason": {"kind": "stop"}}),
    ]


def test_a_summary_without_usage_has_none_in_its_stream() -> None:
    attempt = only(written(("compaction/summary", {**SUMMARY, "usage": None, "rawOutput": []})))
    assert [piece.chunk.tag for piece in attempt.synthesised_chunks()] == ["finish"]


def test_a_summary_that_keeps_no_output_has_no_stream_and_says_so_when_strict() -> None:
    attempt = only(written(("compaction/summary", {"llmStreamCall": True})))
    assert list(attempt.synthesised_chunks()) == []
    with pytest.raises(CorruptLog, match="does not say what the model's output was"):
        list(attempt.synthesised_chunks(strict=True))


def test_a_recorded_call_has_nothing_made_up() -> None:
    assert list(only(written(TURN, STEP, START, finish("stop"))).synthesised_chunks()) == []


def test_calls_of_the_parent_are_marked_by_the_header_or_by_the_last_marker() -> None:
    call = [START, finish("stop"), MESSAGE, STEP_END, turn_end("completed")]
    marker = ("session/end-seed", {"inherited": True})
    events = [TURN, STEP, *call, TURN, STEP, *call, ("session/end-seed", {}), TURN, STEP, *call]
    counted = SessionHeader(SessionId("s1"), 1, parent=SessionId("p"), seed_length=15)
    assert [one.is_inherited for one in attempts(written(*events, header=counted))] == [True, True, False]
    marked = SessionHeader(SessionId("s1"), 1, version=4, parent=SessionId("p"), is_seeded=True)
    events = [TURN, STEP, *call, marker, TURN, STEP, *call, marker, TURN, STEP, *call]
    assert [one.is_inherited for one in attempts(written(*events, header=marked))] == [True, True, False]


# Finding one


@settings(max_examples=80)
@given(sessions_of_calls())
def test_a_call_found_by_its_place_or_its_events_is_the_one_among_all(session: Session) -> None:
    for log in (session.as_chunk_events(), session.as_embedded_streams()):
        every = list(attempts(log))
        for attempt in every:
            assert attempt.turn is not None
            assert attempt.step is not None
            assert attempt_of(log, attempt.turn, attempt.step, attempt.number) == attempt
            assert attempt_of(log, attempt.turn, attempt.step) == attempt.retries[-1]
            for seq in {attempt.seq, *attempt.source_seqs(), attempt.call.message_seq or attempt.seq}:
                found = attempt_at(log, seq)
                assert found is not None
                assert found == attempt
                assert list(found.chunks()) == list(attempt.chunks())
        for turn in range(5):
            later = [attempt for attempt in every if (attempt.turn or 0) >= turn]
            assert list(attempts(log, from_turn=turn)) == later
        assert attempt_of(log, 9, 1) is None
        assert attempt_at(log, len(log.facts) + 5) is None or every[-1].to_seq is None


@settings(max_examples=80)
@given(sessions_of_calls(), st.randoms(use_true_random=False))
def test_in_a_log_out_of_order_what_is_found_is_a_call_of_the_log(session: Session, random: Any) -> None:
    lines = session.lines(packed=False)
    random.shuffle(lines)
    renumbered = [json_text.dumps(json_text.parse(line) | {"seq": seq}) for seq, line in enumerate(lines)]
    log = log_of(renumbered)
    every = {attempt.seq: attempt for attempt in attempts(log)}
    for attempt in every.values():
        for found in (
            attempt_of(log, attempt.turn or 0, attempt.step or 0, attempt.number),
            attempt_at(log, attempt.seq),
        ):
            if found is not None:
                assert list(found.chunks()) == list(every[found.seq].chunks())


class Watched:
    """A session that counts the events it hands out."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.header = log.header
        self.next_seq = log.next_seq
        self.types: list[str] = []

    def events(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        deltas: bool = True,
        without: Collection[str] = (),
    ) -> Iterator[Recorded]:
        for event in self.log.events(from_seq, to_seq, deltas=deltas, without=without):
            self.types.append(event.type)
            yield event


def test_finding_a_call_reads_the_beginnings_of_turns_and_then_its_own_turn() -> None:
    call = [START, text("a"), text("b"), finish("stop"), MESSAGE, STEP_END]
    turns: list[Any] = []
    for turn in range(1, 41):
        events: list[tuple[Any, ...]] = [("turn/start", {}), STEP, *call, ("turn/end", {})]
        for type, data, *more in events:
            placed = {name: turn if name == "turn" else value for name, value in {**PLACE, **data}.items()}
            turns.append((type, placed, *more))
    session: Foldable
    session = watched = Watched(written(*turns))
    found = attempt_of(session, 20, 1)
    assert found is not None
    assert watched.types.count("turn/start") == 20
    assert len(watched.types) == 20 + len([STEP, START, finish, MESSAGE, STEP_END, turn_end])
    watched.types.clear()
    assert [piece.chunk.tag for piece in found.chunks()] == [
        "block-start",
        "text-delta",
        "text-delta",
        "finish",
    ]
    assert watched.types == ["assistant/chunk"] * 4
    watched.types.clear()
    assert next(attempts(session, from_turn=39)).turn == 39
    assert watched.types.count("assistant/message") == 1


@settings(max_examples=60)
@given(sessions_of_calls(), st.data())
def test_calls_up_to_a_cut_are_unchanged_and_the_last_one_holds_what_had_come(
    session: Session, data: st.DataObject
) -> None:
    log = session.as_chunk_events()
    cut = data.draw(st.integers(0, len(log.facts)))
    assert_same_up_to_the_cut(log, Log(log.header, log.facts[:cut]))
