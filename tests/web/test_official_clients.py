"""The official clients of OpenAI and Anthropic against served sessions of dsh: every call, streamed and as one object.

What each way to end is for a client that tries nothing again:

============================  =========================================================================
an answer                     the content that was recorded
a status                      the error that the client has for that status
an error in the stream        ``APIError``; of one object, one with a status
a broken connection           ``APIConnectionError``, or what the HTTP library below raises in a stream
an answer that makes no sense an error of its parser, or nothing: not every client looks
an answer without content     nothing: no client looks
an early end                  nothing, or an error of who misses the last event; of one object, of the connection
silence                       a timeout, from the HTTP library below once a stream began
============================  =========================================================================
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from exchanges import CHAT_RUNTIMES, MESSAGES_RUNTIMES, Scenario, scenarios
from official_clients import (
    as_anthropic_read,
    as_openai_read,
    as_openai_streamed,
    has_half_a_character,
    same_calls,
    wanted,
)
from patience import patiently
from recorded_scenarios import sessions_of
from reference import shared_path
from replayed import LONG_S, endpoint

from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunks import FinishChunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.log import Session
from playhead.eventstore.reasons import FinishError
from playhead.web.recording import RecordedCall, Recording

SAY: list[Any] = [{"role": "user", "content": "Hi"}]
BROKEN = (openai.APIConnectionError, anthropic.APIConnectionError)


def read(call: RecordedCall, url: str, timeout_s: float, *, stream: bool) -> dict[str, Any]:
    """What the client of the call's dialect makes of the next answer."""
    options: dict[str, Any] = {"api_key": "any", "max_retries": 0, "timeout": timeout_s}
    if call.dialect.path == "/chat/completions":
        with openai.OpenAI(base_url=f"{url}/v1", **options) as client:
            answer: Any = client.chat.completions.create(model="m", messages=SAY, stream=stream)
            if stream:
                return as_openai_streamed(answer)
            (choice,) = answer.choices
            return as_openai_read(choice.message, choice.finish_reason)
    with anthropic.Anthropic(base_url=url, **options) as client:
        ask: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": SAY}
        if not stream:
            return as_anthropic_read(client.messages.create(**ask))
        with client.messages.stream(**ask) as events:
            return as_anthropic_read(events.get_final_message())


def consume(call: RecordedCall, url: str, silence_s: float, *, stream: bool) -> None:
    """Have the client read the next answer, and compare what it gets, or raises, with what was recorded."""
    chunks = [timed.chunk for timed in call.chunks()]
    last = chunks[-1] if chunks else None
    has_end = isinstance(last, FinishChunk)
    failure = (
        last.reason.failure
        if isinstance(last, FinishChunk) and isinstance(last.reason, FinishError)
        else None
    )
    got: dict[str, Any] | None = None
    raised: Exception | None = None
    is_silent = not has_end or (failure is not None and failure.code in ("TIMEOUT", "ABORTED"))
    try:
        got = read(call, url, silence_s if is_silent else LONG_S, stream=stream)
    except Exception as error:
        raised = error
    where = (call, stream, got, raised)
    if is_silent:
        assert raised is not None, where
        assert _is_of_the_connection(raised), where
    elif failure is not None:
        assert _tells(failure, raised, stream=stream, first=len(chunks) == 1), where
    elif stream and call.dialect.path != "/chat/completions" and has_half_a_character(chunks):
        assert isinstance(raised, ValueError), where
    else:
        assert got is not None, where
        expected = wanted(chunks)
        if call.is_synthesised:
            expected["reason"] = BlockAssembler(chunks).finish.tag
        assert same_calls(got) == same_calls(expected), where


def _is_of_the_connection(raised: Exception) -> bool:
    return isinstance(raised, BROKEN) or type(raised).__module__.startswith(("httpx", "httpcore"))


def _tells(failure: Failure, raised: Exception | None, *, stream: bool, first: bool) -> bool:
    """Whether the client raised what ``failure`` is for it."""
    if failure.code == "EMPTY_RESPONSE":
        return True
    if failure.code in ("MALFORMED_RESPONSE", "STREAM_CLOSED"):
        return raised is not None or stream
    if failure.code == "TRANSPORT":
        return raised is not None and _is_of_the_connection(raised)
    if failure.status is not None and (first or not stream):
        return (
            isinstance(raised, openai.APIStatusError | anthropic.APIStatusError)
            and raised.status_code == failure.status
            and failure.message in str(raised)
        )
    return isinstance(raised, openai.APIError | anthropic.APIError) and failure.message in str(raised)


def consume_all(scenario: Scenario) -> None:
    with sessions_of(scenario) as sessions:
        for session in sessions.values():
            for stream in (True, False):
                patiently(partial(consume_session, session, stream=stream))


def consume_session(session: Session, silence_s: float, *, stream: bool) -> None:
    with endpoint(session) as (served, url):
        for call in Recording.of(session).calls:
            consume(call, url, silence_s, stream=stream)
    assert (served.misses, served.unserved()) == ([], [])


FEW = (
    "0.1.1rc1-tool",
    "0.1.1rc1-disconnect",
    "0.2.1rc2-http-errors",
    "0.2.1rc2-disconnect",
    "no-reference-material",
)


@pytest.mark.parametrize(
    "scenario", [param for param in scenarios(*CHAT_RUNTIMES, *MESSAGES_RUNTIMES) if param.id in FEW]
)
def test_the_official_clients_read_served_sessions(scenario: Scenario) -> None:
    shared_path("corpus")
    consume_all(scenario)


@pytest.mark.heavy
@pytest.mark.parametrize("scenario", scenarios(*CHAT_RUNTIMES, *MESSAGES_RUNTIMES))
def test_the_official_clients_read_every_served_session(scenario: Scenario) -> None:
    shared_path("corpus")
    consume_all(scenario)
