"""Recorded sessions of dsh, served: every call decodes to what was recorded, every recorded request matches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from exchanges import CHAT_RUNTIMES, MESSAGES_RUNTIMES, Exchange, Scenario, scenarios
from patience import patiently
from recorded_scenarios import sessions_of
from reference import shared_path
from replayed import LONG_S, Got, ask_one, endpoint

from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import BlockStart, Chunk, FinishChunk
from playhead.eventstore.log import Session
from playhead.eventstore.reasons import FinishError
from playhead.web.endpoint import Settings
from playhead.web.matching import mismatch
from playhead.web.recording import RecordedCall, Recording

RUNTIMES = (*CHAT_RUNTIMES, *MESSAGES_RUNTIMES)
STRICT = Settings(match="strict")
BY_DSH = "x-deepseek-harness-session-id"
FEW = [
    param
    for param in scenarios(*RUNTIMES)
    if param.id in ("0.1.1rc1-tool", "0.1.5rc1-compaction-summary", "0.2.1rc2-compaction-summary")
    or param.id in ("0.2.1rc2-http-errors", "0.2.1rc2-subagent", "no-reference-material")
]


def with_instruction(call: RecordedCall) -> ModelRequest:
    """What a client asks that makes the recorded call again; a summary's instruction is made up."""
    request = call.request()
    if not call.is_synthesised:
        return request
    instruction = {"role": "user", "content": [{"type": "text", "text": "Sum it up."}]}
    messages = (*request.messages, instruction)
    return ModelRequest(
        request.config, messages, request.system, request.tools, request.session, "compaction"
    )


def assert_same(call: RecordedCall, got: Got) -> None:
    recorded: list[Chunk] = [timed.chunk for timed in call.chunks()]
    finish = recorded[-1] if recorded else None
    if isinstance(finish, FinishChunk) and isinstance(finish.reason, FinishError):
        wanted, found = finish.reason.failure, got.failure
        if found is None:
            last = got.chunks.pop()
            assert isinstance(last, FinishChunk), last
            assert isinstance(last.reason, FinishError), last
            found = last.reason.failure
        assert got.chunks == recorded[:-1], call
        for member in ("code", "status", "provider_retry_after_ms"):
            assert getattr(found, member) == getattr(wanted, member), call
        if wanted.status is not None:
            assert found.message == wanted.message
    elif isinstance(finish, FinishChunk) and got.failure is None:
        if call.is_synthesised:
            one, other = BlockAssembler(got.chunks), BlockAssembler(recorded)
            assert (one.blocks(), one.usage, one.finish) == (other.blocks(), other.usage, other.finish)
        else:
            assert got.chunks == recorded, call
    else:
        assert got.failure is not None
        assert got.failure.code == "TIMEOUT", (call, got.failure)
        is_unspeakable = len(recorded) == 1 and isinstance(recorded[0], BlockStart)
        assert got.chunks == recorded or (is_unspeakable and not got.chunks), call


def speaks_up(call: RecordedCall) -> bool:
    """Whether a client hears how the call ended."""
    return call.attempt.outcome in ("finished", "failed")


def serve_all(scenario: Scenario) -> None:
    with sessions_of(scenario) as sessions:
        for session in sessions.values():
            patiently(partial(serve, session))


def serve(session: Session, silence_s: float) -> None:
    calls = Recording.of(session).calls
    with endpoint(session, settings=STRICT) as (served, url):
        got = [
            ask_one(url, call.dialect, with_instruction(call), LONG_S if speaks_up(call) else silence_s)
            for call in calls
        ]
    assert (served.misses, served.unserved()) == ([], [])
    for call, answer in zip(calls, got, strict=True):
        assert_same(call, answer)


@pytest.mark.parametrize("scenario", FEW)
def test_some_recorded_sessions_stream_again_as_they_did(scenario: Scenario) -> None:
    shared_path("corpus")
    serve_all(scenario)


@pytest.mark.heavy
@pytest.mark.parametrize("scenario", scenarios(*RUNTIMES))
def test_every_recorded_session_streams_again_as_it_did(scenario: Scenario) -> None:
    shared_path("corpus")
    serve_all(scenario)


# The recorded requests


def calls_of(scenario: Scenario, sessions: dict[str, Session]) -> Iterator[tuple[Exchange, RecordedCall]]:
    """Every listed exchange with the call that the log has of it."""
    recordings = {id: Recording.of(session) for id, session in sessions.items()}
    summaries = {
        id: [call for call in recording.calls if call.is_synthesised] for id, recording in recordings.items()
    }
    asked = [exchange.session for exchange in scenario.exchanges() if exchange.is_summary]
    for id in set(asked):
        summaries[id] = summaries[id][-asked.count(id) :]
    for exchange in scenario.exchanges():
        if exchange.is_summary:
            yield exchange, summaries[exchange.session].pop(0)
        elif exchange.attempt is not None:
            calls = recordings[exchange.session].calls
            yield exchange, next(call for call in calls if call.attempt.seq == exchange.attempt.seq)


def answered(exchange: Exchange, call: RecordedCall, body: dict[str, Any]) -> str | None:
    return mismatch(call.request(), body, call.dialect, for_summary=exchange.is_summary)


@pytest.mark.heavy
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_recorded_request_matches_its_call_strictly_and_no_other_word_does(runtime: str) -> None:
    shared_path("corpus")
    compared = 0
    for param in scenarios(runtime):
        scenario: Scenario = param.values[0]
        with sessions_of(scenario) as sessions:
            for exchange, call in calls_of(scenario, sessions):
                assert answered(exchange, call, exchange.request) is None, (param.id, call.place)
                changed = json.loads(json.dumps(exchange.request).replace("workspace", "worksp4ce"))
                if changed != exchange.request:
                    assert "worksp4ce" in (answered(exchange, call, changed) or ""), (param.id, call.place)
                compared += 1
    assert compared > 20


@pytest.mark.parametrize("scenario", FEW)
def test_recorded_request_bodies_get_their_recorded_answers_one_after_the_other(scenario: Scenario) -> None:
    shared_path("corpus")
    with sessions_of(scenario) as sessions, endpoint(*sessions.values(), settings=STRICT) as (served, url):
        for exchange, call in calls_of(scenario, sessions):
            changed = {**exchange.request, "messages": exchange.request["messages"][:-1]}
            path = url + call.dialect.path
            headers = {name: value for name, value in exchange.headers.items() if name.startswith("x-deep")}
            missed = httpx.post(path, json=changed, headers=headers, timeout=LONG_S)
            assert missed.json()["error"]["code"] == "playhead_miss"
            assert "messages" in missed.json()["error"]["message"]
            answer = httpx.post(path, json=exchange.request, headers=headers, timeout=LONG_S)
            assert answer.status_code == exchange.status
            assert ("x-playhead-synthesised" in answer.headers) == exchange.is_summary
            if exchange.status != 200:
                assert answer.json()["error"]["message"] == json.loads(exchange.body)["error"]["message"]
    assert served.unserved() == []
    assert len(served.misses) == len(served.served)
