"""Chat completions as they were recorded: bytes and log of the same call tell the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from exchanges import CHAT_RUNTIMES, Scenario, scenarios
from twins import read_log, recorded_logs
from wire import bytewise, check_grammar, cut, logged, received, sent, succeeded

from playhead.adapters.providers.asked import asked
from playhead.adapters.providers.chat import (
    DEEPSEEK_CHAT,
    DEEPSEEK_CHAT_0_1_0,
    DEEPSEEK_CHAT_0_1_1,
    OPENAI_CHAT,
    ChatDialect,
)
from playhead.adapters.providers.http_failures import http_failure
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.reasons import FinishError
from playhead.replay.attempt import Attempt, attempts

SPOKEN = {
    "0.1.0rc6": DEEPSEEK_CHAT_0_1_0,
    "0.1.1rc1": DEEPSEEK_CHAT_0_1_1,
    "0.1.2a3": DEEPSEEK_CHAT,
    "0.1.2rc1": DEEPSEEK_CHAT,
    "0.1.5rc1": DEEPSEEK_CHAT,
}
"""How each runtime spoke."""

UPLOADS = {"dsh_session_log", "dsh_plugin_packages"}
"""Members of a request that are no part of what the model is asked."""

chat_scenarios = pytest.mark.parametrize("scenario", scenarios(*CHAT_RUNTIMES))


def chunks_of(attempt: Attempt) -> list[Chunk]:
    return [timed.chunk for timed in attempt.chunks()]


def failure_of(chunks: list[Chunk]) -> Failure | None:
    last = chunks[-1] if chunks else None
    return (
        last.reason.failure
        if isinstance(last, FinishChunk) and isinstance(last.reason, FinishError)
        else None
    )


@chat_scenarios
def test_a_recorded_answer_gives_the_chunks_that_the_log_has_of_it(scenario: Scenario) -> None:
    dialect = SPOKEN[scenario.runtime]
    for exchange in scenario.exchanges():
        if exchange.attempt is None:
            assert exchange.is_summary or exchange.end == "hang-until-client-gone"
            continue
        chunks, failure = received(dialect, [exchange.body])
        recorded = chunks_of(exchange.attempt)
        if exchange.status == 200 and exchange.end == "complete":
            check_grammar(chunks, failure)
            assert logged(dialect, exchange.body) == recorded
        elif exchange.status == 200:
            assert exchange.end == "reset"
            assert (chunks, failure_of(recorded)) == (recorded[:-1], failure_of(recorded))
            assert failure_of(recorded) is not None
        elif exchange.status is not None:
            told = http_failure(exchange.status, json.loads(exchange.body), exchange.response_headers, 0)
            assert recorded == [FinishChunk(FinishError(failure=told))]
        else:
            assert exchange.end == "reset-before-response"
            assert len(recorded) == 1


@chat_scenarios
def test_what_a_log_has_of_an_answer_that_was_broken_off_is_the_beginning_of_its_bytes(
    scenario: Scenario,
) -> None:
    if scenario.folder.name.startswith("migrate-from"):
        pytest.skip("the bytes of what was migrated lie with the log that was")
    dialect = SPOKEN[scenario.runtime]
    given = [received(dialect, [body])[0] for body in scenario.unlisted()]
    for log in scenario.logs().values():
        for attempt in attempts(log):
            chunks = chunks_of(attempt)
            if chunks and not isinstance(chunks[-1], FinishChunk):
                assert any(chunks == whole[: len(chunks)] for whole in given)
                if "cancel" in scenario.folder.name:
                    assert chunks in given


@chat_scenarios
def test_any_cut_of_recorded_bytes_gives_the_same_chunks(scenario: Scenario) -> None:
    dialect = SPOKEN[scenario.runtime]
    chance = random.Random(scenario.folder.name)
    for body in scenario.bodies():
        whole = received(dialect, [body])
        places = [chance.randrange(len(body) + 1) for _ in range(1 + len(body) // 50)]
        assert received(dialect, cut(body, places)) == whole
        if len(body) < 4000:
            assert received(dialect, bytewise(body)) == whole


@chat_scenarios
def test_the_log_gives_the_request_that_was_sent(scenario: Scenario) -> None:
    dialect = SPOKEN[scenario.runtime]
    for exchange in scenario.exchanges():
        sent_body = {member: value for member, value in exchange.request.items() if member not in UPLOADS}
        if exchange.attempt is not None:
            body = dialect.build_request(asked(exchange.attempt.request(), session=exchange.session))
            assert body == sent_body
            assert list(body) == list(sent_body)


@chat_scenarios
def test_a_request_that_was_sent_is_built_again_from_what_it_asks(scenario: Scenario) -> None:
    dialect = SPOKEN[scenario.runtime]
    for request in scenario.requests():
        sent_body = {member: value for member, value in request.items() if member not in UPLOADS}
        assert dialect.build_request(dialect.read_request(sent_body)) == sent_body


EARLIER = ("before", "before-torn", "after-resume")
"""Folders with what a log was before it grew; the folder ``after`` has all of it."""

whole_logs = pytest.mark.parametrize(
    "path", [log for log in recorded_logs() if not any(f"/{folder}/" in str(log.id) for folder in EARLIER)]
)


def is_chat(path: Path, attempt: Attempt) -> bool:
    """Whether the attempt was recorded in this format: in every log to format 3, and where those were migrated."""
    if "0.2.1rc2" not in path.as_posix():
        return True
    return "migrate-from" in path.as_posix() and attempt.call.seq < _last_end_seed(path)


def _last_end_seed(path: Path) -> int:
    ends = [event.seq for event in read_log(path).facts if event.type == "session/end-seed"]
    return max(ends, default=0)


def content(chunks: list[Chunk]) -> Any:
    """What survives across formats: text, thinking and calls, and how it ended."""
    assembled = BlockAssembler(chunks)
    texts: dict[str, str] = {}
    calls = []
    for block in assembled.interrupted_blocks() if not succeeded(chunks) else assembled.blocks():
        value = block.to_json()
        if value["type"] == "tool-call":
            calls.append((value["id"], value["name"], value["arguments"]))
        else:
            texts[value["type"]] = texts.get(value["type"], "") + value["text"]
    return texts, calls, chunks[-1].to_json().get("reason") if succeeded(chunks) else None


def decoded(dialect: ChatDialect, chunks: list[Chunk]) -> list[Chunk]:
    return logged(dialect, sent(dialect.encode(chunks, model="m")))


@whole_logs
def test_recorded_chunks_survive_their_wire_events(path: Path) -> None:
    for attempt in attempts(read_log(path)):
        chunks = chunks_of(attempt)
        if not chunks or not is_chat(path, attempt):
            continue
        found = decoded(DEEPSEEK_CHAT, chunks)
        failure = failure_of(chunks)
        if isinstance(chunks[-1], FinishChunk) and (failure is None or failure.code != "TRANSPORT"):
            if failure is None or failure.status is None:
                assert found == chunks
            else:
                answer = DEEPSEEK_CHAT.error(failure)
                assert http_failure(answer.status, answer.body, answer.headers, 0) == failure
        else:
            # A connection that broke: what had come, but for a block that had only been begun.
            before = chunks[:-1] if failure else chunks
            assert found[:-1] == ([] if [chunk.tag for chunk in before] == ["block-start"] else before)
            assert failure_of(found) is not None


@whole_logs
def test_recorded_chunks_of_any_format_keep_content_calls_and_finish(path: Path) -> None:
    for attempt in attempts(read_log(path)):
        chunks = chunks_of(attempt)
        if chunks:
            for dialect in (DEEPSEEK_CHAT, OPENAI_CHAT):
                assert content(decoded(dialect, chunks)) == content(chunks)
