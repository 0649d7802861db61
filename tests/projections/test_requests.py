from __future__ import annotations

import hashlib
from typing import Any

import pytest
from reference import cases, shared_path
from twins import Log, Twins, read_log, twins

from playhead.projections.attempt_fold import calls
from playhead.projections.attempts import attempts
from playhead.projections.folding import fold
from playhead.projections.requests import Request, request_before, requests
from playhead.projections.surface import messages, surface


def of_calls(log: Log) -> list[Request]:
    """The requests of the calls of a log that left a trace."""
    found = calls(fold(log, attempts).state)
    return list(
        requests(log, [call.seq for call in found if call.kind == "step" and call.outcome != "unanswered"])
    )


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_the_request_behind_the_end_has_the_last_header_and_all_messages(case: dict[str, Any]) -> None:
    log = read_log(shared_path(case["corpus"]))
    request = request_before(log, len(log.facts))
    wanted = case["request"]
    assert request.config == wanted["config"]
    assert [tool["name"] for tool in request.tools] == wanted["tools"]
    assert hashlib.sha256((request.system or "").encode()).hexdigest() == wanted["system_sha256"]
    assert [seq for seq, _ in request.messages] == [message["seq"] for message in case["messages"]]


@pytest.mark.parametrize("pair", twins())
def test_a_log_and_its_migrated_twin_sent_the_same_requests(pair: Twins) -> None:
    before, after = of_calls(pair.source), of_calls(pair.migrated)
    assert [told(request) for request in before] == [told(request) for request in after]
    assert before


def told(request: Request) -> tuple[Any, ...]:
    ids = [message["id"] for _, message in request.messages]
    return request.config, request.system, request.tools, ids


def test_requests_of_a_compacted_session_see_what_the_surface_was_then() -> None:
    log = read_log(shared_path("cases/20-two-compactions-two-views/log.jsonl"))
    seen = {at: [seq for seq, _ in request_before(log, at).messages] for at in (10, 26, 27, 43)}
    assert seen == {10: [4, 9], 26: [4, 9, 16, 21], 27: [26, 16, 21], 43: [42, 32, 37]}
    for request in requests(log, range(len(log.facts) + 1)):
        state = fold(log, surface, at=request.before_seq - 1).state
        assert list(request.messages) == messages(log, state)


def test_no_calls_have_no_requests_and_one_is_given_once() -> None:
    log = read_log(shared_path("cases/20-two-compactions-two-views/log.jsonl"))
    assert list(requests(log, [])) == []
    assert [request.before_seq for request in requests(log, [9, 4, 9])] == [4, 9]
    assert request_before(log, 0) == Request(0, None, None, None, ())
