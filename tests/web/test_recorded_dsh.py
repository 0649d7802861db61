"""What real runtimes of dsh sent and got, seen by a proxy, becomes the sessions that they wrote themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from exchanges import CHAT_RUNTIMES, MESSAGES_RUNTIMES, Scenario, scenarios
from recordings import answer, check, problems, recorded, sessions

import playhead
from playhead.adapters.providers.asked import asked
from playhead.adapters.providers.dialects import dialect
from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.reasons import FinishError
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.eventstore.sql.store import SqlStore
from playhead.replay.attempt import Attempt, attempts

PROFILES = {"0.1.0rc6": "deepseek-chat-0.1.0", "0.1.1rc1": "deepseek-chat-0.1.1"}
"""Runtimes that the path of a call does not tell from later ones."""

ONLY_ON_THE_WIRE = ("dsh_session_log", "dsh_plugin_packages")
TELLING = (
    "-text",
    "-tool",
    "parallel",
    "compaction",
    "http-400",
    "http-errors",
    "disconnect",
    "steer",
    "subagent",
)
"""Scenarios that are tried each time; the others are in ``make heavy``."""


def every(*, telling: bool) -> list[Any]:
    found = scenarios(*CHAT_RUNTIMES, *MESSAGES_RUNTIMES)
    return [
        param
        for param in found
        if telling
        == (len(found) == 1 or ("migrate" not in str(param.id) and str(param.id).endswith(TELLING)))
    ]


def record(scenario: Scenario, store: SqlStore) -> None:
    """Let a recorder see the exchanges of ``scenario``."""
    profile = PROFILES.get(scenario.runtime)
    path = "/v1/messages" if scenario.runtime in MESSAGES_RUNTIMES else "/chat/completions"
    with recorded(store, dialect=dialect(profile) if profile else None) as recording:
        for exchange in scenario.exchanges():
            tape = recording.recorder.tape("POST", path, list(exchange.headers.items()))
            tape.request_piece(json_text.dumps(exchange.request))
            tape.asked()
            end: Any = "client-gone" if exchange.end == "hang-until-client-gone" else exchange.end
            if exchange.status is None:
                tape.ended(end)
            else:
                pieces = [exchange.body] if exchange.body else []
                headers = list(exchange.response_headers.items())
                answer(tape, pieces, status=exchange.status, headers=headers, end=end)
    assert not recording.recorder.failed, recording.told


def chunks(attempt: Attempt) -> list[Chunk]:
    """The chunks; a broken connection is worded by each client in its own way."""
    row = [timed.chunk for timed in attempt.chunks()]
    match row[-1:]:
        case [FinishChunk(reason=FinishError(failure=failure))] if failure.code == "TRANSPORT":
            row[-1:] = []
    return row


def own(session: SqlSession) -> list[Attempt]:
    return [attempt for attempt in attempts(session) if not attempt.is_inherited]


def agrees(scenario: Scenario) -> None:
    with playhead.open_store("sqlite://", create=True) as store:
        record(scenario, store)
        assert not problems(store)
        assert {session.id for session in sessions(store)} == {
            found.session for found in scenario.exchanges()
        }
        for session in sessions(store):
            check(session)
            seen = [found for found in scenario.exchanges() if found.session == session.id]
            wanted = [chunks(found.attempt) for found in seen if found.attempt is not None]
            calls = [call for call in own(session) if not call.is_summary]
            assert [chunks(call) for call in calls if call.outcome in ("finished", "failed")] == wanted
            bodies = {kept.seq: json.loads(kept.request) for kept in session.exchanges()}
            for call in calls:
                body = {
                    name: value for name, value in bodies[call.seq].items() if name not in ONLY_ON_THE_WIRE
                }
                if not _left_out_a_half(session):
                    assert dialect(call.provider or "").build_request(asked(call.request())) == body


def _left_out_a_half(session: SqlSession) -> bool:
    """Whether the process was killed in an answer: dsh forgets the half, which stands in the recording."""
    return any(event.json.get("interrupted") for event in session.events(deltas=False))


@pytest.mark.parametrize("scenario", every(telling=True))
def test_the_recording_is_the_session_that_the_runtime_wrote(scenario: Scenario) -> None:
    agrees(scenario)


@pytest.mark.heavy
@pytest.mark.parametrize("scenario", every(telling=False))
def test_any_recording_is_the_session_that_the_runtime_wrote(scenario: Scenario) -> None:
    agrees(scenario)
