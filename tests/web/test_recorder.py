"""What a proxy saw becomes sessions: one for each conversation, with its turns, steps, messages and model calls."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chat_payloads import bodies, mutated
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import (
    DIALECTS,
    JSON,
    KEY,
    STREAM,
    answer,
    answered,
    check,
    chunks_of,
    events_of,
    only,
    open_new,
    problems,
    recorded,
    request_of,
    result,
    said,
    sessions,
    shape,
    transcript,
)

import playhead
from playhead.adapters.providers.asked import asked
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import dialect
from playhead.adapters.providers.sse import encode_event
from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, ReasoningDelta, TextDelta, ToolCallDelta, decode_chunk
from playhead.eventstore.redaction import SHORTEST, Secrets
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.store import SqlStore
from playhead.replay.attempt import Attempt, attempts
from playhead.web import recorder
from playhead.web.recorder_secrets import HiddenChunks

OPENAI = dialect("openai-chat")
NAMES = [
    "role",
    "content",
    "type",
    "text",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "id",
    "name",
    "input",
    "function",
]
CALLED = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with open_new(tmp_path) as opened:
        yield opened


@pytest.fixture(params=DIALECTS)
def spoken(request: pytest.FixtureRequest) -> ProviderDialect:
    return dialect(request.param)


def calls_of(store: SqlStore) -> list[Attempt]:
    return [attempt for attempt in attempts(only(store)) if not attempt.is_inherited]


# One conversation

LS = ("c1", "ls", '{"path": "."}')
CAT = ("c2", "cat", '{"path": "a"}')
TALK = [
    ([], [said("Hi.")], ("Hello there.",)),
    ([answered("Hello there.")], [said("List.")], ("Let me see.", LS, CAT)),
    ([answered("Let me see.", LS, CAT)], [result("c1", "a b"), result("c2", "aaa")], ("Two files.",)),
    ([answered("Two files.")], [said("Thanks.")], ("Welcome.",)),
]


def talk(store: SqlStore, spoken: ProviderDialect, *, restarts: bool = False, **rules: Any) -> None:
    """A conversation of three turns, with tools in the second."""
    history: list[dict[str, Any]] = []
    if restarts:
        for earlier, added, said_back in TALK:
            history += [*earlier, *added]
            with recorded(store, dialect=spoken, **rules) as recording:
                recording.call(spoken, history, *said_back)
        return
    with recorded(store, dialect=spoken, **rules) as recording:
        for earlier, added, said_back in TALK:
            history += [*earlier, *added]
            recording.call(spoken, history, *said_back)


@pytest.mark.parametrize("restarts", [False, True], ids=["one-proxy", "a-proxy-per-call"])
def test_a_conversation_with_tools_is_one_session_with_its_turns_and_steps(
    store: SqlStore, spoken: ProviderDialect, restarts: bool
) -> None:
    talk(store, spoken, restarts=restarts)
    session = only(store)
    check(session)
    assert transcript(session) == [
        "user: Hi.",
        "model: Hello there.",
        "user: List.",
        'model: Let me see. ls({"path": "."}) cat({"path": "a"})',
        "tool: a b",
        "tool: aaa",
        "model: Two files.",
        "user: Thanks.",
        "model: Welcome.",
    ]
    assert shape(session) == [
        "recording/started",
        *("turn/start 1", "step/start 1 1", "user/message", "request/header", "request/context"),
        *("assistant/message", "step/end 1 1", "turn/end 1"),
        *("turn/start 2", "step/start 2 1", "user/message", "assistant/message"),
        *("tool/call", "tool/result", "tool/call", "tool/result", "step/end 2 1"),
        *("step/start 2 2", "assistant/message", "step/end 2 2", "turn/end 2"),
        *(
            "turn/start 3",
            "step/start 3 1",
            "user/message",
            "assistant/message",
            "step/end 3 1",
            "turn/end 3",
        ),
    ]
    found = calls_of(store)
    assert [(call.turn, call.step, call.number, call.outcome) for call in found] == [
        (1, 1, 1, "finished"),
        (2, 1, 1, "finished"),
        (2, 2, 1, "finished"),
        (3, 1, 1, "finished"),
    ]
    assert all(call.call.tokens and call.call.tokens.output == 7 for call in found)
    assert all(call.provider == spoken.name and call.model == "m" for call in found)


def test_what_is_recorded_is_verified(store: SqlStore, spoken: ProviderDialect) -> None:
    talk(store, spoken)
    assert not problems(store)


def test_the_recorded_requests_are_built_again_from_the_log(store: SqlStore, spoken: ProviderDialect) -> None:
    talk(store, spoken)
    bodies = [json.loads(exchange.request) for exchange in only(store).exchanges()]
    built = [spoken.build_request(asked(call.request())) for call in calls_of(store)]
    assert built == bodies


def test_each_call_keeps_its_bytes_at_the_place_of_its_attempt(
    store: SqlStore, spoken: ProviderDialect
) -> None:
    talk(store, spoken)
    kept = list(only(store).exchanges())
    assert [(found.turn, found.step, found.number, found.seq) for found in kept] == [
        (call.turn, call.step, call.number, call.seq) for call in calls_of(store)
    ]
    assert [found.body for found in kept] == [
        b"".join(events_of(spoken, *said_back)) for _, _, said_back in TALK
    ]


def test_without_the_wire_only_the_meaning_is_kept(store: SqlStore) -> None:
    talk(store, OPENAI, keeps_wire=False)
    assert not list(only(store).exchanges())
    assert len(calls_of(store)) == 4


def test_chunks_have_the_times_at_which_their_pieces_came(store: SqlStore) -> None:
    with recorded(store) as recording:
        tape = recording.ask(OPENAI, [said("Hi.")])
        tape.head(200, [("content-type", "text/event-stream")], 1_000)
        for time_ms, piece in enumerate(events_of(OPENAI, "a b c"), 2_000):
            tape.piece(piece, time_ms)
        tape.ended("complete")
    texts = [timed.time_ms for timed in calls_of(store)[0].chunks() if hasattr(timed.chunk, "text")]
    assert texts == [2_001, 2_002, 2_003]


def test_an_answer_that_was_not_streamed_is_recorded_from_its_body(
    store: SqlStore, spoken: ProviderDialect
) -> None:
    body = {**spoken.build_request(request_of([said("Hi.")])), "stream": False}
    whole = json_text.dumps(spoken.encode_whole(chunks_of("Hello.", LS), model="m", id="r1"))
    with recorded(store, dialect=spoken) as recording:
        answer(recording.ask(spoken, [], body=body), [whole[:20], whole[20:]], headers=JSON)
    assert transcript(only(store)) == ["user: Hi.", 'model: Hello. ls({"path": "."})']
    (call,) = calls_of(store)
    assert call.outcome == "finished"
    assert len({timed.time_ms for timed in call.chunks()}) == 1
    check(only(store))


def test_an_encoded_answer_is_recorded_as_what_it_says(store: SqlStore) -> None:
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in events_of(OPENAI, "a b")]
    pieces.append(packer.flush())
    headers = [("content-type", "text/event-stream"), ("Content-Encoding", "gzip")]
    with recorded(store) as recording:
        answer(recording.ask(OPENAI, [said("Hi.")]), pieces, headers=headers)
    assert transcript(only(store))[-1] == "model: a b"
    (kept,) = only(store).exchanges()
    assert kept.body == b"".join(events_of(OPENAI, "a b"))
    assert "content-encoding" not in dict(kept.headers)


def test_an_answer_in_an_encoding_that_nobody_can_read_is_kept_as_bytes(store: SqlStore) -> None:
    headers = [("content-type", "text/event-stream"), ("content-encoding", "br")]
    with recorded(store) as recording:
        answer(recording.ask(OPENAI, [said("Hi.")]), [b"\x01\x02"], headers=headers)
    (call,) = calls_of(store)
    assert call.failure is not None
    assert call.failure.code == "UNSUPPORTED_CONTENT"
    (kept,) = only(store).exchanges()
    assert (kept.body, dict(kept.headers)["content-encoding"]) == (b"\x01\x02", "br")


def test_a_changed_system_prompt_changes_the_header_and_not_the_session(store: SqlStore) -> None:
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "Hello.")
        recording.call(OPENAI, [said("Hi."), answered("Hello."), said("More.")], "Fine.", system="Be brief.")
    headers = [event.json for event in only(store).events() if event.type == "request/header"]
    assert [(header["reason"], header["header"]["system"]) for header in headers] == [
        ("initial", "You help."),
        ("change", "Be brief."),
    ]


# Failures


def test_a_call_that_is_made_again_after_a_failure_is_a_further_attempt_of_its_step(store: SqlStore) -> None:
    error = json.dumps({"error": {"message": "slow down"}}).encode()
    with recorded(store) as recording:
        answer(
            recording.ask(OPENAI, [said("Hi.")]), [error], status=429, headers=[*JSON, ("retry-after", "2")]
        )
        tape = recording.ask(OPENAI, [said("Hi.")])
        tape.ended("reset-before-response", "refused")
        answer(recording.ask(OPENAI, [said("Hi.")]), events_of(OPENAI, "a b")[:2], end="reset")
        answer(recording.ask(OPENAI, [said("Hi.")]), events_of(OPENAI, "a b")[:2])
        recording.call(OPENAI, [said("Hi.")], "Hello.")
    check(only(store))
    found = calls_of(store)
    assert [(call.turn, call.step, call.number) for call in found] == [
        (1, 1, number) for number in range(1, 6)
    ]
    codes = [call.failure and call.failure.code for call in found]
    assert codes == ["RATE_LIMIT", "TRANSPORT", "TRANSPORT", "STREAM_CLOSED", None]
    assert found[0].failure is not None
    assert (found[0].failure.status, found[0].failure.retry_after_ms) == (429, 2000)
    assert transcript(only(store)) == ["user: Hi.", "model: Hello."]
    assert [(kept.number, kept.end) for kept in only(store).exchanges()] == [
        (1, "complete"),
        (2, "reset-before-response"),
        (3, "reset"),
        (4, "complete"),
        (5, "complete"),
    ]


def test_a_turn_that_failed_ends_when_the_client_goes_on_with_something_else(store: SqlStore) -> None:
    with recorded(store) as recording:
        answer(recording.ask(OPENAI, [said("Hi.")]), [b"{}"], status=500, headers=JSON)
        recording.call(OPENAI, [said("Hi."), said("Still there?")], "Yes.")
    check(only(store))
    ends = [event.json["reason"]["kind"] for event in only(store).events() if event.type == "turn/end"]
    assert ends == ["error", "completed"]
    assert transcript(only(store)) == ["user: Hi.", "user: Still there?", "model: Yes."]


@pytest.mark.parametrize("keeps_half", [True, False], ids=["sends-the-half-back", "leaves-it-out"])
def test_a_client_that_leaves_cancels_its_turn_and_goes_on_in_the_same_session(
    store: SqlStore, keeps_half: bool
) -> None:
    half = [answered("one two ")] if keeps_half else []
    with recorded(store) as recording:
        pieces = events_of(OPENAI, "one two three")[:3]
        answer(recording.ask(OPENAI, [said("Hi.")]), pieces, end="client-gone")
        recording.call(OPENAI, [said("Hi."), *half, said("Go on.")], "three")
        more = [said("Hi."), *half, said("Go on."), answered("three"), said("Thanks.")]
        recording.call(OPENAI, more, "Welcome.")
    session = only(store)
    check(session)
    cancelled, *others = calls_of(store)
    assert (cancelled.outcome, [call.outcome for call in others]) == ("cancelled", ["finished", "finished"])
    (interrupted,) = [event for event in session.events() if event.json.get("interrupted")]
    assert interrupted.json["message"]["content"] == [{"type": "text", "text": "one two "}]
    ends = [event.json["reason"] for event in session.events() if event.type == "turn/end"]
    assert ends[0] == {"kind": "aborted", "reason": {"kind": "user"}}


def test_a_client_that_leaves_behind_the_last_event_has_a_whole_answer(store: SqlStore) -> None:
    with recorded(store) as recording:
        answer(recording.ask(OPENAI, [said("Hi.")]), events_of(OPENAI, "Hello."), end="client-gone")
    assert calls_of(store)[0].outcome == "finished"
    assert [kept.end for kept in only(store).exchanges()] == ["complete"]


def test_what_a_crash_left_half_written_is_closed_when_the_conversation_goes_on(store: SqlStore) -> None:
    with recorded(store) as recording:
        tape = recording.ask(OPENAI, [said("Hi.")])
        tape.head(200, [("content-type", "text/event-stream")], tape.now())
        tape.piece(events_of(OPENAI, "one two")[1], tape.now())
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "Hello.")
    session = only(store)
    check(session)
    assert [call.outcome for call in calls_of(store)] == ["crashed", "finished"]


def test_sessions_that_are_idle_longest_are_let_go_and_go_on_with_their_next_call(
    store: SqlStore, spoken: ProviderDialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "OPEN_SESSIONS", 2)
    names = ["A", "B", "C", "D"]
    with recorded(store) as recording:
        writer = recording.recorder._writer
        for round, history in enumerate(([], [said("Hi."), answered("Hello.")])):
            for name in names:
                headers = [("x-playhead-session-id", name)]
                messages = [*history, said(f"Hi {round}." if round else "Hi.")]
                recording.call(spoken, messages, "Hello.", headers=headers)
            recording.recorder.settle()
            assert [queue.session.id for queue in writer._sessions.values()] == ["C", "D"]
            assert unsealed(store) == ["C", "D"]
    assert [session.id for session in sessions(store)] == names
    for session in sessions(store):
        check(session)
        assert len(transcript(session)) == 4


def test_sessions_opened_to_be_looked_at_and_those_of_lost_calls_are_let_go(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_group: dict[str, Any] = {"group": "all"}
    with recorded(store, **one_group) as recording:
        for name in ("A", "B", "C"):
            recording.call(OPENAI, [said(name)], "Hello.")
    monkeypatch.setattr(recorder, "OPEN_SESSIONS", 0)
    with recorded(store, **one_group) as recording:
        recording.call(OPENAI, [said("D")], "Hello.")
        with monkeypatch.context() as broken:
            broken.setattr(SqlSession, "keep_exchange", lambda *_: 1 / 0)
            recording.call(OPENAI, [said("E")], "Hello.")
            recording.recorder.settle()
        assert recording.recorder.failed
        assert not recording.recorder._writer._sessions
        assert unsealed(store) == []
    assert len(sessions(store)) == 5


def test_a_fork_of_a_session_that_was_let_go_needs_no_queue_of_it(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "OPEN_SESSIONS", 0)
    before = [said("Hi."), answered("Hello.")]
    with recorded(store) as recording:
        recording.call(OPENAI, before[:1], "Hello.")
        recording.call(OPENAI, [*before, said("A?")], "a")
        recording.call(OPENAI, [*before, said("B?")], "b")
        recording.recorder.settle()
        assert not recording.recorder._writer._sessions
    first, other = sessions(store)
    assert other.header.parent == first.id


def unsealed(store: SqlStore) -> list[str]:
    """The sessions that have rows outside of segments."""
    with store.database.read() as link:
        rows = {row for (row,) in link.all("SELECT DISTINCT session_id FROM event")}
    return [session.id for session in sessions(store) if session.row_id in rows]


# Which session


def test_an_edited_prompt_forks_the_conversation_at_the_turn_before(store: SqlStore) -> None:
    before = [said("Hi."), answered("Hello.")]
    with recorded(store) as recording:
        recording.call(OPENAI, before[:1], "Hello.")
        recording.call(OPENAI, [*before, said("A?")], "a")
        recording.call(OPENAI, [*before, said("B?")], "b")
    first, other = sessions(store)
    check(other)
    assert transcript(first) == ["user: Hi.", "model: Hello.", "user: A?", "model: a"]
    assert transcript(other) == ["user: Hi.", "model: Hello.", "user: B?", "model: b"]
    assert other.header.parent == first.id
    inherited = list(other.events(0, other.header.seed_length))
    assert [event.json for event in inherited] == [event.json for event in first.events(0, len(inherited))]
    assert [call.turn for call in attempts(other) if not call.is_inherited] == [2]


def test_the_same_request_again_after_its_answer_is_another_branch(store: SqlStore) -> None:
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "one")
        recording.call(OPENAI, [said("Hi.")], "two")
    assert [transcript(session)[-1] for session in sessions(store)] == ["model: one", "model: two"]


def test_answers_that_were_not_recorded_are_inherited(store: SqlStore, spoken: ProviderDialect) -> None:
    history = [
        *(said("Hi."), answered("Hello."), said("List."), answered("", LS), result("c1", "a b")),
        *(answered("One file."), said("Thanks.")),
    ]
    with recorded(store, dialect=spoken) as recording:
        recording.call(spoken, history, "Welcome.")
        recording.call(spoken, [*history, answered("Welcome."), said("Bye.")], "Bye.")
    session = only(store)
    check(session)
    assert not problems(store)
    assert len(transcript(session)) == 10
    assert [call.turn for call in calls_of(store)] == [3, 4]
    bodies = [json.loads(exchange.request) for exchange in session.exchanges()]
    assert [spoken.build_request(asked(call.request())) for call in calls_of(store)] == bodies


def test_words_put_into_the_mouth_of_the_model_are_part_of_its_answer(store: SqlStore) -> None:
    messages = dialect("anthropic-messages")
    with recorded(store) as recording:
        recording.call(messages, [said("Hi."), answered("Well,")], " hello.")
        recording.call(messages, [said("Hi."), answered("Well, hello."), said("Bye.")], "Bye.")
    assert transcript(only(store)) == [
        "user: Hi.",
        "model: Well,",
        "model:  hello.",
        "user: Bye.",
        "model: Bye.",
    ]


def test_clients_that_name_their_session_are_kept_apart(store: SqlStore) -> None:
    with recorded(store) as recording:
        for name in ("one", "two"):
            recording.call(OPENAI, [said("Hi.")], "Hello.", headers=[("x-playhead-session-id", name)])
        recording.call(OPENAI, [said("Hi.")], "Hello.")
        for name in ("one", "two"):
            history = [said("Hi."), answered("Hello."), said(name)]
            recording.call(OPENAI, history, "Yes.", headers=[("x-playhead-session-id", name)])
    assert [transcript(store.session(name))[2] for name in ("one", "two")] == ["user: one", "user: two"]
    assert len(sessions(store)) == 3


def test_a_named_session_whose_request_does_not_go_on_with_it_gets_a_child(store: SqlStore) -> None:
    named = [("x-deepseek-harness-session-id", "s-1")]
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "Hello.", headers=named)
        recording.call(OPENAI, [said("A title for: Hi.")], "Greeting", headers=named)
    first, other = sessions(store)
    assert (first.id, other.header.parent) == ("s-1", "s-1")
    assert other.id.startswith("s-1.")
    assert calls_of_dialect(first) == {"deepseek-chat"}


def calls_of_dialect(session: Any) -> set[str | None]:
    return {call.provider for call in attempts(session)}


def test_a_named_session_that_the_store_has_of_somebody_else_is_left_alone(store: SqlStore) -> None:
    from playhead.eventstore.header import SessionHeader
    from playhead.eventstore.ids import SessionId

    store.create(SessionHeader(SessionId("s-1"), 1))
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "Hello.", headers=[("x-playhead-session-id", "s-1")])
    with recorded(store) as recording:
        history = [said("Hi."), answered("Hello."), said("More.")]
        recording.call(OPENAI, history, "Fine.", headers=[("x-playhead-session-id", "s-1")])
    assert store.session("s-1").next_seq == 0
    (other,) = [session for session in sessions(store) if session.id != "s-1"]
    assert len(transcript(other)) == 4


def test_one_session_for_all_takes_all_that_goes_on_with_it(store: SqlStore) -> None:
    with recorded(store, group="mine") as recording:
        recording.call(OPENAI, [said("Hi.")], "Hello.", headers=[("x-playhead-session-id", "other")])
        recording.call(OPENAI, [said("Hi."), answered("Hello."), said("More.")], "Fine.")
    assert only(store).id == "mine"


def test_calls_at_the_same_time_are_recorded_one_after_the_other(store: SqlStore) -> None:
    with recorded(store) as recording:
        tapes = [recording.ask(OPENAI, [said("Hi.")]) for _ in range(40)]
        for number, tape in enumerate(tapes):
            tape.head(200, [("content-type", "text/event-stream")], tape.now())
            tape.piece(events_of(OPENAI, f"answer {number}")[1], tape.now())
        for number, tape in reversed(list(enumerate(tapes))):
            for piece in events_of(OPENAI, f"answer {number}")[2:]:
                tape.piece(piece, tape.now())
            tape.ended("complete")
    found = {transcript(session)[-1] for session in sessions(store)}
    assert found == {f"model: answer {number}" for number in range(40)}
    for session in sessions(store):
        check(session)


def test_a_repeated_call_waits_until_it_is_known_whether_the_first_one_was_given_up(store: SqlStore) -> None:
    with recorded(store) as recording:
        first = recording.ask(OPENAI, [said("Hi.")])
        second = recording.ask(OPENAI, [said("Hi.")])
        answer(second, events_of(OPENAI, "Hello."))
        first.ended("client-gone")
    session = only(store)
    check(session)
    assert transcript(session) == ["user: Hi.", "model: Hello."]


Turn = tuple[str, str]
words = st.sampled_from("ab")


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_random_tree_of_conversations_is_grouped_as_the_tree_says(
    data: st.DataObject,
) -> None:
    known: list[tuple[Turn, ...]] = [()]
    expected: list[tuple[Turn, ...]] = []
    with playhead.open_store("sqlite://", create=True) as store:
        steps = data.draw(st.lists(st.tuples(words, words, st.booleans()), min_size=1, max_size=8))
        while steps:
            with recorded(store) as recording:
                restarts = False
                while steps and not restarts:
                    prompt, reply, restarts = steps.pop()
                    before = data.draw(st.sampled_from(known))
                    history = [part for turn in before for part in (said(turn[0]), answered(turn[1]))]
                    recording.call(OPENAI, [*history, said(prompt)], reply)
                    grown = (*before, (prompt, reply))
                    going_on = [at for at, session in enumerate(expected) if before and session == before]
                    if going_on:
                        expected[going_on[-1]] = grown
                    else:
                        expected.append(grown)
                    known.append(grown)
        found = [transcript(session) for session in sessions(store)]
        for session in sessions(store):
            check(session)
    wanted = [
        [f"{who}: {text}" for turn in one for who, text in zip(("user", "model"), turn, strict=True)]
        for one in expected
    ]
    assert sorted(found) == sorted(wanted)


# Histories that clients change

NAMED = ("x-playhead-session-id", "s-1")
SUMMING = (NAMED, ("x-playhead-compact", "1"))


def blocks(*texts: str) -> dict[str, Any]:
    return {**said(""), "content": [{"type": "text", "text": text} for text in texts]}


def test_a_history_that_was_summed_up_stays_in_its_session(store: SqlStore, spoken: ProviderDialect) -> None:
    first = [said("A"), answered("a")]
    second = [said("B"), answered("b")]
    short = blocks("Before:", "we met", "Go on.")
    shorter = blocks("Before:", "long ago", "Go on.")
    with recorded(store, dialect=spoken) as recording:
        recording.call(spoken, first[:1], "a", headers=[NAMED])
        recording.call(spoken, [*first, *second[:1]], "b", headers=[NAMED])
        recording.call(spoken, [*first, said("Sum up.")], "we met", headers=SUMMING)
        recording.call(spoken, [short, said("Sum up.")], "long ago", headers=SUMMING)
        recording.call(spoken, [shorter, *second, said("C")], "c", headers=[NAMED])
    session = only(store)
    check(session)
    assert not problems(store)
    assert transcript(session) == [
        "user: Before:long agoGo on.",
        *("user: B", "model: b", "user: C", "model: c"),
    ]
    kinds = [event.type for event in session.events() if event.type.startswith("compaction/")]
    assert kinds == ["compaction/start", "compaction/summary", "compaction/end"] * 2
    summaries = [call for call in calls_of(store) if call.is_summary]
    assert [call.call.tokens and call.call.tokens.output for call in summaries] == [7, 7]
    kept = {exchange.seq: exchange for exchange in session.exchanges()}
    assert [kept[call.seq].body for call in summaries] == [
        b"".join(events_of(spoken, text)) for text in ("we met", "long ago")
    ]
    last = calls_of(store)[-1]
    assert spoken.build_request(asked(last.request())) == json.loads(kept[last.seq].request)


def test_a_summary_of_which_nothing_more_is_seen_leaves_its_bytes(store: SqlStore) -> None:
    with recorded(store) as recording:
        recording.call(OPENAI, [said("A")], "a", headers=[NAMED])
        recording.call(OPENAI, [said("A"), answered("a"), said("Sum up.")], "we met", headers=SUMMING)
    assert [(kept.turn, kept.seq) for kept in only(store).exchanges()] == [(1, 6), (None, None)]
    assert transcript(only(store)) == ["user: A", "model: a"]


def test_a_summary_that_the_client_does_not_use_changes_nothing(store: SqlStore) -> None:
    history = [said("A"), answered("a")]
    with recorded(store) as recording:
        recording.call(OPENAI, history[:1], "a", headers=[NAMED])
        recording.call(OPENAI, [*history, said("Sum up.")], "we met", headers=SUMMING)
        recording.call(OPENAI, [*history, said("B")], "b", headers=[NAMED])
    check(only(store))
    assert transcript(only(store)) == ["user: A", "model: a", "user: B", "model: b"]
    assert len(list(only(store).exchanges())) == 3


def test_results_that_were_cut_short_are_replaced_in_the_session(
    store: SqlStore, spoken: ProviderDialect
) -> None:
    def history(output: str) -> list[dict[str, Any]]:
        return [said("A"), answered("", LS), result("c1", output), answered("a")]

    with recorded(store, dialect=spoken) as recording:
        recording.call(spoken, history("long output")[:1], "", LS, headers=[NAMED])
        recording.call(spoken, history("long output")[:3], "a", headers=[NAMED])
        recording.call(spoken, [*history("long"), said("B")], "b", headers=[NAMED])
        recording.call(spoken, [*history("long"), said("B"), answered("b"), said("C")], "c", headers=[NAMED])
    session = only(store)
    check(session)
    assert not problems(store)
    assert transcript(session)[2] == "tool: long"
    bodies = [json.loads(exchange.request) for exchange in session.exchanges()]
    assert [spoken.build_request(asked(call.request())) for call in calls_of(store)] == bodies


def test_what_a_user_says_next_when_the_model_could_not_answer_may_come_as_one_message(
    store: SqlStore,
) -> None:
    messages = dialect("deepseek-messages")
    with recorded(store) as recording:
        answer(recording.ask(messages, [said("A")]), [b"{}"], status=400, headers=JSON)
        recording.call(messages, [said("A"), said("B")], "b")
    assert shape(only(store)).count("user/message") == 2
    assert transcript(only(store)) == ["user: A", "user: B", "model: b"]


# What else passes through


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v1/models", b""),
        ("POST", "/v1/embeddings", b'{"input": "x"}'),
        ("POST", "/v1/chat/completions", b"not JSON"),
        ("POST", "/v1/chat/completions", b'{"model": 1, "messages": []}'),
        ("POST", "/v1/chat/completions", b"[]"),
        ("POST", "/v1/messages/count_tokens", b'{"model": "m", "messages": []}'),
    ],
)
def test_what_is_no_model_call_only_passes(store: SqlStore, method: str, target: str, body: bytes) -> None:
    with recorded(store) as recording:
        tape = recording.recorder.tape(method, target, [])
        tape.request_piece(body)
        tape.asked()
        answer(tape, [b"{}"], headers=JSON)
    assert recording.told == [f"{method} {target}: 200, passed on"]
    assert not sessions(store)
    assert not recording.recorder.failed


def test_the_body_of_what_only_passes_takes_no_memory_however_large_it_is(store: SqlStore) -> None:
    piece = bytes(2**20)
    with recorded(store) as recording:
        tape = recording.recorder.tape("POST", "/v1/files", [])
        tracemalloc.start()
        try:
            for _ in range(64):
                tape.request_piece(piece)
            tape.asked()
            recording.recorder.settle()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        answer(tape, [b"{}"], headers=JSON)
    assert recording.told == ["POST /v1/files: 200, passed on"]
    assert peak < 8 * 2**20


def test_a_request_that_broke_off_only_passes(store: SqlStore) -> None:
    with recorded(store) as recording:
        tape = recording.recorder.tape("POST", "/v1/chat/completions", [])
        tape.request_piece(b'{"model"')
        tape.ended("client-gone")
    assert recording.told == ["POST /v1/chat/completions: client gone, passed on"]


def test_each_call_is_told_in_a_line(store: SqlStore) -> None:
    with recorded(store, group="s") as recording:
        recording.call(OPENAI, [said("Hi.")], "one two")
        answer(
            recording.ask(OPENAI, [said("Hi."), answered("one two"), said("x")]),
            [b""],
            status=503,
            headers=JSON,
        )
    assert recording.told == ["s turn 1: 200, 6 chunks, stop", "s turn 2: 503, 1 chunk, SERVER"]


# Trouble

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
_messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system", "developer", "odd"])},
        optional={
            "content": _json,
            "tool_call_id": st.sampled_from(["c1", "c2"]) | _json,
            "tool_calls": st.lists(_json | st.just(CALLED), max_size=2),
        },
    ),
    max_size=5,
)
_requests = st.fixed_dictionaries(
    {"messages": _messages | _json, "model": st.just("m") | _json}, optional={"system": _json, "tools": _json}
)


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(DIALECTS),
            _requests.map(json_text.dumps) | st.binary(max_size=40),
            bodies | mutated(),
            st.sampled_from([200, 200, 200, 400, 503]),
            st.sampled_from([STREAM, JSON, [], [("content-encoding", "gzip")]]),
            st.sampled_from(["complete", "reset", "client-gone"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_nothing_that_passes_makes_the_recorder_fail_or_the_log_break_a_rule(calls: list[Any]) -> None:
    with playhead.open_store("sqlite://", create=True) as store:
        with recorded(store) as recording:
            for name, body, came, status, headers, end in calls:
                tape = recording.ask(dialect(name), [], body=body)
                answer(tape, [came[:9], came[9:]], status=status, headers=headers, end=end)
        assert not recording.recorder.failed, recording.told
        assert not problems(store)
        for session in sessions(store):
            check(session)


def test_a_call_nested_too_deep_to_compare_is_recorded_all_the_same(store: SqlStore) -> None:
    deep = ("c1", "ls", "[" * 5000 + "]" * 5000)
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "", deep)
        recording.call(OPENAI, [said("Hi."), answered("", deep), result("c1", "ok")], "Done.")
    assert not recording.recorder.failed
    assert [(call.turn, call.step) for call in calls_of(store)] == [(1, 1), (1, 2)]


def test_a_store_that_fails_is_told_once_and_costs_the_recording_alone(
    store: SqlStore, tmp_path: Path
) -> None:
    with recorded(store) as recording:
        recording.call(OPENAI, [said("Hi.")], "Hello.")
        recording.recorder.settle()
        with sqlite3.connect(tmp_path / "store.sqlite") as link:
            link.execute("ALTER TABLE exchange RENAME TO gone")
        recording.call(OPENAI, [said("Hi."), answered("Hello."), said("A")], "a")
        recording.call(OPENAI, [said("Hi."), answered("Hello."), said("B")], "b")
        recording.recorder.settle()
        with sqlite3.connect(tmp_path / "store.sqlite") as link:
            link.execute("ALTER TABLE gone RENAME TO exchange")
        recording.call(OPENAI, [said("Other.")], "Fine.")
    assert recording.recorder.failed
    assert len([line for line in recording.told if "recording failed" in line]) == 1
    assert "Fine." in transcript(sessions(store)[-1])[-1]


def spelled_out(*blocks: tuple[str, str]) -> list[Chunk]:
    """An answer of these blocks (type, text), three characters a delta."""
    row: list[dict[str, Any]] = []
    for index, (kind, text) in enumerate(blocks):
        is_call = kind == "tool-call"
        said = {"id": "c", "name": "f"} if is_call else {}
        row.append({"type": "block-start", "index": index, "blockType": kind})
        for at in range(0, len(text), 3):
            member = {"argumentsDelta" if is_call else "text": text[at : at + 3]}
            row.append({"type": f"{kind}-delta", "index": index, **said, **member})
        block = {**said, "arguments": text} if is_call else {"text": text}
        row.append({"type": "block-end", "index": index, "block": {"type": kind, **block}})
    row.append({"type": "finish", "reason": {"kind": "tool-calls"}})
    return [decode_chunk(chunk) for chunk in row]


@pytest.mark.parametrize("gone_after", [None, -8])
def test_a_credential_that_comes_in_pieces_is_blotted_out_in_each_of_them(
    store: SqlStore, spoken: ProviderDialect, gone_after: int | None
) -> None:
    blocks = [
        ("reasoning", f"Is it {KEY}?"),
        ("text", f"It is {KEY}, sk-te, and sk-test."),
        ("tool-call", f'{{"k": "{KEY}", "more": "some words, as many as are cut off"}}'),
    ]
    if spoken.name == "openai-chat":
        blocks.pop(0)
    chunks = spelled_out(*blocks)
    events = [encode_event(event) for _, event in spoken.encode(chunks, model="m", id="r1")]
    with recorded(store) as recording:
        tape = recording.ask(spoken, [said("Which key?")], headers=[("x-api-key", KEY)])
        answer(tape, events[:gone_after], end="complete" if gone_after is None else "client-gone")
    (call,) = calls_of(store)
    texts: dict[int, str] = {}
    for _, chunk in call.chunks():
        if isinstance(chunk, TextDelta | ReasoningDelta | ToolCallDelta):
            piece = chunk.arguments_delta if isinstance(chunk, ToolCallDelta) else chunk.text
            texts[chunk.index] = texts.get(chunk.index, "") + piece
    hidden = [text.replace(KEY, "*" * len(KEY)) for _, text in blocks]
    got = list(texts.values())
    assert got == hidden or (gone_after is not None and all(map(str.startswith, hidden, got)))
    assert len(list(call.chunks())) >= sum(len(text) // 3 for text in got)
    lines = b"\n".join(only(store).lines())
    assert KEY.encode() not in lines
    assert list(only(store).exchanges()) == []
    check(only(store))
    assert problems(store) == []


@given(st.text("sk-0x", max_size=40), st.lists(st.integers(0, 40), max_size=12))
def test_chunks_keep_their_number_sizes_times_and_all_text_but_the_secret(text: str, cuts: list[int]) -> None:
    secret = "sk-0sk-0x"
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    deltas = [TextDelta(index=0, text=text[start:end]) for start, end in pairwise(places)]
    veil = HiddenChunks(Secrets([secret]))
    got = [timed for time_ms, delta in enumerate(deltas) for timed in veil.push(delta, time_ms)]
    got += veil.end()
    assert [time_ms for time_ms, _ in got] == list(range(len(deltas)))
    assert [len(chunk.text) for _, chunk in got] == [len(delta.text) for delta in deltas]  # type: ignore[union-attr]
    joined = "".join(chunk.text for _, chunk in got)  # type: ignore[union-attr]
    expected = text.replace(secret, "*" * len(secret))
    if expected.endswith(secret[:-1]):
        expected = expected[: 1 - len(secret)] + "*" * (len(secret) - 1)
    assert joined == expected


def everything_kept(store: SqlStore, folder: Path) -> bytes:
    """All bytes that a recording left: log, exchanges, files of the store."""
    parts = [line for session in sessions(store) for line in session.lines()]
    parts += [
        part
        for session in sessions(store)
        for kept in session.exchanges()
        for part in (kept.request, kept.body)
    ]
    return b"\n".join([*parts, *(file.read_bytes() for file in folder.iterdir())])


def test_a_credential_with_escaped_letters_is_blotted_out_of_kept_bytes_and_chunks(
    store: SqlStore, spoken: ProviderDialect, tmp_path: Path
) -> None:
    escaped = KEY.replace("sk-test", "\\u0073k-t\\u0065st")
    call = ("c1", "f", json.dumps({"k": 0}).replace("0", f'"{escaped}"'))
    events = [
        piece.replace(KEY.encode(), escaped.encode())
        for piece in events_of(spoken, f"You sent {KEY} indeed.", call)
    ]
    assert b"".join(events).count(b"u0073k-t") >= 2
    with recorded(store) as recording:
        answer(recording.ask(spoken, [said("Hi.")], headers=[("x-api-key", KEY)]), events)
    kept = everything_kept(store, tmp_path)
    assert KEY.encode() not in kept
    assert b"u0073k-t" not in kept
    assert KEY[8:].encode() not in kept
    (exchange,) = only(store).exchanges()
    assert len(exchange.body) == len(b"".join(events))
    assert transcript(only(store))[1].startswith(f"model: You sent {'*' * len(KEY)} indeed.")
    assert calls_of(store)[0].outcome == "finished"


@pytest.mark.parametrize("end", ["reset", "client-gone", "complete"])
@pytest.mark.parametrize("shown", [6, 12])
def test_an_answer_that_breaks_off_in_a_credential_keeps_no_beginning_of_it(
    store: SqlStore, spoken: ProviderDialect, tmp_path: Path, end: Any, shown: int
) -> None:
    begun = KEY[:shown]
    chunks = spelled_out(("text", f"It is {begun}~~~"))
    events = [encode_event(event) for _, event in spoken.encode(chunks, model="m", id="r1")]
    behind = next(at for at, event in enumerate(events) if b"~~~" in event)
    with recorded(store) as recording:
        tape = recording.ask(spoken, [said("Which?")], headers=[("x-api-key", KEY)])
        answer(tape, events[:behind], end=end)
    texts = [chunk.text for _, chunk in calls_of(store)[0].chunks() if isinstance(chunk, TextDelta)]
    is_secret = shown >= SHORTEST
    assert "".join(texts) == "It is " + ("*" * shown if is_secret else begun)
    assert len(list(only(store).exchanges())) == (0 if is_secret else 1)
    assert not is_secret or begun.encode() not in everything_kept(store, tmp_path)
    check(only(store))


def test_bytes_that_break_off_in_a_credential_keep_no_beginning_of_it(
    store: SqlStore, tmp_path: Path
) -> None:
    events = b"".join(events_of(OPENAI, f"It is {KEY}"))
    cut = events.index(KEY.encode()) + 15
    with recorded(store) as recording:
        tape = recording.ask(OPENAI, [said("Which?")])
        answer(tape, [events[:cut]], end="reset")
    assert KEY[:15].encode() not in everything_kept(store, tmp_path)
    (exchange,) = only(store).exchanges()
    assert exchange.body == events[: cut - 15] + b"*" * 15


def test_an_answer_that_may_not_go_on_in_a_credential_is_whole_without_it(
    store: SqlStore, spoken: ProviderDialect, tmp_path: Path
) -> None:
    with recorded(store) as recording:
        recording.call(spoken, [said("Which?")], f"It is {KEY[:15]}")
    assert KEY[:15].encode() not in everything_kept(store, tmp_path)
    assert transcript(only(store))[1] == f"model: It is {'*' * 15}"
    assert list(only(store).exchanges()) == []


def test_credentials_of_a_request_come_nowhere_near_the_store(store: SqlStore, tmp_path: Path) -> None:
    other = "qw9-Zx8.Vb7_secret-in-query"
    basic = "dXNlcm5hbWU6aHVudGVyMi1odW50ZXIy"
    body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": f"key {KEY}"},
            {"role": "user", "content": f"my key is {KEY}, and {other}"},
        ],
        "stream": True,
        "api_key": "inner-credential-11223344",
        "extra": {"Authorization": "Bearer abcdefghijklmnop-99"},
        "tools": [{"type": "function", "function": {"name": "f", "description": KEY, "parameters": {}}}],
    }
    headers = [
        *(
            ("X-Api-Key", "anthropic-key-5566778899"),
            ("cookie", "sid=cookie-value-1234567"),
            ("user-agent", KEY),
        ),
        *(("proxy-authorization", f"Basic {basic}"), ("x-playhead-session-id", f"s-{KEY}")),
    ]
    spelled = json.dumps(body).replace("sk-test", "\\u0073k-test").encode()
    echo = events_of(OPENAI, f"You sent {KEY} indeed.")
    with recorded(store) as recording:
        target = f"/v1/chat/completions?api_key={other}"
        answer(recording.ask(OPENAI, [], body=spelled, target=target, headers=headers), echo)
        error = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
        answer(
            recording.ask(OPENAI, [], body=spelled, target=target, headers=headers),
            [error],
            status=401,
            headers=[*JSON, ("set-cookie", "sid=cookie-value-1234567")],
        )
    assert len(sessions(store)) == 2
    lines = b"\n".join(
        line for session in sessions(store) for line in [session.header_line, *session.lines()]
    )
    kept = b"\n".join(
        part
        for session in sessions(store)
        for exchange in session.exchanges()
        for part in (exchange.request, exchange.body, repr(exchange).encode())
    )
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    told = "\n".join(recording.told).encode()
    for secret in (
        KEY,
        other,
        basic,
        "inner-credential-11223344",
        "abcdefghijklmnop-99",
        "anthropic-key-5566778899",
        "cookie-value-1234567",
        "hunter2",
    ):
        for place, text in {"log": lines, "wire": kept, "file": files, "told": told}.items():
            assert secret.encode() not in text, (secret, place)
