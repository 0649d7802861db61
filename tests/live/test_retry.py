"""Retries: every recorded case, and the arithmetic of the waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_places import Place
from reference import cases, vectors
from scripted_model import ScriptedModel, counting, ticking, user

from playhead.eventstore.failures import Failure
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.options import AgentOptions
from playhead.live.retry import Retries, RetryPolicy

Json = dict[str, Any]
WANTED = frozenset({"llm/retry", "llm/retry-started", "assistant/message", "step/end", "turn/end"})


def policy_of(case: Json) -> RetryPolicy:
    policy, backoff = case["policy"], case["policy"]["backoff"]
    return RetryPolicy(
        mode=policy["mode"],
        most=policy.get("maxRetries", 5),
        initial_ms=backoff["initialDelayMs"],
        max_ms=backoff["maxDelayMs"],
        jitter=backoff["jitterRatio"],
    )


def answer_of(attempt: Any) -> Json:
    if attempt == "ok":
        return {"text": "ok"}
    failure = dict(attempt)
    if "retryAfterMs" in failure:
        failure["providerRetryAfterMs"] = failure.pop("retryAfterMs")
    return failure


async def played(case: Json, place: Place) -> list[list[Any]]:
    session = place.live()
    model = ScriptedModel([answer_of(attempt) for attempt in case["attempts"]])
    options = AgentOptions(model, CallConfig(provider="mock", model="m"), clock=ticking(), new_id=counting())
    agent = Agent(session, options)
    sample = case.get("random", 0.5)
    retries = Retries(session, policy_of(case), sample=lambda: sample, new_id=counting("chain"))
    agent.hooks.request_error.add(retries)
    seen: list[list[Any]] = []

    def note(event: Recorded) -> None:
        if event.type in WANTED:
            data = event.json
            if event.type == "assistant/message":
                data = {"turn": data["turn"], "step": data["step"]}
            seen.append([event.type, data])
        if event.type == "llm/retry" and "cancelAfterMs" in case:
            # From here on, not from the start: how long the call and its commit took is none of the case.
            asyncio.get_running_loop().call_later(
                case["cancelAfterMs"] / 1000, agent.cancel, {"kind": "user"}
            )

    session.observe(note)
    agent.followup(user("m1"))
    await agent.when_idle()
    return seen


@pytest.mark.parametrize("case", cases("llm_retry", "scenarios"))
def test_a_recorded_failure_is_retried_as_recorded(case: Json, place: Place) -> None:
    assert asyncio.run(played(case, place)) == case["expect"]


def test_the_default_policy_is_the_recorded_one() -> None:
    policy, expected = RetryPolicy(), vectors("llm_retry")["default_policy"]
    assert {
        "mode": policy.mode,
        "maxRetries": policy.most,
        "retryableCodes": sorted(policy.codes),
        "initialDelayMs": policy.initial_ms,
        "maxDelayMs": policy.max_ms,
        "jitterRatio": policy.jitter,
    } == expected


@given(retry=st.integers(1, 5000), sample=st.floats(0, 1), jitter=st.floats(0, 1))
def test_no_wait_is_negative_or_longer_than_the_longest(retry: int, sample: float, jitter: float) -> None:
    policy = RetryPolicy("always", jitter=jitter)
    wait = policy.delay_ms(Failure(message="m", code="AUTH"), retry, sample)
    assert wait is not None
    assert 0 <= wait <= policy.max_ms
